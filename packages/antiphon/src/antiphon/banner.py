"""Start-up text: where the server is, what it serves, what that is good for, and what to try next."""

import json

from rich.console import Console
from rich.text import Text

from antiphon.aliases import VENDOR_PATTERNS
from antiphon.launch.clients import CLIENTS
from antiphon.launch_cli import DEFAULT_URL
from antiphon.model import Model

AGENT_CONTEXT = 32_768
"""Claude Code sends 12K to 29K tokens before the first word of a task (measured with 2.1.197 and 2.1.332)."""


def context_advice(context_length: int) -> str:
    """What a context of this many tokens is good for."""
    if context_length < AGENT_CONTEXT:
        return "enough for the SDKs, pi and tests; Claude Code alone sends 12-29K tokens, so give it a model with 32K or more"
    if context_length < 2 * AGENT_CONTEXT:
        return "enough for Claude Code and OpenCode to start; long sessions want 64K or more"
    return "enough for every coding agent"


def doubt(model: Model) -> str:
    """What else the model's format may be, and how to say so."""
    flags = {"tool": "--tool-call-parser", "reasoning": "--reasoning-parser"}
    others = "; ".join(f"{flags[other.kind]} {other.name} ({other.reason})" for other in model.others)
    return f"another reading is possible: {others}; name the parser by hand if the output is read wrongly"


def show_banner(console: Console, *, url: str, model: Model, engine: str, load_seconds: float) -> None:
    """Prints the start-up text."""
    body = json.dumps({"model": model.name, "max_tokens": 64, "messages": [{"role": "user", "content": "Say hello"}]})
    rows = [
        ("URL", url),
        ("Model", f"{model.name}  ({engine}, loaded in {load_seconds:.1f} s)"),
        ("Names", names(model)),
        ("Family", f"{model.label}: {model.why}"),
        *((("Unsure", doubt(model)),) if model.others else ()),
        ("Context", f"{model.context_length:,} tokens: {context_advice(model.context_length)}"),
    ]
    console.print(Text("Antiphon is ready.", style="bold green"))
    for label, value in rows:
        console.print(Text.assemble((f"  {label:<9}", "bold"), value), soft_wrap=True)
    console.print(Text("  Try next:", style="bold"))
    console.print(Text(f"    curl {url}/v1/messages -H 'content-type: application/json' \\\n      -d '{body}'"), soft_wrap=True)
    console.print(Text(f"    {launch_command(url, model.context_length)}"), soft_wrap=True)


def workers_there(there: int, listed: int) -> str:
    """How many workers there are, for the start-up text."""
    what = f"{listed} worker{'' if listed == 1 else 's'}"
    return what if there == listed else f"{what}, {there or 'none'} of them ready"


def names(model: Model) -> str:
    """What the model answers to."""
    patterns = model.aliases.patterns
    vendors = set(VENDOR_PATTERNS) <= set(patterns)
    own = [pattern for pattern in patterns if not (vendors and pattern in VENDOR_PATTERNS)]
    return ", ".join([model.name, *own]) + (" and the vendors' own (claude-*, gpt-*, ...)" if vendors else "")


def launch_command(url: str, context_length: int) -> str:
    """The command that starts an agent on this server: Claude Code where it fits, else the client with the smallest prompt."""
    client = "claude" if context_length >= AGENT_CONTEXT else "pi"
    where = "" if url == DEFAULT_URL else f" --url {url}"
    others = ", ".join(name for name in CLIENTS if name != client)
    return f"antiphon launch {client}{where}" + (f"   # or {others}" if client == "claude" else "")
