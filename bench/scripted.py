"""Turns with a known text, in the format that both scripted engines are told to speak, and where in it each part ends."""

import base64
import json
from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate
from typing import Literal

import msgspec

from antiphon_tokenizers import Tokenizer
from bench.parsers import source_text
from bench.prompts import words

Kind = Literal["reasoning", "text", "call"]
OPENER = "<tool_call>"
TOOL_NAME = "write_file"


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """One segment of a turn, with the places (characters, exclusive) where its last own byte and its closing marker end. The closing
    marker of text is the opening one of what follows, or the end of the turn. `first_value`: where the first byte of a call's first
    value ends."""

    kind: Kind
    content: str
    last_byte: int
    closing: int
    first_value: int = 0


class Script(msgspec.Struct, frozen=True, kw_only=True):
    """A whole turn behind a prompt that has opened the reasoning. `order` is the word in the prompt by which the engine knows it."""

    name: str
    order: str
    say: str
    parts: tuple[Part, ...]


def script(name: str, segments: Sequence[tuple[Kind, str]]) -> Script:
    """The turn of these segments; the first is reasoning. A call is given by its argument `content`."""
    say, parts = "", []
    for number, (kind, content) in enumerate(segments):
        last = number + 1 == len(segments)
        first_value = 0
        if kind == "reasoning":
            say += "<think>\n" if number else ""
            say += content
            end = len(say)
            say += "\n</think>"
            closing = len(say)
            say += "" if last else "\n\n"
        elif kind == "text":
            say += content
            end = len(say)
            say += "" if last else "\n"
            closing = len(say) + (1 if last else len(OPENER))
        else:
            say += f"{OPENER}\n<function={TOOL_NAME}>\n<parameter=path>\n"
            first_value = len(say) + 1
            say += f"notes/{number}.txt\n</parameter>\n<parameter=content>\n{content}"
            end = len(say)
            say += "\n</parameter>\n</function>\n</tool_call>"
            closing = len(say)
            say += "" if last else "\n"
        parts.append(Part(kind=kind, content=content, last_byte=end, closing=closing, first_value=first_value))
    return Script(name=name, order=f"SAY_{name.upper()}", say=say, parts=tuple(parts))


INTERLEAVED = script(
    "interleaved",
    [
        ("reasoning", "First " + words(8, "thought 1")),
        ("text", "Then " + words(8, "text 1")),
        ("call", "alpha " + words(10, "call 1")),
        ("reasoning", "Second " + words(8, "thought 2")),
        ("call", "beta " + words(10, "call 2")),
        ("text", "Last " + words(12, "text 2")),
    ],
)


def long_argument(characters: int) -> Script:
    """A call with a string of so many characters, like a source file's, another call behind it, then text."""
    content = source_text(characters).strip()
    segments: list[tuple[Kind, str]] = [
        ("reasoning", "Third " + words(8, "thought 3")),
        ("call", content),
        ("call", "delta " + words(10, "call 4")),
        ("text", "Over " + words(12, "text 3")),
    ]
    return script("long", segments)


class Clock:
    """Which token a place of a script's text falls into, for one tokenizer."""

    def __init__(self, said: Script, tokenizer: Tokenizer) -> None:
        self._say = said.say
        self.tokens = tokenizer.encode(said.say, added=True)
        self._ends = list(accumulate(len(tokenizer.token_bytes(token)) for token in self.tokens))

    def token_at(self, end: int) -> int:
        """The number of the token in which the character before `end` falls; the text's end itself is the token that ends the turn."""
        behind = max(0, end - len(self._say))
        return bisect_left(self._ends, len(self._say[:end].encode()) + behind)


def rule(said: Script) -> bytes:
    """The line of our mock engine's script file."""
    return json.dumps({"when": said.order, "say": said.say.replace("\\", "\\\\")}).encode()


def prompt(said: Script, token_ms: float) -> str:
    """The user text that makes either engine say it."""
    spec = json.dumps({"text": said.say, "delay_ms": token_ms}).encode()
    return f"{said.order} @@B64:{base64.urlsafe_b64encode(spec).decode()}@@"
