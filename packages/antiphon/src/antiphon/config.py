"""Settings of `antiphon serve` and `antiphon worker`: a record each, every field with a default and a sentence.

Precedence: flag > environment > file > default. The command line, the variables and the file's keys are all made from the
fields below: `http_port` is `--http-port`, ANTIPHON_HTTP_PORT and `http_port = 8123`.
"""

import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_type_hints

from msgspec import Meta

from antiphon.access_settings import AccessSettings
from antiphon.aliases import alias_entries
from antiphon.engine_settings import CACHE, CATALOG, HTTP, PANELS, PARSING, ROUTING, RUNNING, STATE, WORKER, WORKERS, EngineSettings
from antiphon_protocols.profiles import DEFAULT
from antiphon_turns import ArgumentStreaming, CutCalls, RouterMode
from antiphon_turns.errors import ConfigError

DEFAULT_FILE = Path("antiphon.toml")
WORKER_FILE = Path("antiphon-worker.toml")


class Settings(AccessSettings, frozen=True, kw_only=True):
    """What the operator of `antiphon serve` chose."""

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

    enable_anthropic_api: Annotated[bool, Meta(description="Serve Anthropic Messages beside Chat Completions.", extra=HTTP)] = True
    enable_websocket: Annotated[
        bool, Meta(description="Serve Responses over WebSocket too; without it upgrades get a 426.", extra=HTTP)
    ] = True
    enable_metrics: Annotated[bool, Meta(description="Serve GET /metrics, in the text form of Prometheus.", extra=HTTP)] = True
    max_turns: Annotated[int, Meta(description="Turns taken at once; more are told to come back. 0: no limit.", ge=0, extra=HTTP)] = 256
    max_choices: Annotated[int, Meta(description="Most choices (n) of one Chat or Completions request.", ge=1, extra=HTTP)] = 16
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
    argument_streaming: Annotated[
        ArgumentStreaming,
        Meta(description="whole: a call leaves when it is complete. incremental: its bytes as they are decoded.", extra=PARSING),
    ] = "whole"
    cut_calls: Annotated[
        CutCalls, Meta(description="A call cut by the limit. honest: left out. recover: with {} where that cannot run.", extra=PARSING)
    ] = "honest"

    cache_scope: Annotated[
        Literal["auto", "shared", "tenant"],
        Meta(
            description="Who shares cached prefixes: everybody, or those with the same API key. auto: tenant where the file has keys.",
            extra=CACHE,
        ),
    ] = "auto"
    max_retain_seconds: Annotated[
        float, Meta(description="Longest time a request may have its prompt kept in the cache; 0: none.", ge=0, extra=CACHE)
    ] = 3600.0
    speculative_prefill: Annotated[
        Literal["asked", "always", "off"],
        Meta(description="Compute the next prompt's beginning after a turn: where the request hints at it, always, or never.", extra=CACHE),
    ] = "asked"
    speculative_prefills: Annotated[int, Meta(description="How many of these run at once.", ge=1, extra=CACHE)] = 4

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

    worker_urls: Annotated[
        list[str],
        Meta(
            description="URL or NAME=URL of a worker, then any of ,kind=KIND ,block_tokens=N ,every_address. Repeatable. Without workers"
            " the engine runs in this process.",
            extra={**WORKERS, "flag": "--worker"},
        ),
    ] = []
    workers: Annotated[
        Path | None, Meta(description="TOML file of workers, read again when it changes (docs/workers.md).", extra=WORKERS)
    ] = None
    local_worker: Annotated[
        bool, Meta(description="Beside the workers, run --engine in this process as one more, named local.", extra=WORKERS)
    ] = False
    worker_key: Annotated[
        str | None, Meta(description="Key that the workers ask for; better set in the environment.", extra={**WORKERS, "secret": True})
    ] = None
    processes: Annotated[
        int, Meta(description="Processes that share the port; more than one needs workers.", ge=1, le=256, extra=WORKERS)
    ] = 1
    worker_first_token_seconds: Annotated[
        float, Meta(description="Silence before a turn's first token after which a worker has failed it.", ge=0.1, extra=WORKERS)
    ] = 600.0
    worker_token_seconds: Annotated[
        float, Meta(description="Silence between two tokens after which a worker has failed a turn.", ge=0.1, extra=WORKERS)
    ] = 60.0
    migration_limit: Annotated[int, Meta(description="How often a turn may go on on another worker. 0: never.", ge=0, extra=WORKERS)] = 3
    migration_max_tokens: Annotated[
        int, Meta(description="Turns of more tokens, prompt included, do not move to another worker. 0: no limit.", ge=0, extra=WORKERS)
    ] = 0

    router_mode: Annotated[
        RouterMode, Meta(description="kv: where most of the prompt is cached, weighed against load. The rest do not look.", extra=ROUTING)
    ] = "kv"
    router_affinity: Annotated[
        Literal["off", "soft", "strict"],
        Meta(description="A session's own worker: preferred (soft), or the only one while it is there (strict).", extra=ROUTING),
    ] = "soft"
    router_group_children: Annotated[
        bool, Meta(description="Sub-agents belong to the worker of the session that started them.", extra=ROUTING)
    ] = False
    router_queue_threshold: Annotated[
        float,
        Meta(
            description="Turns wait while every worker has more than so many steps of prompt to compute. 0: nothing waits here.",
            ge=0,
            extra=ROUTING,
        ),
    ] = 1.0
    router_queue_limit: Annotated[
        int, Meta(description="Turns that wait for a worker; more are told to come back.", ge=0, extra=ROUTING)
    ] = 1024
    kv_siblings: Annotated[
        list[str],
        Meta(
            description="URL of another frontend whose KV index this one begins with. Repeatable; the first that answers is taken.",
            extra={**ROUTING, "flag": "--kv-sibling"},
        ),
    ] = []
    enable_router_api: Annotated[
        bool, Meta(description="Let others ask the router where to send what they serve themselves, under /router.", extra=ROUTING)
    ] = False

    access_log: Annotated[
        Path | None, Meta(description="Append one JSON line a request, without content; - is standard output.", extra=RUNNING)
    ] = None
    record: Annotated[
        Path | None,
        Meta(description="Folder to keep requests and what became of them in, to be asked again (docs/recording.md).", extra=RUNNING),
    ] = None
    record_content: Annotated[
        Literal["none", "hash", "full"], Meta(description="What --record keeps of what was said: nothing, hashes, or all.", extra=RUNNING)
    ] = "hash"
    record_tokens: Annotated[bool, Meta(description="Keep the exact token ids too; needs --record-content full.", extra=RUNNING)] = False
    record_max_bytes: Annotated[int, Meta(description="Bytes of all recorded files; the oldest go first.", ge=1 << 20, extra=RUNNING)] = (
        1 << 30
    )
    otel_endpoint: Annotated[
        str | None,
        Meta(description="Send OpenTelemetry traces there by OTLP over HTTP; needs antiphon[otel] (docs/deploy.md).", extra=RUNNING),
    ] = None
    trace_tokens: Annotated[Path | None, Meta(description="Append one JSON line of exact token ids a turn.", extra=RUNNING)] = None


