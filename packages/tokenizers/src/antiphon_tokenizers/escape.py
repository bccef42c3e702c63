"""Text is not control (I13): stand-ins for the characters by which client text could spell a control token.

An occurrence is escaped by replacing its first character with a private-use character that the request does not
hold; length is kept. Three kinds of client text are escaped: an occurrence of a marker; the beginning of a control
token at the end of a string; and a string that may continue or lie inside one begun before it, since a template
can put other text on either side (a property named `think` between `<` and `>`).
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any

import msgspec

from antiphon_tokenizers.jsontext import EscapedKey, FixedObject, loads
from antiphon_tokenizers.tries import alternation
from antiphon_turns import AssistantMessage, CallSegment, Message, ReasoningSegment, Segment, Tool, ToolMessage, TurnRequest
from antiphon_turns.errors import InvalidRequest

# Possessive, and the closing quote optional: linear time on any text, an unfinished string included.
_LITERAL = re.compile(r'"([^"\\]*+(?:\\.[^"\\]*+)*+)("?)', re.DOTALL)
_ESCAPED_PRIVATE_USE = re.compile(r"\\u([ef][0-9a-f]{3})", re.IGNORECASE)
_PRIVATE_USE = (range(0xE000, 0xF900), range(0xF0000, 0xFFFFE))
# Words that templates compare with: they are escaped only where they hold a whole marker, which they cannot.
_SCHEMA_WORDS = frozenset(
    (
        "type",
        "object",
        "string",
        "number",
        "integer",
        "boolean",
        "array",
        "null",
        "properties",
        "required",
        "description",
        "items",
        "enum",
        "default",
        "title",
        "format",
        "anyOf",
        "oneOf",
        "allOf",
        "additionalProperties",
    )
)


class Markers:
    """What must not be spelled by client text: control tokens, which no neighbouring text may complete either, and
    further texts that mean control to a model or its template, which are escaped where they stand whole."""

    def __init__(self, controls: Iterable[str], texts: Iterable[str] = ()) -> None:
        controls = sorted(set(controls) - {""})
        markers = sorted({*controls, *texts} - {""})
        self.firsts = "".join(sorted({marker[0] for marker in markers}))
        self.pattern = _first_characters(markers)
        self.prefixes = frozenset(marker[:size] for marker in controls for size in range(1, len(marker)))
        self.suffixes = frozenset(marker[size:] for marker in controls for size in range(1, len(marker)))
        sizes: dict[str, set[int]] = {}
        for suffix in self.suffixes:
            sizes.setdefault(suffix[0], set()).add(len(suffix))
        self.suffix_sizes = {first: tuple(sorted(found)) for first, found in sizes.items()}
        self.joined = "\0".join(controls)
        self.longest = max(map(len, controls), default=0)
        self.characters = frozenset("".join(markers))


def _first_characters(markers: list[str]) -> re.Pattern[str] | None:
    """Matches the first character of every occurrence, overlapping ones included."""
    rests: dict[str, list[str]] = {}
    for marker in markers:
        rests.setdefault(marker[0], []).append(marker[1:])
    if not rests:
        return None
    if len(rests) == 1:
        ((first, tails),) = rests.items()
        return re.compile(f"{re.escape(first)}(?={alternation(tails)})")
    branches = "|".join(f"(?<={re.escape(first)})(?={alternation(tails)})" for first, tails in rests.items())
    return re.compile(f"[{''.join(map(re.escape, rests))}](?:{branches})")


class StandIns:
    """The stand-ins of one request. `strings` are all its client strings, `json_texts` those that are JSON: neither
    may hold a stand-in. Which characters are taken depends on the request alone."""

    def __init__(self, markers: Markers, strings: Iterable[str], json_texts: Iterable[str] = (), *, avoid: str = "") -> None:
        json_texts = list(json_texts)
        spelled = "".join(chr(int(code, 16)) for text in json_texts if "\\u" in text for code in _ESCAPED_PRIVATE_USE.findall(text))
        self._markers = markers
        self._free: Iterator[str] = _unused([*strings, *json_texts, spelled, avoid])
        self._of: dict[str, str] = {}
        self._pairs: list[tuple[str, str]] = []

    def reserve(self) -> str:
        """A character that the request does not hold and that stands for nothing."""
        found = next(self._free, None)
        if found is None:
            raise InvalidRequest("the request uses every private-use character there is")
        return found

    def adopt(self, pairs: Sequence[tuple[str, str]]) -> bool:
        """Takes over (stand-in, character) pairs of an equal earlier use, if these stand-ins would be chosen now too."""
        taken = list(islice(self._free, len(pairs)))
        self._free = chain(taken, self._free)
        if self._pairs or taken != [stand_in for stand_in, _ in pairs]:
            return False
        for _, char in pairs:
            self._stand_in(char)
        return True

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """(stand-in, character) in the order of first use."""
        return tuple(self._pairs)

    def escape_whole(self, value: Any) -> Any:
        """A template variable: only whole markers are escaped, since templates compare such values."""
        if isinstance(value, str):
            return value if self._markers.pattern is None else self._markers.pattern.sub(self._replace, value)
        if isinstance(value, dict):
            return {self.escape_whole(key): self.escape_whole(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.escape_whole(item) for item in value]
        return value

    def escape(self, text: str, *, schema: bool = False) -> str:
        """`text` with stand-ins. With `schema` the keywords of JSON schema are left alone."""
        if not text:
            return text
        markers = self._markers
        if markers.pattern is not None and any(first in text for first in markers.firsts):
            text = markers.pattern.sub(self._replace, text)
            text = self._escape_end(text)
        if text[0] in markers.characters and not (schema and text in _SCHEMA_WORDS) and self._may_continue(text):
            text = self._stand_in(text[0]) + text[1:]
        return text

    def escape_json(self, text: str, *, schema: bool = False) -> str:
        """JSON text with its strings escaped, as by `escape`. A string is re-encoded only when its escape sequences spell a marker."""
        return _LITERAL.sub(self._escape_schema_literal if schema else self._escape_literal, text)

    def escape_value(self, value: Any) -> Any:
        """Decoded JSON, its keys and strings escaped as those of a schema; numbers keep their spelling."""
        if isinstance(value, str):
            return self.escape(value, schema=True)
        if isinstance(value, dict):
            return {self._key(key): self.escape_value(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.escape_value(item) for item in value]
        return value

    def unescape(self, text: str) -> str:
        """The client's own characters again."""
        for stand_in, char in self._pairs:
            if stand_in in text:
                text = text.replace(stand_in, char)
        return text

    def _key(self, key: str) -> str:
        escaped = self.escape(key, schema=True)
        if escaped == key:
            return key
        found = EscapedKey(escaped)
        found.plain = key
        return found

    def _stand_in(self, char: str) -> str:
        stand_in = self._of.get(char)
        if stand_in is None:
            stand_in = self._of[char] = self.reserve()
            self._pairs.append((stand_in, char))
        return stand_in

    def _replace(self, found: re.Match[str]) -> str:
        return self._stand_in(found[0])

    def _escape_end(self, text: str) -> str:
        """Breaks every beginning of a control token that the end of the text spells."""
        start = max(0, len(text) - self._markers.longest + 1)
        tail = text[start:]
        broken = [
            self._stand_in(char) if char in self._markers.firsts and tail[place:] in self._markers.prefixes else char
            for place, char in enumerate(tail)
        ]
        return text[:start] + "".join(broken)

    def _may_continue(self, text: str) -> bool:
        markers = self._markers
        if len(text) < markers.longest and text in markers.joined:
            return True
        return any(text[:size] in markers.suffixes for size in markers.suffix_sizes.get(text[0], ()))

    def _escape_schema_literal(self, literal: re.Match[str]) -> str:
        return literal[0] if literal[1] in _SCHEMA_WORDS else self._escape_literal(literal)

    def _escape_literal(self, literal: re.Match[str]) -> str:
        raw, quote = literal[1], literal[2]
        escaped = self.escape(raw)
        if "\\" not in raw or not quote:
            return f'"{escaped}{quote}'
        try:
            decoded = json.loads(f'"{escaped}"', strict=False)
        except ValueError:
            return f'"{escaped}"'
        safe = self.escape(decoded)
        return f'"{escaped}"' if safe == decoded else json.dumps(safe, ensure_ascii=False)


