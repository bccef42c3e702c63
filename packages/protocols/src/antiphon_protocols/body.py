"""From bytes to a typed wire body: JSON, shape, and refusals in the vendors' wording (`messages.0.content: ...`)."""

import re
from collections.abc import Collection, Mapping
from typing import Any, TypeVar

import msgspec

from antiphon_turns.errors import InvalidRequest, UnsupportedFeature

T = TypeVar("T")

_KEYS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_AT = re.compile(r"(?P<what>.*) - at `(?P<path>[^`]*)`", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(?P<name>.*)`", re.DOTALL)
_BAD_VALUE = re.compile(r"Invalid (?:enum )?value (?P<value>.*)", re.DOTALL)
_MAX_DETAIL = 300
_ESCAPE = re.compile(rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}(?P<pair>\\u[dD][c-fC-F][0-9a-fA-F]{2})?|u[dD][c-fC-F][0-9a-fA-F]{2}|.)", re.DOTALL)
_SURROGATE = re.compile(rb"\\u[dD][89abAB]|\\u[dD][c-fC-F]")
_NAME = re.compile(r"[^A-Za-z0-9_.\-]")
_MAX_NAME = 64
_MAX_NAMES = 32


def decode(decoder: msgspec.json.Decoder[T], body: bytes, headers: Mapping[str, str]) -> tuple[T, tuple[str, ...]]:
    """The typed body and the names of its top-level fields. Raises InvalidRequest or UnsupportedFeature (a content
    block of a type that cannot be honoured), both with the path of the field at fault."""
    content_type = headers.get("content-type", "application/json")
    if "json" not in content_type.lower():
        raise InvalidRequest(f"content-type: must be application/json, not {content_type[:80]!r}", param="content-type")
    try:
        # Pieces that are only passed on, or read later, are not decoded now; their bytes have to be text all the same.
        body.decode()
        return _decode(decoder, body)
    except msgspec.ValidationError as error:
        raise _refusal(str(error)) from None
    except RecursionError:
        raise InvalidRequest("body: the JSON is nested too deeply") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"body: invalid JSON: {error}"[:_MAX_DETAIL]) from None


def _decode(decoder: msgspec.json.Decoder[T], body: bytes) -> tuple[T, tuple[str, ...]]:
    try:
        return decoder.decode(body), tuple(_KEYS.decode(body))
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:
        # Clients that cut tool output at a fixed length send half an emoji as a lone surrogate; one bad
        # character must not end the session.
        mended = repaired(body)
        if mended == body:
            raise
        return decoder.decode(mended), tuple(_KEYS.decode(mended))


def _replace_lone_surrogate(found: re.Match[bytes]) -> bytes:
    escape = found[0]
    lone = escape[1:2] == b"u" and found["pair"] is None
    return b"\\ufffd" if lone else escape


def decode_part(decoder: msgspec.json.Decoder[T], raw: bytes, path: str) -> T:
    """One piece of a body that was kept as raw JSON. Raises as `decode` does, with the piece's own `path` in front."""
    try:
        return decoder.decode(raw)
    except msgspec.ValidationError as error:
        raise _refusal(str(error), under=path) from None
    except RecursionError:
        raise InvalidRequest(f"{path}: the JSON is nested too deeply", param=path) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise invalid(path, f"invalid JSON: {error}") from None


def repaired(body: bytes) -> bytes:
    """The same JSON with every lone surrogate replaced, for pieces that are decoded later than the body is."""
    return _ESCAPE.sub(_replace_lone_surrogate, body) if _SURROGATE.search(body) else body


def _refusal(text: str, under: str = "") -> InvalidRequest | UnsupportedFeature:
    """A decoder's complaint as an error of ours, with the path in the vendors' spelling."""
    found = _AT.fullmatch(text)
    what, path = (found["what"], _wire_path(found["path"])) if found else (text, "")
    path = f"{under}.{path}".strip(".")
    missing = _MISSING.fullmatch(what)
    if missing:
        return invalid(f"{path}.{missing['name']}".lstrip("."), "Field required")
    bad = _BAD_VALUE.fullmatch(what)
    if bad and path.endswith(".type"):
        path = path.removesuffix(".type")
        return UnsupportedFeature(f"{path}: type {bad['value'][:_MAX_DETAIL]} is not supported", param=path)
    if bad:
        what = f"{bad['value']} is not one of the accepted values"
    return invalid(path or "body", what.replace("`", ""))


def _wire_path(path: str) -> str:
    """`$.messages[0].content` -> `messages.0.content`."""
    return re.sub(r"\[([^\]]*)\]", r".\1", path).removeprefix("$").lstrip(".")


def invalid(path: str, what: str) -> InvalidRequest:
    """An InvalidRequest in the vendors' wording."""
    return InvalidRequest(f"{path}: {what[:_MAX_DETAIL]}", param=path)


def refuse(path: str, why: str) -> UnsupportedFeature:
    """An UnsupportedFeature in the same wording."""
    return UnsupportedFeature(f"{path}: {why}", param=path)


def check_range(path: str, value: float | None, low: float, high: float) -> None:
    """Raises InvalidRequest unless `value` is absent or within the closed range."""
    if value is not None and not low <= value <= high:
        raise invalid(path, f"must be between {low:g} and {high:g}, not {value:g}")


def check_positive(path: str, value: int | None) -> None:
    """Raises InvalidRequest unless `value` is absent or a positive integer."""
    if value is not None and value <= 0:
        raise invalid(path, f"must be greater than 0, not {value}")


def object_schema(raw: msgspec.Raw | msgspec.UnsetType, path: str) -> str | None:
    """A JSON schema as the client spells it; None where it is absent or null. Raises InvalidRequest for anything but an object."""
    text = bytes(raw).decode() if isinstance(raw, msgspec.Raw) else "null"
    if text == "null":
        return None
    if not text.startswith("{"):
        raise invalid(path, "must be a JSON schema object")
    return text


def is_set(value: Any) -> bool:
    """Whether a field asks for something: null, false, zero and empty containers do not."""
    return value not in (None, 0, "", {}, [])


def unknown_fields(names: Collection[str], known: Collection[str]) -> tuple[str, ...]:
    """Names outside `known`, safe to be logged and sent in a header, bounded in number."""
    return safe_names(name for name in names if name not in known)


def safe_names(names: Any) -> tuple[str, ...]:
    """Client-chosen names reduced to header-safe characters and a bounded length and number."""
    return tuple(_NAME.sub("?", name)[:_MAX_NAME] for name, _ in zip(names, range(_MAX_NAMES), strict=False))
