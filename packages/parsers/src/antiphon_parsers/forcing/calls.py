"""Forced tool calls: from tools and tool choice to the start of a call and a grammar for the rest of the turn.

A call keeps within the token budget by construction: see `cost` for the unit. Grammars are remembered by content.
"""

from collections.abc import Mapping as Map
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import msgspec

from antiphon_parsers.engine.tools import Parameters
from antiphon_parsers.forcing.chain import Tail, chain, joined
from antiphon_parsers.forcing.cost import JSON_MARKUP, least, literal_cost
from antiphon_parsers.forcing.elements import element_arguments
from antiphon_parsers.forcing.forms import CallFormat, ElementArguments, KeywordArguments, ObjectArguments, TagArguments
from antiphon_parsers.forcing.freeform import freeform_tree
from antiphon_parsers.forcing.lark import lower_lark
from antiphon_parsers.forcing.nodes import NOTHING, CallGrammar, Exact, Node, Pattern, Rules, said
from antiphon_parsers.forcing.pattern_reader import Unreadable
from antiphon_parsers.forcing.references import bad_references
from antiphon_parsers.forcing.resume import after_text
from antiphon_parsers.forcing.rooms import divide_call
from antiphon_parsers.forcing.schema_reader import arguments_shape
from antiphon_parsers.forcing.shapes import Anything, Choice, Mapping, Member, Text, json_text
from antiphon_parsers.forcing.tags import tag_arguments
from antiphon_parsers.forcing.values import ValueLowering
from antiphon_turns import Tool, ToolChoice

_SPARE = 2  # the end-of-turn token, and one where prefix and grammar meet
_NUMBER = "0|[1-9][0-9]{0,3}"
_MORE_CALLS = 3
_MORE_ROOM = 160  # tokens that a further call of a turn has to get, or there is none


class Forced(msgspec.Struct, frozen=True):
    """`prefix` is put into the prompt and counts as output; `grammar` (llguidance Lark) matches the rest. A prefix that holds a tool's
    name holds what a client wrote: where that spells a control token, it must be encoded as text. `notes`: what the grammar could not
    enforce, a sentence each."""

    prefix: str
    grammar: str
    notes: tuple[str, ...] = ()


def force_calls(
    call_format: CallFormat,
    tools: Sequence[Tool],
    choice: ToolChoice,
    *,
    budget_tokens: int,
    end_token: str | None = None,
    tokens: Map[str, int] | None = None,
) -> Forced:
    """`call_grammar` as llguidance Lark. `tokens`: the model's control tokens by spelling, for formats whose markers are
    control tokens. `end_token` has to follow the calls, by its spelling or, like `<[2]>`, its number; without it the engine ends
    with any end token of its own. Raises as `call_grammar`."""
    known = tuple(sorted((tokens or {}).items()))
    end = None if call_format.single else end_token
    return _forced_calls(call_format, tuple(tools), choice, _rounded(budget_tokens), end, known)


def call_grammar(call_format: CallFormat, tools: Sequence[Tool], choice: ToolChoice, *, budget_tokens: int) -> CallGrammar:
    """Calls of `tools` (mode "any") or of the one named, with arguments their schemas accept: one call where `choice.parallel` is
    off, one or more where it is on and the format allows it.

    `budget_tokens` is what prefix, calls and end of turn may take together. Pure; raises ValueError when there is no
    tool to call, and nothing on account of a schema.
    """
    return _call_grammar(call_format, tuple(tools), choice, _rounded(budget_tokens))


def force_argument(
    call_format: CallFormat,
    tool: Tool,
    *,
    written: str,
    budget_tokens: int,
    tokens: Map[str, int] | None = None,
) -> Forced | None:
    """The rest of a call that the model has begun by itself, so that a strict or freeform tool can be held to its grammar from here on.

    `written` is the text of the call so far, from its opening marker (of the block, or of a further call in it); the prefix is what
    certainly comes next, and the grammar ends where the call does, so that the turn can go on freely. None when the text is not
    how the format writes calls, or the value has gone too far to tell. Pure, raises nothing.
    """
    writer = _Writer(call_format)
    room = _rounded(budget_tokens) - _SPARE
    for block in (True, False):
        part = writer.part(tool, room, block=block)
        rest = after_text(writer.rules, writer.rules.run(part.head, part.body), written)
        if rest is not None:
            certain, node = rest
            grammar = CallGrammar(certain, node, tuple(writer.rules.bodies), tuple(writer.notes))
            return Forced(certain, lower_lark(grammar, tokens=tokens), grammar.notes)
    return None


