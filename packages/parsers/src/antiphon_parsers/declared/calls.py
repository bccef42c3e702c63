"""The calls of a declaration: which of our call formats reads them, and how one is written.

What a call is follows from the field's transform, which says where the tool's name and its arguments come from, and from its
content: JSON objects, one or a list; a name in the opening pattern and JSON behind it; tags, one an argument; Python calls.
"""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from antiphon_parsers.arguments import json_text
from antiphon_parsers.declared.layout import Layout
from antiphon_parsers.declared.patterns import Either, Piece, Run, Space, Text, growing, read_pattern, regex, sample
from antiphon_parsers.declared.tags import read_tags
from antiphon_parsers.declared.template import Field, refuse
from antiphon_parsers.engine.any_calls import AnyCalls
from antiphon_parsers.engine.json_calls import JsonCalls
from antiphon_parsers.engine.listed_calls import ListedCalls
from antiphon_parsers.engine.named_calls import NamedCalls
from antiphon_parsers.engine.noted_body import Notation
from antiphon_parsers.engine.noted_calls import NotedCalls
from antiphon_parsers.families.gemma4 import written
from antiphon_parsers.families.parts import TYPED, UNTYPED, argument_text
from antiphon_parsers.families.pythonic import call_text
from antiphon_parsers.grammar import CallSyntax
from antiphon_turns import CallSegment

WHERE = "tool_calls"


class Calls(msgspec.Struct, frozen=True, kw_only=True):
    """`write` gives the text of calls that follow each other, `markers` what client text must not spell, `rule` how values are
    written, for the system text."""

    syntax: CallSyntax
    write: Callable[[Sequence[CallSegment]], str]
    markers: tuple[str, ...]
    rule: str = TYPED


class Sources(msgspec.Struct, frozen=True):
    """Where name and arguments come from: a key of the content, or "" for the pattern's capture and the whole content."""

    name: str
    arguments: str
    capture: str = ""


class Ends(msgspec.Struct, frozen=True):
    """How a call block opens and closes: the pieces of its opening, the literals of its closing (the outermost last)."""

    opening: tuple[Piece, ...]
    closing: tuple[str, ...]


def read_calls(field: Field, layout: Layout, turn_ends: tuple[str, ...]) -> Calls:
    """The call format of a declared field. ConfigError names what is not read, and why."""
    sources = _sources(field)
    closing = _closing(field, turn_ends)
    if field.open_pattern:
        openings = _variants(read_pattern(f"{WHERE}.open_pattern", field.open_pattern))
    else:
        openings = [(Text(opener),) for opener in field.openers]
    read = [_read(field, sources, Ends(opening, closing), layout) for opening in openings]
    return read[0] if len(read) == 1 else _merged(read)


def _merged(read: list[Calls]) -> Calls:
    """One format with several openings; the first is written."""
    markers = tuple(dict.fromkeys(marker for calls in read for marker in calls.markers))
    return msgspec.structs.replace(read[0], syntax=AnyCalls(tuple(calls.syntax for calls in read)), markers=markers)


def _read(field: Field, sources: Sources, ends: Ends, layout: Layout) -> Calls:
    match field.content:
        case "json" if sources.capture:
            return _noted(field, sources, ends, layout) if _has_notation(field) else _named(sources, ends, layout)
        case "json":
            return _objects(field, sources, ends, layout)
        case "xml-inline" if sources.capture:
            tags = read_tags(field, ends.opening, ends.closing, sources.capture, layout)
            return Calls(syntax=tags.syntax, write=each(tags.write), markers=tags.markers, rule=UNTYPED)
        case "python-call-list" if not sources.capture:
            return _python(field, sources, ends)
    raise refuse(WHERE, f"calls cannot be read from content {field.content!r} with this transform")


def each(write: Callable[[CallSegment], str], between: str = "\n") -> Callable[[Sequence[CallSegment]], str]:
    """A writer of several calls, a block each."""
    return lambda calls: between.join(map(write, calls))


def _sources(field: Field) -> Sources:
    """What the transform says of name and arguments."""
    transform = field.transform
    function = transform.get("function", transform) if isinstance(transform, dict) else None
    if isinstance(transform, dict) and (set(transform) - {"type", "function", "id", "name", "arguments"}):
        raise refuse(f"{WHERE}.transform", "it gives a call more than a name and arguments")
    if function == "{content}" and not field.transform_each:
        return Sources("name", "arguments")
    if not isinstance(function, dict) or not {"name", "arguments"} <= set(function) <= {"name", "arguments", "type", "id"}:
        raise refuse(f"{WHERE}.transform", "it does not say which part is the name and which the arguments")
    name, arguments = _placeholder(function["name"]), _placeholder(function["arguments"])
    if field.transform_each:
        if "." in name + arguments or "content" in (name, arguments):
            raise refuse(f"{WHERE}.transform", "only the keys of an element can be taken, none inside them")
        return Sources(name, arguments)
    keys = [_key(name), _key(arguments)]
    if all(keys):
        return Sources(*keys)
    if arguments == "content" and name != "content" and "." not in name:
        return Sources("", "", capture=name)
    raise refuse(f"{WHERE}.transform", "the name and the arguments must both be keys of the content, or a capture and the content")


