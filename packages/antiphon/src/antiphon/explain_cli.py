"""`antiphon explain`: why a cache missed, from a running server or from two saved bodies."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlencode

import msgspec
import typer
from rich.console import Console

from antiphon.launch_cli import DEFAULT_URL
from antiphon_turns.errors import ConfigError

# The key that `antiphon launch` gives to clients, and that of clients without one.
USUAL_KEYS = ("local", "")


def explain_command(  # noqa: PLR0913 - one for each option
    *,
    url: Annotated[str, typer.Option(help="A running server.")] = DEFAULT_URL,
    session: Annotated[str | None, typer.Option(help="Only this session.", show_default=False)] = None,
    request: Annotated[str | None, typer.Option(help="Only this request, with all that is known of it.", show_default=False)] = None,
    limit: Annotated[int, typer.Option(help="The latest so many requests.", min=1, max=256)] = 20,
    api_key: Annotated[
        str | None,
        typer.Option(help="The key the client sends. Default: launch's, and none.", envvar="ANTIPHON_API_KEY", show_envvar=False),
    ] = None,
    before: Annotated[Path | None, typer.Option(help="A saved request body; no server is asked.", show_default=False)] = None,
    after: Annotated[Path | None, typer.Option(help="The body of a later request of the session.", show_default=False)] = None,
    recording: Annotated[
        Path | None,
        typer.Option(
            help="Bodies from here (--record): --before and --after are request ids. Default: a session's latest two.", show_default=False
        ),
    ] = None,
    surface: Annotated[Literal["messages", "responses", "chat"], typer.Option(help="Of the bodies.")] = "messages",
    model_path: Annotated[Path | None, typer.Option(help="Model of the bodies: a folder or a .gguf file.", show_default=False)] = None,
    tool_call_parser: Annotated[str | None, typer.Option(help="Family of tool calls. Default: read from the template.")] = None,
    reasoning_parser: Annotated[str | None, typer.Option(help="Family of reasoning. Default: read from the template.")] = None,
    replay: Annotated[
        Literal["family", "none", "after_last_user", "after_last_plain_assistant", "after_last_final", "all"],
        typer.Option(help="Past turns that keep their reasoning, as the server has it."),
    ] = "family",
    stabilizer_rules: Annotated[Path | None, typer.Option(help="Your own rules for lines of prompts, as the server has them.")] = None,
    strip_anthropic_preamble: Annotated[bool, typer.Option(help="Cut the varying billing header, as the server does.")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Say why the cache missed: where a prompt left the one before it, and what to do.

    From a running server's latest requests:

    antiphon explain --session SESSION

    From two saved request bodies and a model, without any engine:

    antiphon explain --before a.json --after b.json --surface messages --model-path model.gguf

    From what a server has recorded (docs/recording.md):

    antiphon explain --recording DIR --before req_A --after req_B --model-path model.gguf
    """
    from antiphon.explain import show  # `--help` must not load tokenizers

    console = Console()
    if before is None and after is None and recording is None:
        report = show.merged([_ask(url, key, session, request, limit) for key in (USUAL_KEYS if api_key is None else (api_key,))], limit)
        if as_json:
            typer.echo(msgspec.json.encode(report).decode())
        else:
            show.show_report(console, report, whole=request is not None)
        return
    if recording is None and (before is None or after is None):
        raise ConfigError("--before and --after belong together: two saved request bodies of one session")
    if model_path is None:
        raise ConfigError("--model-path is missing: whose template and tokenizer make the prompts")
    if recording is not None:
        from antiphon.recording.replays import two_bodies

        bodies = two_bodies(recording, *(None if one is None else str(one) for one in (before, after)), session=session)
    elif before is not None and after is not None:
        bodies = show.read_file(before), show.read_file(after), surface
    from antiphon.model import ModelChoice
    from antiphon.stabilizer_rules import rules_of

    choice = ModelChoice(
        path=model_path,
        tool_call_parser=tool_call_parser,
        reasoning_parser=reasoning_parser,
        replay=None if replay == "family" else replay,
    )
    rules = rules_of(strip_anthropic_preamble=strip_anthropic_preamble, file=stabilizer_rules)
    found = show.compare_bodies(*bodies, choice, rules)
    if as_json:
        typer.echo(msgspec.json.encode(found).decode())
    else:
        show.show_comparison(console, found)


def _ask(url: str, key: str, session: str | None, request: str | None, limit: int) -> dict[str, object]:
    from antiphon.launch.server import ask

    wanted: Sequence[tuple[str, str | None]] = (("session", session), ("request_id", request), ("limit", str(limit)))
    query = urlencode({name: value for name, value in wanted if value is not None})
    base = url.rstrip("/").removesuffix("/v1")
    answer = ask(base, f"/antiphon/explain?{query}", key)
    if answer is None:
        raise ConfigError(
            f"nobody listens at {base}; start a server with `antiphon serve`, or compare two bodies with --before and --after"
        )
    return answer