def _unused(strings: list[str]) -> Iterator[str]:
    tried = 0
    used: set[str] | None = None
    for block in _PRIVATE_USE:
        for char in map(chr, block):
            # A few look-ups are far cheaper than a set of all characters; a request that defeats them pays once.
            if used is None and tried == 16:
                used = set().union(*strings)
            tried += used is None
            if (char not in used) if used is not None else not any(char in text for text in strings):
                yield char


def client_strings(request: TurnRequest) -> tuple[list[str], list[str]]:
    """(plain strings, JSON texts) that a client supplied."""
    plain: list[str] = [msgspec.json.encode(request.template_kwargs).decode()]
    texts: list[str] = []
    for message in request.messages:
        if isinstance(message, AssistantMessage):
            for segment in message.segments:
                if isinstance(segment, CallSegment):
                    plain += (segment.name, segment.call_id)
                    texts.append(segment.arguments)
                else:
                    plain.append(segment.text)
        elif isinstance(message, ToolMessage):
            plain += (message.text, message.call_id, message.name or "")
        else:
            plain.append(message.text)
    for tool in request.tools:
        plain += (tool.name, tool.description or "")
        texts.append(tool.parameters)
    return plain, texts


def escape_message(message: Message, stand_ins: StandIns) -> Message:
    """The message with every string escaped."""
    escape = stand_ins.escape
    if isinstance(message, AssistantMessage):
        return AssistantMessage(tuple(escape_segment(segment, stand_ins) for segment in message.segments))
    if isinstance(message, ToolMessage):
        name = None if message.name is None else escape(message.name)
        return ToolMessage(escape(message.call_id), escape(message.text), name, message.is_error)
    return type(message)(escape(message.text))