def _placeholder(value: Any) -> str:
    if not isinstance(value, str) or not (value.startswith("{") and value.endswith("}")):
        raise refuse(f"{WHERE}.transform", f"{value!r} is not a placeholder")
    return value[1:-1]


def _key(placeholder: str) -> str:
    """The key of the content, "" when it is something else."""
    root, dot, key = placeholder.partition(".")
    if root == "content" and "." in key:
        raise refuse(f"{WHERE}.transform", f"{{{placeholder}}} lies inside a key of the content")
    return key if root == "content" and dot else ""


def _closing(field: Field, turn_ends: tuple[str, ...]) -> tuple[str, ...]:
    """The closing literals, from the innermost; what ends the whole turn closes nothing else."""
    if field.close_pattern:
        pieces = read_pattern(f"{WHERE}.close_pattern", field.close_pattern)
        if any(not isinstance(piece, Text | Space) for piece in pieces):
            raise refuse(f"{WHERE}.close_pattern", f"{field.close_pattern!r} must be text, with white space at most")
        return tuple(piece.text.strip() for piece in pieces if isinstance(piece, Text) and piece.text.strip())
    closers = tuple(closer for closer in field.closers if closer not in turn_ends)
    if len(closers) > 1:
        raise refuse(f"{WHERE}.close", "more than one closing marker")
    return closers


def _variants(opening: tuple[Piece, ...]) -> list[tuple[Piece, ...]]:
    """The opening once for each text that it may begin with."""
    while opening and isinstance(opening[0], Space):
        opening = opening[1:]
    first = opening[0] if opening else None
    if isinstance(first, Text):
        return [opening]
    if not isinstance(first, Either) or "" in first.texts:
        raise refuse(f"{WHERE}.open_pattern", "it does not begin with a marker, so what belongs to it cannot be told from text")
    rest = opening[1:]
    joined = rest[0].text if rest and isinstance(rest[0], Text) else ""
    return [(Text(text + joined), *rest[1 if joined else 0 :]) for text in first.texts]


def marker_of(ends: Ends) -> str:
    """The literal that opens a block."""
    first = ends.opening[0]
    marker = first.text if isinstance(first, Text) else ""
    if len(marker.strip()) < 2:
        raise refuse(f"{WHERE}.open", "the marker must have two characters or more, or prose cannot be told from it")
    return marker


def _in_prose(marker: str) -> bool:
    """Whether prose may spell the marker by itself: one that looks like a control token counts anywhere in reasoning, any other only
    at the start of a line."""
    return not marker.startswith(("<|", "<\uff5c", "["))


def _single(ends: Ends) -> str:
    """The one closing literal, "" when there is none."""
    if len(ends.closing) > 1:
        raise refuse(f"{WHERE}.close_pattern", "more than one closing marker")
    return ends.closing[0] if ends.closing else ""


def _has_notation(field: Field) -> bool:
    return bool(field.content_args.get("unquoted_keys") or field.content_args.get("string_delims"))


def _objects(field: Field, sources: Sources, ends: Ends, layout: Layout) -> Calls:
    """Objects that hold name and arguments."""
    if _has_notation(field):
        raise refuse(f"{WHERE}.content_args", "bare keys and string marks are read in arguments only, behind a name in the opening")
    if len(ends.opening) > 1 and any(not isinstance(piece, Space) for piece in ends.opening[1:]):
        raise refuse(f"{WHERE}.open_pattern", "an opening with more than a marker is read only where it holds the tool's name")
    opener, closer = marker_of(ends).strip("\n"), _single(ends)
    listed = field.transform_each
    syntax = JsonCalls(
        opener=opener,
        closer=closer,
        listed=listed,
        separator="," if listed else "",
        name_keys=(sources.name,),
        argument_keys=(sources.arguments,),
        line_start_in_reasoning=_in_prose(opener),
    )
    behind = "\n" * layout.feeds_behind(opener, 0 if listed else 1)
    before = "\n" * layout.feeds_before(closer, 0 if listed else 1) if closer else ""

    def written_object(call: CallSegment) -> str:
        return f"{{{json_text(sources.name)}: {json_text(call.name)}, {json_text(sources.arguments)}: {argument_text(call)}}}"

    def block(inside: str) -> str:
        return f"{opener}{behind}{inside}{before}{closer}"

    markers = (opener, closer) if closer else (opener,)
    if listed:
        return Calls(syntax=syntax, markers=markers, write=lambda calls: block(f"[{', '.join(map(written_object, calls))}]"))
    between = "\n" * layout.feeds_before(opener, 1)
    return Calls(syntax=syntax, markers=markers, write=each(lambda call: block(written_object(call)), between))


