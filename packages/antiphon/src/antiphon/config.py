"""Settings of `antiphon serve`: one record, every field with a default and a sentence.

Precedence: flag > environment > file > default. The command line, the variables and the file's keys are all made from the
fields below: `http_port` is `--http-port`, ANTIPHON_HTTP_PORT and `http_port = 8123`.
"""

import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_type_hints

from msgspec import Meta, Struct

from antiphon.aliases import alias_entries
from antiphon_protocols.profiles import DEFAULT
from antiphon_turns import ArgumentStreaming, CutCalls
from antiphon_turns.errors import ConfigError

DEFAULT_FILE = Path("antiphon.toml")

MODEL = {"panel": "Model and engine"}
CATALOG = {"panel": "Names and catalog"}
HTTP = {"panel": "HTTP"}
PARSING = {"panel": "Parsing and prompt"}
STATE = {"panel": "State"}
MOCK = {"panel": "Mock engine"}
RUNNING = {"panel": "Running"}


class Settings(Struct, frozen=True, kw_only=True):
    """What the operator chose. A `Meta` gives the sentence of `--help`, its panel, bounds and further spellings."""

    engine: Annotated[
        Literal["embedded", "mock"],
        Meta(description="embedded: llama.cpp on this CPU. mock: a script, no weights.", extra=MODEL),
    ] = "embedded"
    model_path: Annotated[
        Path | None,
        Meta(description="A .gguf file, or a folder with tokenizer.json (mock). Default: SmolLM2-135M-Instruct.", extra=MODEL),
    ] = None
    model_name: Annotated[str | None, Meta(description="Name that clients ask for. Default: the model's own.", extra=MODEL)] = None
    context_length: Annotated[
        int | None,
        Meta(description="Tokens of prompt plus answer. Default: what the model was trained for.", ge=64, extra=MODEL),
    ] = None
    threads: Annotated[
        int | None,
        Meta(description="CPU threads of the embedded engine. Default: all cores for prompts, one fewer to decode.", ge=1, extra=MODEL),
    ] = None
    slots: Annotated[
        int | None,
        Meta(
            description="Sessions the embedded engine holds and serves at once. Default: up to 4, in a sixteenth of the memory.",
            ge=1,
            le=64,
            extra=MODEL,
        ),
    ] = None
    block_size: Annotated[int, Meta(description="Tokens of a block in the embedded engine's KV events.", ge=1, extra=MODEL)] = 16

    aliases: Annotated[
        list[str],
        Meta(
            description="PATTERN or PATTERN=MODEL: a further name to answer to; '*' for all. Repeatable.",
            extra={**CATALOG, "flag": "--alias", "alias": "--model-alias"},
        ),
    ] = []
    vendor_aliases: Annotated[bool, Meta(description="Answer to the vendors' names too: claude-*, gpt-*, ...", extra=CATALOG)] = True
    profile: Annotated[str, Meta(description="Metadata profile: the native model that clients take this one for.", extra=CATALOG)] = DEFAULT
    profiles: Annotated[dict[str, Any], Meta(description="Profiles of the operator's own.", extra={**CATALOG, "file_only": True})] = {}
    reported_context_length: Annotated[
        int | None,
        Meta(
            description="Messages: scale token counts as if the context had this length, for clients that believe in a fixed one.",
            ge=1024,
            extra=CATALOG,
        ),
    ] = None

    http_host: Annotated[str, Meta(description="Address to listen on.", extra=HTTP)] = "127.0.0.1"
    http_port: Annotated[int, Meta(description="Port to listen on; 0 takes a free one.", ge=0, le=65535, extra=HTTP)] = 8000
    enable_anthropic_api: Annotated[bool, Meta(description="Serve Anthropic Messages beside Chat Completions.", extra=HTTP)] = True
    enable_websocket: Annotated[
        bool, Meta(description="Serve Responses over WebSocket too; without it upgrades get a 426.", extra=HTTP)
    ] = True
    enable_metrics: Annotated[bool, Meta(description="Serve GET /metrics, in the text form of Prometheus.", extra=HTTP)] = True
    max_body_bytes: Annotated[int, Meta(description="Larger request bodies get a 413.", ge=1024, extra=HTTP)] = 32 * 1024 * 1024
    max_turns: Annotated[int, Meta(description="Turns taken at once; more are told to come back. 0: no limit.", ge=0, extra=HTTP)] = 256
    max_choices: Annotated[int, Meta(description="Most choices (n) of one Chat or Completions request.", ge=1, extra=HTTP)] = 16
    api_key: Annotated[
        str | None, Meta(description="Key that clients must send (x-api-key or Bearer); better set in the environment.", extra=HTTP)
    ] = None
    keepalive_seconds: Annotated[float, Meta(description="Silence on a stream before a keep-alive leaves.", ge=0.1, extra=HTTP)] = 10.0

    strip_anthropic_preamble: Annotated[
        bool, Meta(description="Cut the varying billing header that defeats the prefix cache.", extra=PARSING)
    ] = True
    stabilizer_rules: Annotated[
        Path | None, Meta(description="TOML file of your own rules for lines of prompts that vary without meaning.", extra=PARSING)
    ] = None
    replay: Annotated[
        Literal["family", "none", "after_last_user", "after_last_plain_assistant", "after_last_final", "all"],
        Meta(description="Past turns that keep their reasoning. family: as trained; requests may ask for more.", extra=PARSING),
    ] = "family"
    drop_cold_reasoning: Annotated[
        bool, Meta(description="Leave reasoning before the last user message out where the cache holds nothing of it.", extra=PARSING)
    ] = False
    pin_effort: Annotated[
        bool, Meta(description="Where the prompt begins with the effort, the first one of a conversation stays.", extra=PARSING)
    ] = False
    enable_streaming_tool_dispatch: Annotated[
        bool, Meta(description="Chat: a typed side event the moment a call is complete.", extra=PARSING)
    ] = False
    enable_streaming_reasoning_dispatch: Annotated[
        bool, Meta(description="Chat: a typed side event at the end of a reasoning block.", extra=PARSING)
    ] = False
    chat_reasoning: Annotated[
        Literal["reasoning_content", "both"],
        Meta(description="Chat: the key of reasoning; both adds the key `reasoning`.", extra=PARSING),
    ] = "reasoning_content"
    tool_call_parser: Annotated[
        str | None,
        Meta(description="Family of tool calls. Default: read from the template.", extra={**PARSING, "alias": "--dyn-tool-call-parser"}),
    ] = None
    reasoning_parser: Annotated[
        str | None,
        Meta(description="Family of reasoning. Default: read from the template.", extra={**PARSING, "alias": "--dyn-reasoning-parser"}),
    ] = None
    argument_streaming: Annotated[
        ArgumentStreaming,
        Meta(description="whole: a call leaves when it is complete. incremental: its bytes as they are decoded.", extra=PARSING),
    ] = "whole"
    cut_calls: Annotated[
        CutCalls, Meta(description="A call cut by the limit. honest: left out. recover: with {} where that cannot run.", extra=PARSING)
    ] = "honest"

    state_dir: Annotated[
        Path | None, Meta(description="Folder of what outlives a run. Default: antiphon in $XDG_STATE_HOME.", extra=STATE)
    ] = None
    enable_store: Annotated[
        bool, Meta(description="Keep responses, so that previous_response_id, retrieval and background work.", extra=STATE)
    ] = True
    store: Annotated[
        Path | None,
        Meta(description="SQLite file of the responses; :memory: keeps them while the server runs. Default: in --state-dir.", extra=STATE),
    ] = None
    store_days: Annotated[float, Meta(description="Days a response is kept.", ge=0.001, extra=STATE)] = 30.0
    store_max_bytes: Annotated[int, Meta(description="Bytes of all responses kept; the oldest go first.", ge=1 << 20, extra=STATE)] = (
        1 << 30
    )
    seal_keys: Annotated[
        Path | None,
        Meta(description="File of keys that seal reasoning, one a line; the first seals, all open. Default: made once.", extra=STATE),
    ] = None

    ledger_bytes: Annotated[int, Meta(description="Bytes of sampled turns held, for exact replay.", ge=0, extra=STATE)] = 256 << 20
    compared_bytes: Annotated[int, Meta(description="Bytes of prompts held, to explain cache misses.", ge=0, extra=STATE)] = 128 << 20

    mock_script: Annotated[Path | None, Meta(description="Rules, one JSON object a line: when, say, finish.", extra=MOCK)] = None
    mock_chunk_tokens: Annotated[int, Meta(description="Tokens that leave the engine together.", ge=1, extra=MOCK)] = 1
    mock_token_delay_ms: Annotated[float, Meta(description="Simulated decoding time of a token.", ge=0, extra=MOCK)] = 0.0
    mock_speed: Annotated[
        Literal["none", "b200", "laptop"], Meta(description="Simulated hardware: how long prompts and tokens take.", extra=MOCK)
    ] = "none"
    mock_cache_blocks: Annotated[int, Meta(description="Blocks of the prefix cache; 0: nothing is cached.", ge=0, extra=MOCK)] = 1 << 16
    mock_block_size: Annotated[int, Meta(description="Tokens of a block of the prefix cache.", ge=1, extra=MOCK)] = 16
    mock_fault: Annotated[
        str | None,
        Meta(description="Fail on purpose: crash-after=N, hang-after=N, cut-after=N, slow=FACTOR or wrong-ids.", extra=MOCK),
    ] = None

    trace_tokens: Annotated[Path | None, Meta(description="Append one JSON line of exact token ids a turn.", extra=RUNNING)] = None
    shutdown_grace_seconds: Annotated[float, Meta(description="Time for running turns to finish after SIGTERM.", ge=0, extra=RUNNING)] = (
        30.0
    )
    log_level: Annotated[Literal["debug", "info", "warning", "error"], Meta(description="How much to log.", extra=RUNNING)] = "info"


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
    if "aliases" in named:
        try:
            named["aliases"] = alias_entries(named["aliases"])
        except ConfigError as error:
            raise ConfigError(f"{path}: {error.message}") from None
    if not isinstance(named.get("profiles", {}), dict):
        raise ConfigError(f"{path}: profiles must be tables, [profiles.NAME]")
    return named


def is_file_only(field: str) -> bool:
    """Whether a setting has no flag: a table can only stand in a file."""
    return bool(_extra(field).get("file_only"))


def flag_of(field: str) -> str:
    """A setting's flag: its name, or the one its `Meta` gives."""
    return str(_extra(field).get("flag", f"--{field.replace('_', '-')}"))


def _extra(field: str) -> dict[str, Any]:
    """What a field's `Meta` says for the command line."""
    extra: dict[str, Any] = get_args(get_type_hints(Settings, include_extras=True)[field])[1].extra
    return extra
