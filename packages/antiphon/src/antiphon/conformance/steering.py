"""Making a server's model say what a check needs.

`script`: the server is our mock engine, started with the kit's own script; the prompt names the saying. `b64`: the model speaks what
the prompt carries as base64. `none`: an ordinary model gets a plain prompt, and what it does not do stays undecided.
"""

import base64
import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal

import msgspec

from antiphon.conformance.sayings import NAMESPACE, Saying
from antiphon_parsers import resolve

Mode = Literal["script", "b64", "none"]

# The dialect that steered models speak.
_WRITER = resolve("qwen3_coder", "qwen3").writer
_OPENER = "<think>\n"
_LAST = "(?!.*@@SAY:)"


def model_text(saying: Saying) -> str:
    """The saying in the model's own words, as it goes on behind an opened reasoning block."""
    return _WRITER.write(saying.segments).removeprefix(_OPENER)


def prompt(saying: Saying, mode: Mode) -> str:
    """User text that gets the saying out of the model."""
    if mode == "script":
        return f"{saying.plain} @@SAY:{saying.name}@@"
    if mode == "b64":
        order: dict[str, Any] = {"text": model_text(saying)}
        if saying.delay_ms:
            order["delay_ms"] = round(saying.delay_ms)
        return f"{saying.plain} @@B64:{base64.urlsafe_b64encode(msgspec.json.encode(order)).decode()}@@"
    return saying.plain


def made_to_say(saying: Saying, mode: Mode) -> Saying | None:
    """The saying if the model was certainly made to say it, else None."""
    certain = mode == "script" or (mode == "b64" and not saying.prompt_names_tool)
    return saying if certain else None


def script(sayings: Mapping[str, Saying]) -> bytes:
    """The kit's script for the mock engine, one rule a line: the last order in a prompt counts."""
    return b"".join(msgspec.json.encode(rule) + b"\n" for rule in _rules(sayings.values()))


def _rules(sayings: Iterable[Saying]) -> Iterable[dict[str, Any]]:
    for saying in sayings:
        text = model_text(saying)
        when = f"@@SAY:{saying.name}@@{_LAST}"
        if saying.prompt_names_tool:
            # Named in the tool list as the server chose to show it; the rule says it back.
            when = f'"name": ?"({re.escape(NAMESPACE)}[^"]+)".*{when}'
            name = next(segment.name for segment in saying.segments if hasattr(segment, "name"))
            text = text.replace(f"<function={name}>", "<function=\\1>")
        rule: dict[str, Any] = {"when": when, "say": text}
        if saying.delay_ms:
            rule["token_delay_ms"] = saying.delay_ms
        yield rule