def _header(sources: Sources, ends: Ends) -> tuple[Piece, ...]:
    """What stands between the opening marker and the arguments; its capture is called `name`."""
    header: list[Piece] = []
    for piece in ends.opening[1:]:
        captured = getattr(piece, "name", "")
        header.append(msgspec.structs.replace(piece, name="name" if captured == sources.capture else "") if captured else piece)
    if sum(getattr(piece, "name", "") == "name" for piece in header) != 1:
        raise refuse(f"{WHERE}.open_pattern", f"it has no capture {sources.capture!r}")
    return tuple(header)


def _named(sources: Sources, ends: Ends, layout: Layout) -> Calls:
    """A name in the opening, JSON arguments behind it."""
    opener, closer = marker_of(ends), _single(ends)
    header = _header(sources, ends)
    texts = tuple(piece.text for piece in header if isinstance(piece, Text) and len(piece.text) > 1)
    behind = (*header, Space())
    syntax = NamedCalls(
        opener=opener,
        header=regex(behind),
        growing=growing(behind),
        closer=closer,
        separators=texts,
        line_start_in_reasoning=_in_prose(opener),
    )

    def write(call: CallSegment) -> str:
        return f"{opener}{sample(header, call.name)}{argument_text(call)}{closer}"

    between = "\n" * layout.feeds_before(opener, 0)
    return Calls(syntax=syntax, write=each(write, between), markers=tuple(marker for marker in (opener, closer, *texts) if marker))


def _noted(field: Field, sources: Sources, ends: Ends, layout: Layout) -> Calls:
    """A name in the opening, arguments with bare keys or strings between marks behind it."""
    opener, closer = marker_of(ends), _single(ends)
    header = _header(sources, ends)
    if not closer or not isinstance(header[-1], Run) or any(not isinstance(piece, Space) for piece in header[:-1]):
        raise refuse(f"{WHERE}.open_pattern", "arguments with bare keys are read behind a marker and a name, up to a closing marker")
    quote = _quote(field)
    # The word between marker and name, if there is one, is no marker by itself.
    head = opener.rfind(">") + 1 or len(opener)
    notation = Notation(close="}", assign=":", quote=quote, words=True, end=closer)
    word = opener[head:]
    syntax = NotedCalls(opener=opener[:head], prefix=word, open="{", notation=notation, line_start_in_reasoning=_in_prose(opener))

    def write(call: CallSegment) -> str:
        arguments = argument_text(call) if quote == "" else written(argument_text(call), quote)
        return f"{opener}{call.name}{arguments}{closer}"

    markers = tuple(marker for marker in (syntax.opener, closer, quote) if marker)
    return Calls(syntax=syntax, write=each(write, "\n" * layout.feeds_before(syntax.opener, 0)), markers=markers)


def _quote(field: Field) -> str:
    """The mark on either side of a string, "" when strings stand in quotes."""
    delimiters = field.content_args.get("string_delims") or []
    if not delimiters:
        return ""
    pair = delimiters[0] if len(delimiters) == 1 else []
    if not isinstance(pair, list) or len(pair) != 2 or pair[0] != pair[1] or not isinstance(pair[0], str) or len(pair[0]) < 2:
        raise refuse(f"{WHERE}.content_args.string_delims", "only one mark, the same on either side, is read")
    return pair[0]


def _python(field: Field, sources: Sources, ends: Ends) -> Calls:
    """A list of Python calls."""
    opener, closer = marker_of(ends), _single(ends)
    if not closer or len(ends.opening) > 1 or (sources.name, sources.arguments) != ("name", "arguments") or not field.transform_each:
        raise refuse(WHERE, "Python calls are read between two markers, each as name and arguments")
    syntax = ListedCalls(wrapper_open=opener, wrapper_close=closer, bare=False, line_start_in_reasoning=_in_prose(opener))
    return Calls(
        syntax=syntax,
        write=lambda calls: f"{opener}[{', '.join(map(call_text, calls))}]{closer}",
        markers=(opener, closer),
        rule="Write values as Python literals: text in quotes, True, False, None, numbers, lists and dicts.",
    )
