"""Structured output: a grammar for a turn whose visible text has to be one JSON value."""

from collections.abc import Mapping as Map
from functools import lru_cache

import msgspec

from antiphon_parsers.forcing.calls import Forced
from antiphon_parsers.forcing.lark import lower_lark
from antiphon_parsers.forcing.nodes import CallGrammar, Rules
from antiphon_parsers.forcing.references import bad_references
from antiphon_parsers.forcing.schema_reader import value_shape
from antiphon_parsers.forcing.shapes import Anything, Shape
from antiphon_parsers.forcing.values import ValueLowering
from antiphon_turns.request import OutputFormat

_SPARE = 2
_NESTING = 4


def force_output(output: OutputFormat, *, budget_tokens: int, end_token: str | None = None, tokens: Map[str, int] | None = None) -> Forced:
    """`output_grammar` as llguidance Lark, with no prefix. `end_token` and `tokens` as for `force_calls`."""
    grammar = output_grammar(output, budget_tokens=budget_tokens)
    return Forced("", lower_lark(grammar, end_token=end_token, tokens=tokens), grammar.notes)


def output_grammar(output: OutputFormat, *, budget_tokens: int) -> CallGrammar:
    """One JSON value that the schema accepts, or any object without one, within the budget. Pure, raises nothing: what a schema says
    that cannot be enforced is left open."""
    rules = Rules()
    shape, notes = output_shape(output.schema)
    root = ValueLowering(rules).value(shape, budget_tokens - _SPARE)
    return CallGrammar("", root, tuple(rules.bodies), notes)


@lru_cache(maxsize=256)
def output_shape(schema: str | None) -> tuple[Shape, tuple[str, ...]]:
    """The shape of a schema as JSON text, and what could not be read of it."""
    if schema is None:
        return Anything(only_objects=True, nesting=_NESTING), ()
    try:
        decoded = msgspec.json.decode(schema)
        notes = bad_references(decoded) if isinstance(decoded, dict) else ()
        return value_shape(decoded), tuple(f"the reference {name} of the output schema leads nowhere" for name in notes)
    except (msgspec.MsgspecError, RecursionError):
        return Anything(), ("the output schema is no JSON schema",)
