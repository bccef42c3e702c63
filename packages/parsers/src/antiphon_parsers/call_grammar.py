"""Forced tool calls: from tools and tool choice to the start of a call and a grammar for the rest of the turn.

Two call formats: "hermes_json" (grammars facts 2.1, a JSON object between `<tool_call>` markers) and "qwen3_xml" (2.2, one tag
a parameter, strings as bare text). The whole call keeps within the token budget by construction: see `schema_cost` for the unit.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple, Protocol

import msgspec

from antiphon_parsers.schema_cost import JSON_MARKUP, literal_cost, shares
from antiphon_parsers.schema_lark import (
    FORMS,
    Lark,
    State,
    ValueLowering,
    Variant,
    any_of,
    bounded,
    chain,
    fit_members,
    literal,
    unanchored,
    without,
)
from antiphon_parsers.schema_shape import Anything, Choice, Literals, Mapping, Member, Shape, Text, arguments_shape, json_text
from antiphon_turns import Tool, ToolChoice

CallFormat = Literal["hermes_json", "qwen3_xml"]

_SPARE = 2  # the end-of-turn token, and one where prefix and grammar meet
_CROWD = 64  # tokens an ordinary argument gets beside a big one
_STRUCTURE = ("</parameter", "</function", "</tool_call", "<parameter=", "<function=", "<tool_call>")
"""What the parser could take for structure inside a bare value."""
_BYTE, _WIDE = r"[\x00-\x7F]", r"[\u{80}-\u{10FFFF}]"
_VALUE_END = "\n</parameter>\n"


class Forced(msgspec.Struct, frozen=True):
    """`prefix` is put into the prompt and counts as output; `grammar` (llguidance Lark) matches the rest of the turn."""

    prefix: str
    grammar: str


def force_calls(
    call_format: CallFormat, tools: Sequence[Tool], choice: ToolChoice, *, budget_tokens: int, end_token: str | None = None
) -> Forced:
    """Exactly one call, of one of `tools` (mode "any") or of the one named, with arguments its schema accepts.

    `budget_tokens` is what prefix, call and end of turn may take together. `end_token` is the control token that has
    to follow the call, by its spelling (`<|im_end|>`) or number (`<[2]>`), and must exist in the model's vocabulary as a control
    token; without it the engine ends with any end token of its own. Pure; raises ValueError when there
    is no tool to call, and nothing on account of a schema.
    """
    chosen = [tool for tool in tools if choice.mode != "named" or tool.name == choice.name]
    if not chosen:
        raise ValueError("no tool to force a call of")
    lark = Lark()
    writer: _Format = _Hermes(lark) if call_format == "hermes_json" else _Qwen(lark)
    room = budget_tokens - _SPARE
    calls: list[str] = []
    prefix = writer.opening
    if len(chosen) == 1:
        # a space at the end would keep the tokenizer from its usual joined token
        prefix = writer.opening + writer.header(chosen[0].name).rstrip(" ")
    for tool in chosen:
        text = writer.opening + writer.header(tool.name)
        body = _call(writer, tool, room - literal_cost(text))
        calls.append(f"{literal(text[len(prefix) :])} {body}" if len(text) > len(prefix) else body)
    end = f" {end_token}" if end_token else ""
    return Forced(prefix, lark.text(f"{any_of(calls)}{end}"))


class _Format(Protocol):
    """What differs between the call formats. Bodies are Lark rule bodies."""

    opening: str
    closing: str
    markup: int

    def header(self, name: str) -> str:
        """Text between the opening and the arguments."""
        ...

    def arguments(self, shape: Mapping, division: "_Division") -> str:
        """Arguments and closing."""
        ...

    def argument(self, shape: Shape, room: int) -> str:
        """One argument's value."""
        ...

    def free(self, room: int) -> str:
        """Arguments nothing is known about, and closing."""
        ...


class _Division(NamedTuple):
    """The room of a call, divided."""

    members: list[Member]
    variants: list[Variant]
    extra_room: int


def _call(writer: _Format, tool: Tool, room: int) -> str:
    shape = arguments_shape(tool.schema)
    left = room - literal_cost(writer.closing)
    options = shape.options if isinstance(shape, Choice) else (shape,)
    bodies = [
        writer.arguments(option, _divide(writer, option, left)) if isinstance(option, Mapping) else writer.free(left) for option in options
    ]
    return any_of(bodies)


