"""HTTPS: certificate and key, checked before anything slow starts, and read again when they are renewed."""

import ssl
from pathlib import Path

from antiphon_turns.errors import ConfigError


def tls_context(certificate: Path | None, key: Path | None) -> ssl.SSLContext | None:
    """A server's context, TLS 1.2 at least; None without a certificate. Raises ConfigError."""
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        raise ConfigError("HTTPS needs both --tls-certificate and --tls-key")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE
    context.set_alpn_protocols(["http/1.1"])
    load_certificate(context, certificate, key)
    return context


def load_certificate(context: ssl.SSLContext, certificate: Path, key: Path) -> None:
    """Reads both files; connections from now on get them. Raises ConfigError, and then leaves the context as it was."""
    for path, flag in ((certificate, "--tls-certificate"), (key, "--tls-key")):
        try:
            path.read_bytes()
        except OSError as error:
            raise ConfigError(f"cannot read {flag} {path}: {error.strerror}") from None
    try:
        trial = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        trial.load_cert_chain(certificate, key, password=_no_password)
        context.load_cert_chain(certificate, key, password=_no_password)
    except (ssl.SSLError, ValueError) as error:
        raise ConfigError(f"{certificate} and {key} are not a certificate chain and its unencrypted private key in PEM: {error}") from None


def _no_password() -> str:
    """Without this, an encrypted key would ask at the terminal."""
    raise ValueError("the key is encrypted")