def _rounded(budget: int) -> int:
    """A budget somewhat smaller, so that equal requests with nearly equal room share a grammar."""
    step = 1 if budget < 256 else 1 << (budget.bit_length() - 5)
    return budget // step * step


@lru_cache(maxsize=64)
def _forced_calls(
    call_format: CallFormat, tools: tuple[Tool, ...], choice: ToolChoice, budget: int, end: str | None, tokens: tuple[tuple[str, int], ...]
) -> Forced:
    grammar = call_grammar(call_format, tools, choice, budget_tokens=budget)
    return Forced(grammar.prefix, lower_lark(grammar, end_token=end, tokens=dict(tokens)), grammar.notes)


class CallPart(NamedTuple):
    """One tool's call: `head` before its arguments, `body` with the closing text, in the rules `bodies`."""

    tool: Tool
    head: Node
    body: Node
    bodies: Sequence[Node]


class CallParts(NamedTuple):
    """The calls that may come first, behind `prefix`, and those that may follow them, at most `most_further`."""

    prefix: str
    calls: list[CallPart]
    further: list[CallPart]
    most_further: int
    rules: Rules
    notes: tuple[str, ...]


def call_parts(call_format: CallFormat, tools: Sequence[Tool], choice: ToolChoice, *, budget_tokens: int) -> CallParts:
    """What `call_grammar` is made of. Raises as it does."""
    chosen = [tool for tool in tools if choice.mode != "named" or tool.name == choice.name]
    if not chosen:
        raise ValueError("no tool to force a call of")
    writer = _Writer(call_format)
    room = _rounded(budget_tokens) - _SPARE
    more_room = room // 4 // _MORE_CALLS if choice.parallel and not call_format.single else 0
    prefix = writer.prefix(chosen[0] if len(chosen) == 1 else None)
    further: list[CallPart] = []
    if more_room >= _MORE_ROOM:
        room -= more_room * _MORE_CALLS
        further = [writer.part(tool, more_room, block=False) for tool in chosen if writer.fits(tool, more_room)]
    calls = [writer.part(tool, room, prefix) for tool in chosen]
    return CallParts(call_format.lead + prefix, calls, further, _MORE_CALLS, writer.rules, tuple(dict.fromkeys(writer.notes)))


@lru_cache(maxsize=64)
def _call_grammar(call_format: CallFormat, tools: tuple[Tool, ...], choice: ToolChoice, budget: int) -> CallGrammar:
    parts = call_parts(call_format, tools, choice, budget_tokens=budget)
    rules = parts.rules
    between = Exact(call_format.between)
    further = [rules.run(between, part.head, part.body) for part in parts.further]
    again = rules.several(rules.either(further), 0, parts.most_further) if further else NOTHING
    first = rules.either(rules.run(part.head, part.body) for part in parts.calls)
    root = rules.run(first, again, Exact(call_format.block_close))
    return CallGrammar(parts.prefix, root, tuple(rules.bodies), parts.notes)


class _Plan(NamedTuple):
    """What a tool's arguments must look like, and what of that cannot be had."""

    shape: Mapping | Choice | Anything
    notes: tuple[str, ...] = ()


@lru_cache(maxsize=2048)
def _plan(tool: Tool) -> _Plan:
    """Memoised, since clients send the same tools with every request."""
    try:
        schema = tool.schema
        shape = arguments_shape(schema)
    except (msgspec.MsgspecError, RecursionError):
        return _Plan(Anything(only_objects=True), (f"tool {tool.name}: its parameters are no JSON schema",))
    notes = tuple(f"tool {tool.name}: the reference {name} leads nowhere" for name in bad_references(schema))
    if tool.freeform is None:
        return _Plan(shape, notes)
    key = (tool.required() or ("input",))[0]
    try:
        text = Text(tree=freeform_tree(tool.freeform))
    except (Unreadable, RecursionError) as error:
        return _Plan(shape, (*notes, f"tool {tool.name}: its {tool.freeform.syntax} grammar is not enforced, because of {error}"))
    return _Plan(Mapping((Member(key, text, required=True),)), notes)


