"""Whose request it is: what one tenant's key made, another's can neither read nor find."""

import hashlib
from collections.abc import Mapping

ANYONE = "default"


def tenant_of(headers: Mapping[str, str]) -> str:
    """The tenant of a request, made from its API key; `default` without one. Header names are in lower case. The key itself
    cannot be told from it."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    key = token.strip() if scheme.lower() == "bearer" and token.strip() else headers.get("x-api-key", "").strip()
    return hashlib.sha256(b"antiphon tenant\0" + key.encode("utf-8", "surrogatepass")).hexdigest()[:32] if key else ANYONE
