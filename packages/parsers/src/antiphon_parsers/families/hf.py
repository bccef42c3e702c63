"""hf: the format that a model declares itself, as `response_template` in its tokenizer_config.json. One reading serves every
model that declares one; what cannot be read is refused by name when the model is loaded, never guessed.

Where the declaration leaves something open, the model's chat template is asked (line feeds round markers, variables that turn
thinking on), and where it says less than a turn needs, our own rules hold: segments stay in order; text that stands in no region
is text; white space inside it is data; arguments without a type are typed by the tool's schema.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from antiphon_parsers.declared.calls import Calls, read_calls
from antiphon_parsers.declared.layout import Layout
from antiphon_parsers.declared.patterns import Either, Space, Text, read_pattern
from antiphon_parsers.declared.template import Field, Template, read_template, refuse
from antiphon_parsers.families.parts import RESULT_MARKERS, MessageFormat, ReasoningPart, ReplaySwitch, ToolPart, offer
from antiphon_parsers.families.plain import write_call as write_plain
from antiphon_parsers.grammar import ReasoningMarkers
from antiphon_turns import CallSegment, Frame, ReasoningSegment, ReplayPolicy, Segment, TemplateSwitches, TextSegment, Tool

NAME = "hf"
ALIASES = ("responsetemplate",)
SOURCE = "the model's own response_template"
REPLAY_SWITCHES = (
    ReplaySwitch(variable="preserve_thinking", value=True),
    ReplaySwitch(variable="truncate_history_thinking", value=False),
    ReplaySwitch(variable="clear_thinking", value=False),
)
EXAMPLE = CallSegment("function_name", '{"parameter": "value"}')


class Declared(msgspec.Struct, frozen=True, kw_only=True):
    """A declared format as parts for the registry. `reasoning` is None where none is declared."""

    tools: ToolPart
    reasoning: ReasoningPart | None


def declare(declaration: Mapping[str, Any], *, template: str = "", turn_ends: Sequence[str] = ()) -> Declared:
    """Reads a `response_template`. `template` is the model's chat template, `turn_ends` the control tokens that end its turns,
    beside those declared. ConfigError names what is not read, and why."""
    read, layout = read_template(declaration), Layout(template)
    text = read.text or Field()
    ends = tuple(dict.fromkeys((*(text.closers if text.is_implicit else ()), *turn_ends)))
    if not ends:
        raise refuse("content.close", "neither the text's closing marker nor the tokenizer says how a turn ends")
    calls = read_calls(read.calls, layout, ends) if read.calls is not None else None
    markers = _reasoning(read, layout) if read.reasoning is not None else None
    spoken = _text_markers(text)
    breaks = tuple(dict.fromkeys((*(spoken or ()), *ends, *_repeated_anchors(read, calls))))
    whole = MessageFormat(calls=calls.syntax if calls else None, breaks=breaks, write=_writer(spoken, markers, calls)) if spoken else None
    tools = ToolPart(
        name=NAME,
        frame=Frame(assistant_header=read.anchors[0], end_of_turn=ends[0], stop_tokens=ends, result_ends=read.anchors[1:]),
        markers=tuple(dict.fromkeys((*read.anchors, *ends, *(spoken or ()), *(calls.markers if calls else ()), *RESULT_MARKERS))),
        calls=calls.syntax if calls else None,
        call_format=None,
        write_call=(lambda call: calls.write([call])) if calls else write_plain,
        write_run=(lambda run, number: calls.write(run)) if calls else None,
        write_tools=(lambda offered: _offer(calls, offered)) if calls else (lambda offered: ""),
        gap=layout.feeds_before(calls.markers[0], 1) if calls else 1,
        breaks=() if whole else breaks,
        messages=whole,
        source=SOURCE,
    )
    if markers is None:
        return Declared(tools=tools, reasoning=None)
    return Declared(tools=tools, reasoning=_reasoning_part(markers, whole, template))


def _offer(calls: Calls, tools: Sequence[Tool]) -> str:
    return offer(tools, calls.write([EXAMPLE]), calls.rule)


def _reasoning_part(markers: ReasoningMarkers, messages: MessageFormat | None, template: str) -> ReasoningPart:
    switch = "enable_thinking" if "enable_thinking" in template else ""
    kept = [switch for switch in REPLAY_SWITCHES if switch.variable in template]
    known = frozenset((*([switch] if switch else ()), *(item.variable for item in kept)))
    return ReasoningPart(
        name=NAME,
        markers=markers,
        replay=_switched(kept[0]) if kept else ReplayPolicy(),
        switches=TemplateSwitches(
            agent={item.variable: item.value for item in kept[:1]},
            thinking_on={switch: True} if switch else {},
            thinking_off={switch: False} if switch else {},
            allowed=known,
        ),
        messages=messages,
        source=SOURCE,
    )


def _switched(switch: ReplaySwitch) -> ReplayPolicy:
    return ReplayPolicy(keep="all", switch=(switch.variable, switch.value), switched_off="after_last_user")


def _reasoning(read: Template, layout: Layout) -> ReasoningMarkers:
    """The markers of the reasoning region; white space that its patterns take is framing."""
    field, name = read.reasoning or Field(), read.reasoning_name
    openers = _literals(name, "open", field.openers, field.open_pattern)
    closers = _literals(name, "close", field.closers, field.close_pattern)
    if not closers:
        raise refuse(f"{name}.close", "reasoning without an end cannot be told from text")
    opener, closer = openers[0].rstrip("\n"), closers[0].lstrip("\n")
    strips = field.content_args.get("strip", True)
    return ReasoningMarkers(
        opener=opener,
        closer=closer,
        lead=layout.feeds_behind(opener, 1) if strips else 0,
        tail=layout.feeds_before(closer, 1) if strips else 0,
        behind=layout.feeds_behind(closer, 2) if strips else 0,
        spellings=(tuple(item.rstrip("\n") for item in openers[1:]), tuple(item.lstrip("\n") for item in closers[1:])),
    )


def _text_markers(text: Field) -> tuple[str, ...] | None:
    """The markers round text, where it stands in a region of its own: the opening ones and the closing ones, the written first."""
    if text.is_implicit:
        if text.close_pattern:
            raise refuse("content.close_pattern", "the end of the turn must be a literal")
        return None
    openers = _literals("content", "open", text.openers, text.open_pattern)
    closers = _literals("content", "close", text.closers, text.close_pattern)
    return (openers[0], *(closers[:1] or ("",)), *openers[1:], *closers[1:])


def _literals(name: str, what: str, literals: tuple[str, ...], pattern: str) -> tuple[str, ...]:
    """A delimiter as literals, without the white space that a pattern allows round it."""
    if not pattern:
        return literals
    where = f"{name}.{what}_pattern"
    pieces = [piece for piece in read_pattern(where, pattern) if not isinstance(piece, Space)]
    if len(pieces) == 1 and isinstance(pieces[0], Text):
        found: tuple[str, ...] = (pieces[0].text,)
    elif len(pieces) == 1 and isinstance(pieces[0], Either) and "" not in pieces[0].texts:
        found = pieces[0].texts
    else:
        raise refuse(where, f"{pattern!r} must be a text or alternatives of texts, with white space at most")
    if any(len(text.strip()) < 2 for text in found):
        raise refuse(where, "a marker must have two characters or more")
    return found


def _repeated_anchors(read: Template, calls: Calls | None) -> tuple[str, ...]:
    """Anchors that a model may write again within a turn: they mean nothing there."""
    taken = set(calls.syntax.openers) if calls else set()
    return tuple(anchor for anchor in map(str.strip, read.anchors) if anchor not in taken and len(anchor) > 1)


def _writer(text: tuple[str, ...] | None, reasoning: ReasoningMarkers | None, calls: Calls | None) -> Callable[[Sequence[Segment]], str]:
    """What a turn of regions is written as: nothing stands between them."""
    opener, closer = text[:2] if text else ("", "")

    def write(segments: Sequence[Segment]) -> str:
        parts: list[str] = []
        run: list[CallSegment] = []
        end = TextSegment("")
        for segment in (*segments, end):
            if isinstance(segment, CallSegment):
                run += [segment] if segment.status != "truncated" else []
                continue
            if run and calls is not None and (segment.text or segment is end):
                parts.append(calls.write(run))
                run = []
            if isinstance(segment, ReasoningSegment) and reasoning is not None and segment.text:
                parts.append(reasoning.opener + "\n" * reasoning.lead + segment.text + reasoning.close)
            elif isinstance(segment, TextSegment) and segment.text:
                parts.append(opener + segment.text + closer)
        return "".join(parts)

    return write