class _Writer:
    """Calls of one format in one set of rules."""

    def __init__(self, form: CallFormat) -> None:
        self.rules = Rules()
        self.notes: list[str] = []
        self._form = form
        arguments = form.arguments
        self._values = ValueLowering(self.rules, arguments.notation) if isinstance(arguments, ObjectArguments | KeywordArguments) else None

    def _name(self, tool: Tool) -> str:
        form = self._form
        if isinstance(form.arguments, TagArguments):
            return form.arguments.escape(tool.name)
        return json_text(tool.name) if form.quoted_name else tool.name

    def start(self, tool: Tool) -> str:
        """Everything before the arguments."""
        form = self._form
        return form.block_open + form.before + self._name(tool) + form.behind

    def prefix(self, tool: Tool | None) -> str:
        """What is certain: up to the name where there is a choice. A space at the end would keep the tokenizer from its usual joined
        token."""
        form = self._form
        certain = form.block_open + form.before
        if tool is not None:
            # A name that a client wrote may spell a control token: here it is text, where an engine's grammar could not say it so.
            certain = self.start(tool)
        return certain.rstrip(" ")

    def head(self, tool: Tool, prefix: str = "", *, block: bool = True) -> Node:
        """What stands before the arguments, behind the prefix."""
        form, rules = self._form, self.rules
        before = (form.block_open if block else "") + form.before
        number = (Pattern(_NUMBER), Exact(form.numbered)) if form.numbered else ()
        if len(prefix) > len(before):
            return rules.run(Exact(self.start(tool)[len(prefix) :]), *number)
        return rules.run(Exact(before[len(prefix) :]), said(self._name(tool)), Exact(form.behind), *number)

    def part(self, tool: Tool, room: int, prefix: str = "", *, block: bool = True) -> CallPart:
        """One whole call behind the prefix, without the block's end."""
        head = self.head(tool, prefix, block=block)
        return CallPart(tool, head, self.body(tool, room - literal_cost(self.start(tool))), self.rules.bodies)

    def fits(self, tool: Tool, room: int) -> bool:
        """Whether the smallest call of the tool needs no more than half the room."""
        return 2 * (least(_plan(tool).shape) + literal_cost(self.start(tool) + self._form.close)) <= room

    def body(self, tool: Tool, room: int) -> Node:
        """Arguments and closing text."""
        shape, notes = _plan(tool)
        self.notes += notes
        left = room - literal_cost(self._form.close)
        options = shape.options if isinstance(shape, Choice) else (shape,)
        return self.rules.either(self._arguments(tool, option if isinstance(option, Mapping) else None, left) for option in options)

    def _arguments(self, tool: Tool, shape: Mapping | None, room: int) -> Node:
        form, rules = self._form, self.rules
        arguments, close = form.arguments, form.close
        known = shape or Mapping()
        if isinstance(arguments, TagArguments):
            return tag_arguments(rules, arguments, known, room, close)
        if isinstance(arguments, ElementArguments):
            parameters = Parameters(tool.name, tool)
            return element_arguments(
                rules, arguments.syntax, known, room, close, lambda key: parameters.types(key) == frozenset(("string",))
            )
        values = self._values or ValueLowering(rules)
        if isinstance(arguments, KeywordArguments):
            return self._keywords(arguments, known, room, values)
        if shape is None:
            return values.value(Anything(only_objects=True), room, close)
        places, extra_room = divide_call(shape, room, markup=JSON_MARKUP)
        return values.members(shape, places, extra_room, close)

    def _keywords(self, arguments: KeywordArguments, shape: Mapping, room: int, values: ValueLowering) -> Node:
        rules, texts = self.rules, (arguments.notation.item, self._form.close)
        places, _ = divide_call(shape, room, markup=JSON_MARKUP)
        tail = chain(
            rules,
            places,
            Tail(None, NOTHING),
            lambda key, value, space, after: values.followed(rules.run(said(key), Exact(arguments.assign)), value, space, after, texts),
        )
        if tail.more is None:
            return Exact(self._form.close)
        return joined(rules, tail if shape.low == 0 else Tail(tail.more, None), NOTHING, Exact(self._form.close))