def escape_segment(segment: Segment, stand_ins: StandIns) -> Segment:
    """The segment with every string escaped; status and counts are kept."""
    escape = stand_ins.escape
    if isinstance(segment, CallSegment):
        arguments = stand_ins.escape_json(segment.arguments)
        return CallSegment(escape(segment.name), arguments, escape(segment.call_id), segment.status, segment.tokens)
    if isinstance(segment, ReasoningSegment):
        return ReasoningSegment(escape(segment.text), segment.carrier, segment.status, segment.tokens)
    return type(segment)(escape(segment.text), segment.status, segment.tokens)


def escape_tool(tool: Tool, stand_ins: StandIns) -> Tool:
    """The tool with every string escaped, its schema still JSON text."""
    description = None if tool.description is None else stand_ins.escape(tool.description)
    return Tool(name=stand_ins.escape(tool.name), description=description, parameters=stand_ins.escape_json(tool.parameters, schema=True))


def template_tool(tool: Tool, stand_ins: StandIns) -> FixedObject:
    """The tool in the shape that templates expect, escaped. Raises InvalidRequest when the schema is not JSON."""
    try:
        parameters = stand_ins.escape_value(loads(tool.parameters))
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(f"the parameters of tool {tool.name!r} are not usable JSON: {error}", param="tools") from error
    function: dict[str, Any] = {"name": stand_ins.escape(tool.name)}
    if tool.description is not None:
        function["description"] = stand_ins.escape(tool.description)
    function["parameters"] = parameters
    return FixedObject({"type": "function", "function": function})