def _divide(writer: _Format, shape: Mapping, room: int) -> _Division:
    """Every argument gets an ordinary share; beside that one of them, whichever the model fills, may be big. So a call that
    writes a file can use nearly the whole budget for its content, although the path may be any string too."""
    members, claims = fit_members(shape, room, markup=writer.markup)
    if shape.extra is not None:
        claims[-1] = (0, max(0, room // 8), 1)
    needed = sum(low for low, _, _ in claims)
    spare = max(0, room - needed)
    growing = sum(1 for low, high, _ in claims if high > low)
    crowd = shares(needed + max(spare // 8, min(_CROWD * growing, spare // 2)), claims)
    fair = shares(room, claims)
    big = room - sum(crowd)
    sizes = [min(crowd[k] + big, claims[k][1]) for k in range(len(members))]
    may_be_big = [growing > 1 and size > fair[k] * 3 // 2 for k, size in enumerate(sizes)]
    ordinary = crowd if any(may_be_big) else fair
    variants: list[Variant] = []
    for k, member in enumerate(members):
        key = literal_cost(member.key) + writer.markup
        grown = writer.argument(member.shape, sizes[k] - key) if may_be_big[k] else None
        variants.append(Variant(writer.argument(member.shape, ordinary[k] - key), grown))
    return _Division(members, variants, ordinary[-1] if shape.extra is not None else 0)


class _Hermes:
    """`<tool_call>` newline {"name": ..., "arguments": ...} newline `</tool_call>`."""

    opening = '<tool_call>\n{"name":'
    closing = "}\n</tool_call>"
    markup = JSON_MARKUP

    def __init__(self, lark: Lark) -> None:
        self._values = ValueLowering(lark)

    def header(self, name: str) -> str:
        return f' {json_text(name)}, "arguments": '

    def arguments(self, shape: Mapping, division: _Division) -> str:
        body = self._values.members(shape, division.members, division.variants, division.extra_room)
        return f"{body} {literal(self.closing)}"

    def argument(self, shape: Shape, room: int) -> str:
        return self._values.value(shape, room)

    def free(self, room: int) -> str:
        return f"{self._values.value(Anything(only_objects=True), room)} {literal(self.closing)}"


class _Qwen:
    """`<function=NAME>`, a `<parameter=KEY>` block for each argument, `</function>`. A value that may be a string is bare text and
    must not hold what reads as structure; every other value is JSON. Undeclared arguments are not written."""

    opening = "<tool_call>\n<function="
    closing = "</function>\n</tool_call>"
    markup = 15

    def __init__(self, lark: Lark) -> None:
        self._lark = lark
        self._values = ValueLowering(lark)

    def header(self, name: str) -> str:
        return f"{name}>\n"

    def arguments(self, shape: Mapping, division: _Division) -> str:
        end = literal(self.closing)
        bare = None if shape.low > 0 else end
        endings: dict[State, str | None] = {(False, False): bare, (False, True): bare, (True, False): end, (True, True): end}
        return chain(self._lark, division.members, division.variants, endings, lambda name, _: literal(f"<parameter={name}>\n"))

    def argument(self, shape: Shape, room: int) -> str:
        options = shape.options if isinstance(shape, Choice) else (shape,)
        if any(isinstance(option, Anything) and not option.only_objects for option in options):
            return self._bare(Text(), room)
        texts = [option for option in options if isinstance(option, Text)]
        others = [option for option in options if not isinstance(option, Text)]
        bodies = [self._bare(text, room) for text in texts]
        bodies += [f"{self._other(option, room)} {literal(_VALUE_END)}" for option in others]
        return self._lark.rule(any_of(bodies))

    def _other(self, shape: Shape, room: int) -> str:
        if isinstance(shape, Literals):
            return self._lark.terminal(any_of(literal(_bare_spelling(text)) for text in shape.texts))
        return self._values.value(shape, room)

    def _bare(self, shape: Text, room: int) -> str:
        """A string as it is, up to the first closer on a line of its own, closer included."""
        if shape.form is not None:
            return self._lark.rule(f"{self._lark.terminal(f'/{FORMS[shape.form]}/')} {literal(_VALUE_END)}")
        if shape.pattern is not None:
            high = max(shape.low, room) if shape.high is None else shape.high
            body = f"{unanchored(shape.pattern)} & /[^<\\n]{{{shape.low},{high}}}/"
        else:
            body = f"({bounded(_BYTE, _WIDE, shape.low, room, shape.high)}) & /{without(_STRUCTURE)}/"
        return self._lark.rule_ending(self._lark.terminal(body), _VALUE_END)

    def free(self, room: int) -> str:
        return literal(self.closing)


def _bare_spelling(text: str) -> str:
    """A literal as this format writes it: a string without its quotes, any other value as JSON."""
    value = msgspec.json.decode(text)
    return value if isinstance(value, str) else text
