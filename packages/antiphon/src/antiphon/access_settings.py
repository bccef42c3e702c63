"""Settings of who may ask `antiphon serve`, and how much a client may ask of it before it has said what it wants."""

from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta

from antiphon.engine_settings import ACCESS, EngineSettings


class AccessSettings(EngineSettings, frozen=True, kw_only=True):
    """Keys, TLS, and limits of a request."""

    api_key: Annotated[
        str | None,
        Meta(
            description="Key that clients must send (x-api-key or Bearer); better set in the environment.",
            extra={**ACCESS, "secret": True},
        ),
    ] = None
    keys: Annotated[
        dict[str, Any],
        Meta(
            description="API keys, a table for each: its hash, its models and its limits (`antiphon keys new`).",
            extra={**ACCESS, "file_only": True, "secret": True},
        ),
    ] = {}
    tls_certificate: Annotated[
        Path | None, Meta(description="Certificate chain (PEM) to serve HTTPS with; needs --tls-key.", extra=ACCESS)
    ] = None
    tls_key: Annotated[Path | None, Meta(description="Private key (PEM) of the certificate.", extra=ACCESS)] = None
    max_header_bytes: Annotated[int, Meta(description="Requests with more bytes of headers get a 431.", ge=1024, extra=ACCESS)] = 64 * 1024
    max_body_bytes: Annotated[int, Meta(description="Larger request bodies get a 413.", ge=1024, extra=ACCESS)] = 32 * 1024 * 1024
    max_messages: Annotated[int, Meta(description="Requests with more messages get a 400. 0: no limit.", ge=0, extra=ACCESS)] = 20_000
    max_tools: Annotated[int, Meta(description="Requests with more tools get a 400. 0: no limit.", ge=0, extra=ACCESS)] = 2048
    header_seconds: Annotated[
        float, Meta(description="Time for a request's headers to arrive; then the connection ends with a 408.", ge=0.05, extra=ACCESS)
    ] = 30.0
    body_seconds: Annotated[float, Meta(description="Time for a request's body to arrive; then it gets a 408.", ge=0.05, extra=ACCESS)] = (
        120.0
    )
    reader_seconds: Annotated[
        float,
        Meta(description="A client that leaves its answer unread for so long, with more to send, is disconnected.", ge=0.05, extra=ACCESS),
    ] = 120.0
