"""The `antiphon` command."""

import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from antiphon import __version__
from antiphon.config import Settings, read_config_file
from antiphon_turns.errors import ConfigError

app = typer.Typer(
    name="antiphon",
    help="Serve open models to coding agents the way the agents' own vendors do.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)


def main() -> None:
    """Entry point. Configuration errors end with one sentence and status 2."""
    try:
        app()
    except ConfigError as error:
        typer.secho(f"antiphon: {error.message}", err=True, fg="red")
        sys.exit(2)


def _version(value: bool | None) -> None:  # noqa: FBT001 - called by the option parser
    if value:
        typer.echo(f"antiphon {__version__}")
        raise typer.Exit


@app.callback()
def root(
    *, version: Annotated[bool | None, typer.Option("--version", help="Print the version.", is_eager=True, callback=_version)] = None
) -> None:
    """Serve open models to coding agents the way the agents' own vendors do."""


def _load_file(ctx: typer.Context, value: Path | None) -> Path | None:
    ctx.default_map = {**(ctx.default_map or {}), **read_config_file(value)}
    return value


def _option(flag: str, text: str, *, panel: str, alias: str | None = None, switch: bool = False, **limits: Any) -> Any:
    names = [f"--{flag}/--no-{flag}" if switch else f"--{flag}", *([f"--{alias}"] if alias else [])]
    variable = "ANTIPHON_" + flag.upper().replace("-", "_")
    return typer.Option(*names, help=text, envvar=variable, rich_help_panel=panel, **limits)


MODEL, HTTP, CALLS, MOCK, RUN = "Model and engine", "HTTP", "Parsing and prompt", "Mock engine", "Running"


@app.command()
def serve(
    *,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            help="TOML file of settings; antiphon.toml of the working folder by default. Flag > environment > file.",
            envvar="ANTIPHON_CONFIG",
            is_eager=True,
            callback=_load_file,
            rich_help_panel=RUN,
        ),
    ] = None,
    engine: Annotated[
        Literal["embedded", "mock"], _option("engine", "embedded: llama.cpp on this CPU. mock: a script, no weights.", panel=MODEL)
    ] = "embedded",
    model_path: Annotated[
        Path | None,
        _option("model-path", "A .gguf file, or a folder with tokenizer.json (mock). Default: SmolLM2-135M-Instruct.", panel=MODEL),
    ] = None,
    model_name: Annotated[str | None, _option("model-name", "Name that clients ask for. Default: the model's own.", panel=MODEL)] = None,
    context_length: Annotated[
        int | None, _option("context-length", "Tokens of prompt plus answer. Default: what the model was trained for.", panel=MODEL, min=64)
    ] = None,
    threads: Annotated[int | None, _option("threads", "CPU threads of the embedded engine. Default: all cores.", panel=MODEL, min=1)] = None,
    http_host: Annotated[str, _option("http-host", "Address to listen on.", panel=HTTP)] = "127.0.0.1",
    http_port: Annotated[int, _option("http-port", "Port to listen on.", panel=HTTP, min=0, max=65535)] = 8000,
    enable_anthropic_api: Annotated[
        bool, _option("enable-anthropic-api", "Serve Anthropic Messages beside Chat Completions.", panel=HTTP, switch=True)
    ] = True,
    max_body_bytes: Annotated[int, _option("max-body-bytes", "Larger request bodies get a 413.", panel=HTTP, min=1024)] = 32 * 1024 * 1024,
    keepalive_seconds: Annotated[float, _option("keepalive-seconds", "Silence on a stream before a keep-alive leaves.", panel=HTTP, min=0.1)] = 10.0,
    strip_anthropic_preamble: Annotated[
        bool,
        _option("strip-anthropic-preamble", "Cut the varying billing header that defeats the prefix cache.", panel=CALLS, switch=True),
    ] = True,
    enable_streaming_tool_dispatch: Annotated[
        bool, _option("enable-streaming-tool-dispatch", "Chat: a typed side event the moment a call is complete.", panel=CALLS, switch=True)
    ] = False,
    enable_streaming_reasoning_dispatch: Annotated[
        bool, _option("enable-streaming-reasoning-dispatch", "Chat: a typed side event at the end of a reasoning block.", panel=CALLS, switch=True)
    ] = False,
    tool_call_parser: Annotated[
        str | None, _option("tool-call-parser", "Family of tool calls. Default: read from the template.", panel=CALLS, alias="dyn-tool-call-parser")
    ] = None,
    reasoning_parser: Annotated[
        str | None, _option("reasoning-parser", "Family of reasoning. Default: read from the template.", panel=CALLS, alias="dyn-reasoning-parser")
    ] = None,
    argument_streaming: Annotated[
        Literal["whole", "incremental"],
        _option("argument-streaming", "whole: a call leaves when it is complete. incremental: its bytes as they are decoded.", panel=CALLS),
    ] = "whole",
    cut_calls: Annotated[
        Literal["honest", "recover"],
        _option("cut-calls", "A call cut by the limit. honest: left out. recover: with {} where that cannot run.", panel=CALLS),
    ] = "honest",
    trace_tokens: Annotated[Path | None, _option("trace-tokens", "Append one JSON line of exact token ids a turn.", panel=RUN)] = None,
    mock_script: Annotated[Path | None, _option("mock-script", "Rules, one JSON object a line: when, say, finish.", panel=MOCK)] = None,
    mock_chunk_tokens: Annotated[int, _option("mock-chunk-tokens", "Tokens that leave the engine together.", panel=MOCK, min=1)] = 1,
    mock_token_delay_ms: Annotated[float, _option("mock-token-delay-ms", "Simulated decoding time of a token.", panel=MOCK, min=0.0)] = 0.0,
    shutdown_grace_seconds: Annotated[
        float, _option("shutdown-grace-seconds", "Time for running turns to finish after SIGTERM.", panel=RUN, min=0.0)
    ] = 30.0,
    log_level: Annotated[Literal["debug", "info", "warning", "error"], _option("log-level", "How much to log.", panel=RUN)] = "info",
) -> None:
    """Serve one model to agents, SDKs and curl.

    Every flag has a variable, ANTIPHON_ + its name in capitals with underscores, and a `--no-` form if it is a switch.
    """
    from antiphon.serve import run_server  # noqa: PLC0415 - `parse` and `--help` must not load the engine

    values = {name: value for name, value in locals().items() if name in Settings.__struct_fields__}
    raise typer.Exit(run_server(Settings(**values)))


@app.command()
def parse(
    *,
    jsonl: Annotated[bool, typer.Option("--jsonl", help="Read cases from standard input, one JSON object a line.")] = False,
) -> None:
    """Run the model-output parsers on recorded text, without a server."""
    from antiphon.parse_cli import parse_lines  # noqa: PLC0415 - only this command needs it

    if not jsonl:
        raise ConfigError("say what to parse: `antiphon parse --jsonl < cases.jsonl`")
    for line in parse_lines(sys.stdin.buffer):
        sys.stdout.buffer.write(line + b"\n")
        sys.stdout.buffer.flush()

