"""Settings of `antiphon serve`: one record, every field with a default. Precedence: flag > environment > file > default."""

import tomllib
from pathlib import Path
from typing import Any, Literal

import msgspec

from antiphon_turns import ArgumentStreaming, CutCalls
from antiphon_turns.errors import ConfigError

DEFAULT_FILE = Path("antiphon.toml")


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What the operator chose."""

    engine: Literal["embedded", "mock"] = "embedded"
    model_path: Path | None = None
    model_name: str | None = None
    context_length: int | None = None
    threads: int | None = None
    http_host: str = "127.0.0.1"
    http_port: int = 8000
    enable_anthropic_api: bool = True
    strip_anthropic_preamble: bool = True
    enable_streaming_tool_dispatch: bool = False
    enable_streaming_reasoning_dispatch: bool = False
    tool_call_parser: str | None = None
    reasoning_parser: str | None = None
    argument_streaming: ArgumentStreaming = "whole"
    cut_calls: CutCalls = "honest"
    trace_tokens: Path | None = None
    mock_script: Path | None = None
    mock_chunk_tokens: int = 1
    mock_token_delay_ms: float = 0.0
    max_body_bytes: int = 32 * 1024 * 1024
    keepalive_seconds: float = 10.0
    shutdown_grace_seconds: float = 30.0
    log_level: Literal["debug", "info", "warning", "error"] = "info"


def read_config_file(path: Path | None) -> dict[str, Any]:
    """The file's settings by field name; without a path `antiphon.toml` of the working folder is read if it is there.

    Raises ConfigError for a file that cannot be read and for a key that is no setting.
    """
    if path is None:
        if not DEFAULT_FILE.is_file():
            return {}
        path = DEFAULT_FILE
    try:
        values = tomllib.loads(path.read_text("utf-8"))
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read the configuration file {path}: {error}") from error
    named = {key.replace("-", "_"): value for key, value in values.items()}
    unknown = sorted(set(named) - set(Settings.__struct_fields__))
    if unknown:
        raise ConfigError(f"{path}: no setting is called {', '.join(unknown)}; `antiphon serve --help` lists them")
    return named
