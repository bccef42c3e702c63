"""Forced calls and structured output as structural tags (the form of xgrammar's structural_tag.py, which vLLM takes in
`structured_outputs.structural_tag`), as plain data.

JSON arguments are left to the engine's own reading of the schema; everything else is a grammar in the EBNF that `gbnf` writes.
"""

from collections.abc import Sequence
from typing import Any

from antiphon_parsers.forcing.calls import CallPart, call_parts
from antiphon_parsers.forcing.forms import JSON, CallFormat, ObjectArguments
from antiphon_parsers.forcing.gbnf import lower_gbnf
from antiphon_parsers.forcing.nodes import CallGrammar, Either, Exact, Node, Pattern, Ref, Run, Words
from antiphon_parsers.forcing.references import is_reference_good
from antiphon_turns import Tool, ToolChoice
from antiphon_turns.request import OutputFormat

Json = dict[str, Any]
_IN_NAMES = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_IN_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_INSIDE = ("items", "additionalProperties", "additionalItems", "contains")


def lower_structural_tag(call_format: CallFormat, tools: Sequence[Tool], choice: ToolChoice, *, budget_tokens: int) -> tuple[str, Json]:
    """(prefix, structural tag for what follows it): the same calls as `call_grammar`, raising as it does."""
    parts = call_parts(call_format, tools, choice, budget_tokens=budget_tokens)
    as_schema = isinstance(call_format.arguments, ObjectArguments) and call_format.arguments.notation == JSON
    calls = [_call(part, part.head, call_format, as_schema=as_schema) for part in parts.calls]
    elements = [_one_of(calls)]
    if parts.further:
        further = [_call(part, part.head, call_format, as_schema=as_schema) for part in parts.further]
        again = _row([_text(call_format.between), _one_of(further)])
        elements.append({"type": "repeat", "min": 0, "max": parts.most_further, "content": again})
    return parts.prefix, {"type": "structural_tag", "format": _row([*elements, _text(call_format.block_close)])}


def output_structural_tag(output: OutputFormat, schema: Json | None) -> Json:
    """Structured output; `schema` is the decoded one of `output`."""
    wanted: Json = {"type": "object"} if output.schema is None or schema is None else closed_schema(schema)
    return {"type": "structural_tag", "format": {"type": "json_schema", "json_schema": wanted}}


def _call(part: CallPart, head: Node, call_format: CallFormat, *, as_schema: bool) -> Json:
    start = _words(head, part.bodies)
    if as_schema and part.tool.freeform is None:
        schema = closed_schema({"type": "object", **part.tool.schema})
        return _row([start, {"type": "json_schema", "json_schema": schema}, _text(call_format.close)])
    grammar = CallGrammar("", part.body, tuple(part.bodies))
    return _row([start, {"type": "grammar", "grammar": lower_gbnf(grammar)}])


def _words(node: Node, bodies: Sequence[Node]) -> Json:
    match node:
        case Exact():
            return _text(node.text)
        case Words():
            return _one_of([_text(text) for text in node.texts])
        case Pattern():
            return {"type": "regex", "pattern": node.regex}
        case Run():
            return _row([_words(part, bodies) for part in node.parts])
        case Either():
            return _one_of([_words(option, bodies) for option in node.options])
        case Ref():
            return _words(bodies[node.number], bodies)
        case _:
            return {"type": "grammar", "grammar": lower_gbnf(CallGrammar("", node, tuple(bodies)))}


def _text(text: str) -> Json:
    return {"type": "const_string", "value": text}


def _row(elements: Sequence[Json]) -> Json:
    kept = [element for element in elements if element != _text("")]
    return kept[0] if len(kept) == 1 else {"type": "sequence", "elements": kept}


def _one_of(elements: Sequence[Json]) -> Json:
    return elements[0] if len(elements) == 1 else {"type": "or", "elements": list(elements)}


def closed_schema(schema: Json) -> Json:
    """The schema with undeclared members forbidden where it declares some and says nothing about others, and with references that
    lead nowhere left out."""
    closed = _closed(schema, schema, 0)
    return closed if isinstance(closed, dict) else schema


def _closed(schema: Any, root: Json, depth: int) -> Any:
    if not isinstance(schema, dict) or depth > 64:
        return schema
    found: Json = {}
    for key, value in schema.items():
        if key in _IN_NAMES and isinstance(value, dict):
            found[key] = {name: _closed(inner, root, depth + 1) for name, inner in value.items()}
        elif key in _IN_LISTS and isinstance(value, list):
            found[key] = [_closed(inner, root, depth + 1) for inner in value]
        elif key in _INSIDE:
            found[key] = _closed(value, root, depth + 1)
        elif key != "$ref" or is_reference_good(value, root):
            found[key] = value
    if isinstance(found.get("properties"), dict):
        found.setdefault("additionalProperties", False)
    return found
