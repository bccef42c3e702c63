"""Structured output: a grammar under which the visible text is one JSON value of a schema."""

import msgspec

from antiphon_parsers.call_grammar import Forced
from antiphon_parsers.schema_lark import Lark, ValueLowering
from antiphon_parsers.schema_shape import Anything, arguments_shape
from antiphon_turns import OutputFormat

_SPARE = 2


def force_output(output: OutputFormat, *, budget_tokens: int, end_token: str | None = None) -> Forced:
    """The prefix is empty; the grammar's root is the value, and `end_token` behind it. Raises nothing on account of a schema."""
    lark = Lark()
    schema = msgspec.json.decode(output.schema) if output.schema else {}
    shape = arguments_shape(schema) if isinstance(schema, dict) and schema else Anything(only_objects=True)
    value = ValueLowering(lark).value(shape, budget_tokens - _SPARE)
    return Forced("", lark.text(f"{value} {end_token}" if end_token else value))