class WorkerSettings(EngineSettings, frozen=True, kw_only=True):
    """What the operator of `antiphon worker` chose."""

    http_port: Annotated[int, Meta(description="Port to listen on; 0 takes a free one.", ge=0, le=65535, extra=HTTP)] = 8100
    stream_port: Annotated[
        int, Meta(description="Port of the token stream to frontends of ours; 0 takes a free one.", ge=0, le=65535, extra=WORKER)
    ] = 0
    enable_kv_events: Annotated[bool, Meta(description="Publish what the prefix cache holds, as vLLM does.", extra=WORKER)] = True
    kv_events_port: Annotated[int, Meta(description="Port of these events; 0 takes a free one.", ge=0, le=65535, extra=WORKER)] = 0
    kv_replay_port: Annotated[
        int, Meta(description="Port where missed events are asked for; 0 takes a free one.", ge=0, le=65535, extra=WORKER)
    ] = 0
    worker_key: Annotated[
        str | None, Meta(description="Key that frontends must send; better set in the environment.", extra={**WORKER, "secret": True})
    ] = None


FILES: dict[type[EngineSettings], Path] = {Settings: DEFAULT_FILE, WorkerSettings: WORKER_FILE}


def read_config_file(path: Path | None, record: type[EngineSettings] = Settings) -> dict[str, Any]:
    """The file's settings by field name; without a path the record's file of the working folder is read if it is there.

    Raises ConfigError for a file that cannot be read and for a key that is no setting.
    """
    if path is None:
        if not FILES[record].is_file():
            return {}
        path = FILES[record]
    try:
        values = tomllib.loads(path.read_text("utf-8"))
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read the configuration file {path}: {error}") from error
    named = {key.replace("-", "_"): value for key, value in values.items()}
    unknown = sorted(set(named) - set(record.__struct_fields__))
    if unknown:
        command = "serve" if record is Settings else "worker"
        raise ConfigError(f"{path}: no setting is called {', '.join(unknown)}; `antiphon {command} --help` lists them")
    if "aliases" in named:
        try:
            named["aliases"] = alias_entries(named["aliases"])
        except ConfigError as error:
            raise ConfigError(f"{path}: {error.message}") from None
    for tables in ("profiles", "keys"):
        if not isinstance(named.get(tables, {}), dict):
            raise ConfigError(f"{path}: {tables} must be tables, [{tables}.NAME]")
    return named


def is_file_only(field: str, record: type[EngineSettings] = Settings) -> bool:
    """Whether a setting has no flag: a table can only stand in a file."""
    return bool(_extra(field, record).get("file_only"))


def flag_of(field: str, record: type[EngineSettings] = Settings) -> str:
    """A setting's flag: its name, or the one its `Meta` gives."""
    return str(_extra(field, record).get("flag", f"--{field.replace('_', '-')}"))


def variable_of(field: str) -> str:
    """A setting's environment variable."""
    return f"ANTIPHON_{field.upper()}"


def is_secret(field: str, record: type[EngineSettings] = Settings) -> bool:
    """Whether a setting's value must not be shown."""
    return bool(_extra(field, record).get("secret"))


def place_of(field: str, record: type[EngineSettings]) -> int:
    """Where in the help text a setting stands."""
    return [panel["panel"] for panel in PANELS].index(_extra(field, record)["panel"])


def _extra(field: str, record: type[EngineSettings]) -> dict[str, Any]:
    """What a field's `Meta` says for the command line."""
    extra: dict[str, Any] = get_args(get_type_hints(record, include_extras=True)[field])[1].extra
    return extra
