"""What is sent: named requests, each made from the scene (model, steering, earlier answers)."""

import time
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from antiphon.conformance import sayings
from antiphon.conformance.exchange import Exchange
from antiphon.conformance.sayings import Saying
from antiphon.conformance.steering import Mode, made_to_say, prompt
from antiphon.conformance.verdict import known

ANTHROPIC = {"anthropic-version": "2023-06-01", "x-api-key": "conformance"}
OPENAI = {"authorization": "Bearer conformance"}
OUTPUT_TOKENS = 1024
UNKNOWN_MODEL = "no-such-model-here"
# Longer contexts would need bodies of many megabytes to overflow.
MAX_TRIED_CONTEXT = 300_000


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One HTTP request. `body` is JSON data, bytes to be sent as they are, or None."""

    method: str = "POST"
    path: str
    headers: Mapping[str, str] = {}
    body: Any = None


class Scene(msgspec.Struct, frozen=True, kw_only=True):
    """What requests are made from. `past` holds the answers an ask said it comes after; `context` is the model's context length in
    tokens, None where the catalog does not say; `silence` is how long a client may be left without a byte, in seconds."""

    model: str
    mode: Mode
    silence: float = 20.0
    context: int | None = None
    past: Mapping[str, Exchange] = {}

    def say(self, name: str) -> str:
        """User text that makes the model say a saying."""
        return prompt(self.saying(name), self.mode)

    def saying(self, name: str) -> Saying:
        """A saying of the kit."""
        return sayings.table(self.silence)[name]

    def steered(self, name: str | None) -> Saying | None:
        """The saying, if the model was certainly made to say it."""
        return made_to_say(self.saying(name), self.mode) if name else None


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """One named request. `make` may raise Unclear when the scene does not let it be asked."""

    name: str
    make: Callable[[Scene], Request]
    saying: str | None = None
    after: tuple[str, ...] = ()


class Tool(msgspec.Struct, frozen=True):
    """A tool of the kit, spelled by each surface in its own way."""

    name: str
    description: str
    schema: dict[str, Any]


def _schema(required: tuple[str, ...], **properties: str) -> dict[str, Any]:
    return {"type": "object", "properties": {name: {"type": kind} for name, kind in properties.items()}, "required": list(required)}


TOOLS = (
    Tool(sayings.RUN, "Runs a shell command.", _schema(("command",), command="string")),
    Tool(sayings.TIME, "Tells the time.", _schema(())),
    Tool(
        sayings.WRITE,
        "Writes a file.",
        _schema(("path", "content"), path="string", content="string", count="integer", ratio="number"),
    ),
)
OUTPUT_SCHEMA = {
    "type": "object",
    "properties": {"title": {"type": "string"}, "size": {"type": "integer"}},
    "required": ["title", "size"],
    "additionalProperties": False,
}


def whole_context(scene: Scene) -> int:
    """As many output tokens as the context has, which with any prompt is too many. Raises Unclear where that is unknown."""
    known(scene.context, "the catalog does not say how long the context is")
    return int(scene.context or 0)


def too_long(scene: Scene) -> str:
    """A prompt that cannot fit the context. Raises Unclear where the context is unknown or too large to try."""
    known(scene.context, "the catalog does not say how long the context is")
    known((scene.context or 0) <= MAX_TRIED_CONTEXT, f"a context of {scene.context} tokens is too long to overflow for a check")
    return "word " * int((scene.context or 0) * 1.1)


def nonce() -> str:
    """A text that makes a prompt new to every prefix cache."""
    return f"run {time.time_ns()}"
