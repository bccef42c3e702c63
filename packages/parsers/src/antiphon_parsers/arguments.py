"""Argument text for writers: JSON objects split into members with every value's spelling kept."""

import json
from collections.abc import Sequence

from antiphon_turns import Tool
from antiphon_turns.json_scan import JsonScanner

_SPACE = " \t\n\r"


def json_text(value: str) -> str:
    """A string as JSON text, non-ASCII as it is."""
    return json.dumps(value, ensure_ascii=False)


def as_object(arguments: str) -> str | None:
    """The text without outer white space if it is a JSON object (empty text is `{}`), else None."""
    text = arguments.strip(_SPACE)
    if not text:
        return "{}"
    scanner = JsonScanner()
    return text if text.startswith("{") and scanner.feed(text) == len(text) and scanner.done else None


def members(arguments: str) -> list[tuple[str, str]] | None:
    """(key, JSON text of the value) in order, the last of a repeated key only; None if this is no JSON object."""
    text = as_object(arguments)
    if text is None:
        return None
    found: dict[str, str] = {}
    at = _skip(text, 1)
    while text[at] != "}":
        end = at + _length(text, at)
        key = json.loads(text[at:end])
        at = _skip(text, _skip(text, end) + 1)
        end = at + _length(text, at)
        found.pop(key, None)
        found[key] = text[at:end]
        at = _skip(text, end)
        if text[at] == ",":
            at = _skip(text, at + 1)
    return list(found.items())


def elements(array: str) -> list[str]:
    """The JSON text of each element of a JSON array."""
    found: list[str] = []
    at = _skip(array, 1)
    while array[at] != "]":
        end = at + _length(array, at)
        found.append(array[at:end].rstrip(_SPACE))
        at = _skip(array, end)
        if array[at] == ",":
            at = _skip(array, at + 1)
    return found


def pairs(arguments: str) -> list[tuple[str, str]]:
    """(key, JSON text of the value) in order; text that is no JSON object becomes one string, `arguments`."""
    found = members(arguments)
    return [("arguments", json_text(arguments))] if found is None else found


def string_value(raw: str) -> str:
    """The text a JSON string means; any other JSON value as it is written. Unpaired surrogates, which no tokenizer
    takes, become U+FFFD."""
    if not raw.startswith('"'):
        return raw
    value = json.loads(raw)
    return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace") if isinstance(value, str) else raw


def tool_lines(tools: Sequence[Tool]) -> str:
    """One tool a line, as JSON objects, the client's schema as it came."""
    return "\n".join(_tool_line(tool) for tool in tools)


def _tool_line(tool: Tool) -> str:
    description = "" if tool.description is None else f', "description": {json_text(tool.description)}'
    function = f'{{"name": {json_text(tool.name)}{description}, "parameters": {one_line(tool.parameters)}}}'
    return f'{{"type": "function", "function": {function}}}'


def one_line(document: str) -> str:
    """JSON text respelled with ", " and ": " and no other space between tokens; strings and numbers untouched."""
    out: list[str] = []
    at = 0
    while at < len(document):
        char = document[at]
        if char == '"':
            end = at + _length(document, at)
            out.append(document[at:end])
            at = max(end, at + 1)
            continue
        if char not in _SPACE:
            out.append(char + " " if char in ",:" else char)
        at += 1
    return "".join(out)


def _length(text: str, at: int) -> int:
    return JsonScanner().feed(text, at)


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at] in _SPACE:
        at += 1
    return at
