"""What a family file gives: a tool part or a reasoning part. The registry composes one of each into a model format."""

from collections.abc import Callable, Sequence
from typing import Any, Literal

import msgspec

from antiphon_parsers.arguments import as_object, json_text, tool_lines
from antiphon_parsers.forcing.forms import CallFormat
from antiphon_parsers.grammar import CallSyntax, ReasoningMarkers
from antiphon_turns import CallSegment, DetectionRule, Frame, ReplayPolicy, Segment, TemplateSwitches, Tool

CHATML = Frame(
    assistant_header="<|im_start|>assistant\n",
    end_of_turn="<|im_end|>",
    stop_tokens=("<|im_end|>", "<|endoftext|>"),
)


def levels(variable: str, *names: str, **others: Any) -> dict[str, dict[str, Any]]:
    """Efforts that a template takes as one variable: those it calls by their names, and those it has other values for."""
    return {**{name: {variable: name} for name in names}, **{name: {variable: value} for name, value in others.items()}}


CHATML_MARKERS = ("<|im_start|>", "<|im_end|>", "<|endoftext|>")
LLAMA3 = Frame(
    assistant_header="<|start_header_id|>assistant<|end_header_id|>\n\n",
    end_of_turn="<|eot_id|>",
    stop_tokens=("<|eot_id|>", "<|eom_id|>", "<|end_of_text|>"),
)
LLAMA3_MARKERS = ("<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", *LLAMA3.stop_tokens)
RESULT_MARKERS = ("<tool_response>", "</tool_response>")


class ReplaySwitch(msgspec.Struct, frozen=True, kw_only=True):
    """A template that names the variable `variable` can keep the reasoning of past turns: for agents it is set to
    `value`, and the policy is `keep`."""

    variable: str
    value: bool
    keep: Literal["all"] = "all"


class MessageFormat(msgspec.Struct, frozen=True, kw_only=True):
    """A format whose reasoning and text stand in messages of their own, so that neither half can be read without the
    other: it is whole in both parts. `write` gives all segments of a turn."""

    calls: CallSyntax | None
    breaks: tuple[str, ...]
    write: Callable[[Sequence[Segment]], str]


class ToolPart(msgspec.Struct, frozen=True, kw_only=True):
    """The tool half of a format. `write_tools` gives the system text that offers tools, `write_call` one whole call block.
    Where calls share a block, `write_run` gives the block of calls that follow each other, the first of which has the
    given number in the conversation. `write_id` gives the id of a call by its tool and number, where the format demands
    ids of its own. `call_format` says what a forced call looks like, None where there are no calls. `template`: the chat template in
    `templates/` for models that bring none. `gap`, `start`: see `Grammar`."""

    name: str
    frame: Frame
    markers: tuple[str, ...]
    calls: CallSyntax | None
    call_format: CallFormat | None
    write_call: Callable[[CallSegment], str]
    write_tools: Callable[[Sequence[Tool]], str]
    write_run: Callable[[Sequence[CallSegment], int], str] | None = None
    write_id: Callable[[str, int], str] | None = None
    gap: int = 1
    breaks: tuple[str, ...] = ()
    messages: MessageFormat | None = None
    start: int = 0
    template: str | None = None
    detection: tuple[DetectionRule, ...] = ()
    source: str = ""


class ReasoningPart(msgspec.Struct, frozen=True, kw_only=True):
    """The reasoning half of a format. Without `markers` reasoning stays in the text, with `preface` put in front of it."""

    name: str
    markers: ReasoningMarkers | None
    preface: str = ""
    replay: ReplayPolicy
    switches: TemplateSwitches
    replay_switches: tuple[ReplaySwitch, ...] = ()
    messages: MessageFormat | None = None
    detection: tuple[DetectionRule, ...] = ()
    source: str = ""


def offer(tools: Sequence[Tool], form: str, *rules: str) -> str:
    """System text that offers tools: one a line, then the form of a call, then what else holds."""
    return (
        "You can call these functions. Each line describes one, with its parameters as a JSON schema:\n"
        f"<tools>\n{tool_lines(tools)}\n</tools>\n\n"
        f"To call a function, write a block of exactly this form:\n{form}\n"
        + " ".join((*rules, "Give every required parameter.", "When no function is needed, answer in plain text."))
    )


UNTYPED = "Write text values as they are, without quotes or escapes, over several lines if need be; write all other values as JSON."
"""The rule of formats whose values carry no type."""

TYPED = "The arguments are one JSON object that fits the function's schema."
"""The rule of formats whose arguments are JSON."""


def argument_text(call: CallSegment) -> str:
    """The arguments as they are; text that is no JSON object becomes a JSON string."""
    return as_object(call.arguments) or json_text(call.arguments)


def json_call(call: CallSegment, key: str = "arguments") -> str:
    """A call as one JSON object."""
    return f'{{"name": {json_text(call.name)}, "{key}": {argument_text(call)}}}'
