"""Family records: what the server must know of a model format beside its grammar. Plain data; the values
live one file a family in antiphon_parsers.families."""

from collections.abc import Sequence
from typing import Any, Literal, Protocol

import msgspec

from antiphon_turns.request import Tool, ToolMessage
from antiphon_turns.turn import Segment


class Frame(msgspec.Struct, frozen=True, kw_only=True):
    """How a rendered assistant turn is found in a rendered prompt: everything between `assistant_header` and
    `end_of_turn` is the turn. `stop_tokens` are the control tokens that end generation (the first is the
    declared end-of-turn token). `result_ends`: where a turn follows tool results without a header, what they end with."""

    assistant_header: str
    end_of_turn: str
    stop_tokens: tuple[str, ...]
    result_ends: tuple[str, ...] = ()

    def header_end(self, text: str, start: int = 0, end: int | None = None) -> int:
        """The place behind the last header, or end of results, within `text[start:end]`; -1 when there is none."""
        stop = len(text) if end is None else end
        found = ((text.rfind(mark, start, stop), len(mark)) for mark in (self.assistant_header, *self.result_ends))
        return max((place + size for place, size in found if place >= 0), default=-1)


class Opening(msgspec.Struct, frozen=True):
    """What the prompt left open for the model (I11). "rendered": `text` stands behind the last trusted assistant
    header and the parser reads it to find its state; "text"/"reasoning" name the state; "undecided": the prompt is unknown."""

    kind: Literal["text", "reasoning", "undecided", "rendered"] = "undecided"
    text: str = ""


Keep = Literal["none", "after_last_user", "after_last_plain_assistant", "after_last_final", "all"]


class ReplayPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """Which past turns keep their reasoning in the next prompt (grammars facts, section 4), and what the others have in
    its place (`empty_block`). `without_tools`: the policy for requests that offer no tools, where it is another one. `switch`: the
    template variable, and its value, with which the template itself keeps all; a request that sets it to another value gets `switched_off`.
    `fixed`: a request may have less reasoning in its prompt than this, never more; so it always is with "none", which models have
    that never saw any."""

    keep: Keep = "after_last_user"
    empty_block: str = ""
    without_tools: Keep | None = None
    switch: tuple[str, bool] | None = None
    switched_off: Keep | None = None
    fixed: bool = False


class TemplateSwitches(msgspec.Struct, frozen=True, kw_only=True):
    """Chat template variables. `agent` are set for every request; `thinking_on` / `thinking_off` when the client
    decides, `thinking_adaptive` (else `thinking_on`) when it leaves that to the model; `allowed` names those a client may set through
    chat_template_kwargs. `effort`: for each level the model knows what says so ("none" where that is how thinking is turned off);
    `effort_at_head`: the prompt begins with it, so another level is another prompt. `budget`: the variable that takes a thinking
    budget in tokens."""

    agent: dict[str, Any] = {}
    thinking_on: dict[str, Any] = {}
    thinking_off: dict[str, Any] = {}
    thinking_adaptive: dict[str, Any] = {}
    effort: dict[str, dict[str, Any]] = {}
    effort_at_head: bool = False
    budget: str | None = None
    allowed: frozenset[str] = frozenset()


class DetectionRule(msgspec.Struct, frozen=True, kw_only=True):
    """The family is recognised when every string of `template_all` (and one of `template_any`, if given) stands in the chat
    template, none of `template_none` does, every one of `vocab_all` is an added token, and one of `architectures`, if given, is named."""

    template_all: tuple[str, ...] = ()
    template_any: tuple[str, ...] = ()
    template_none: tuple[str, ...] = ()
    vocab_all: tuple[str, ...] = ()
    architectures: tuple[str, ...] = ()
    confidence: float = 0.9


class Family(msgspec.Struct, frozen=True, kw_only=True):
    """One model format. `markers` are all strings that mean control to the model, escaped in client text (I13).
    `source` cites the specification or template the values were taken from."""

    name: str
    frame: Frame
    markers: tuple[str, ...] = ()
    replay: ReplayPolicy = ReplayPolicy()
    switches: TemplateSwitches = TemplateSwitches()
    detection: tuple[DetectionRule, ...] = ()
    source: str = ""


class TurnWriter(Protocol):
    """The model's own text for what a prompt holds: the inverse of the parser. Pure; never raises on client data.

    Renderers pass escaped segments, tools and results (I13), so markers in the output are the writer's own.
    """

    def write(self, segments: Sequence[Segment], *, earlier_calls: int = 0) -> str:
        """Everything between a frame's header and its end of turn. Truncated calls are left out. `earlier_calls`: how
        many calls the conversation holds before this turn, for formats that number them."""
        ...

    def call_id(self, name: str, number: int) -> str | None:
        """The id that the format demands for the call `number` (from 0) of a conversation; None where ids are free."""
        ...

    def tool_list(self, tools: Sequence[Tool]) -> str:
        """System text that offers the tools, for templates that render none."""
        ...

    def tool_result(self, result: ToolMessage) -> str:
        """User text that carries one result, for templates without a tool role."""
        ...
