"""Settings of every process that runs an engine, and the panels of the help text."""

from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta, Struct

MODEL = {"panel": "Model and engine"}
CATALOG = {"panel": "Names and catalog"}
HTTP = {"panel": "HTTP"}
ACCESS = {"panel": "Access and limits"}
PARSING = {"panel": "Parsing and prompt"}
CACHE = {"panel": "Prefix cache"}
STATE = {"panel": "State"}
MOCK = {"panel": "Mock engine"}
WORKER = {"panel": "Worker"}
WORKERS = {"panel": "Workers"}
ROUTING = {"panel": "Routing"}
RUNNING = {"panel": "Running"}
PANELS = (MODEL, CATALOG, HTTP, ACCESS, WORKER, WORKERS, ROUTING, PARSING, CACHE, STATE, MOCK, RUNNING)
"""In the order of the help text."""


class EngineSettings(Struct, frozen=True, kw_only=True):
    """What a process that runs an engine must know of it. A `Meta` gives the sentence of `--help`, its panel, bounds and further
    spellings."""

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

    tool_call_parser: Annotated[
        str | None,
        Meta(description="Family of tool calls. Default: read from the template.", extra={**PARSING, "alias": "--dyn-tool-call-parser"}),
    ] = None
    reasoning_parser: Annotated[
        str | None,
        Meta(description="Family of reasoning. Default: read from the template.", extra={**PARSING, "alias": "--dyn-reasoning-parser"}),
    ] = None

    http_host: Annotated[str, Meta(description="Address to listen on.", extra=HTTP)] = "127.0.0.1"
    http_port: Annotated[int, Meta(description="Port to listen on; 0 takes a free one.", ge=0, le=65535, extra=HTTP)] = 8000

    mock_script: Annotated[
        Path | None,
        Meta(description="Rules, one JSON object a line: when, say, finish; or a recording (--record) to be said again.", extra=MOCK),
    ] = None
    mock_chunk_tokens: Annotated[int, Meta(description="Tokens that leave the engine together.", ge=1, extra=MOCK)] = 1
    mock_token_delay_ms: Annotated[float, Meta(description="Simulated decoding time of a token.", ge=0, extra=MOCK)] = 0.0
    mock_speed: Annotated[
        Literal["none", "b200", "laptop"], Meta(description="Simulated hardware: how long prompts and tokens take.", extra=MOCK)
    ] = "none"
    mock_cache_blocks: Annotated[int, Meta(description="Blocks of the prefix cache; 0: nothing is cached.", ge=0, extra=MOCK)] = 1 << 16
    mock_block_size: Annotated[int, Meta(description="Tokens of a block of the prefix cache.", ge=1, extra=MOCK)] = 16
    mock_seed: Annotated[
        int | None,
        Meta(description="Say words that follow from this number and the prompt until the limit, instead of a script.", ge=0, extra=MOCK),
    ] = None
    mock_fault: Annotated[
        str | None,
        Meta(description="Fail on purpose: crash-after=N, hang-after=N, cut-after=N, slow=FACTOR or wrong-ids.", extra=MOCK),
    ] = None

    shutdown_grace_seconds: Annotated[float, Meta(description="Time for running turns to finish after SIGTERM.", ge=0, extra=RUNNING)] = (
        30.0
    )
    log_level: Annotated[Literal["debug", "info", "warning", "error"], Meta(description="How much to log.", extra=RUNNING)] = "info"
