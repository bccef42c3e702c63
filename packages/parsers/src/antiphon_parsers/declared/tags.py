"""Declared calls with one tag an argument (`xml-inline`): which of our tag formats has these tags."""

import re
from collections.abc import Callable

import msgspec

from antiphon_parsers.arguments import pairs, string_value
from antiphon_parsers.declared.layout import Layout
from antiphon_parsers.declared.patterns import Anything, Either, Piece, Run, Space, Text, read_pattern
from antiphon_parsers.declared.template import Field, refuse
from antiphon_parsers.engine.invoke_calls import InvokeCalls
from antiphon_parsers.engine.pair_calls import PairCalls
from antiphon_parsers.engine.xml_calls import XmlCalls
from antiphon_parsers.grammar import CallSyntax
from antiphon_turns import CallSegment

WHERE = "tool_calls"
_TAG = re.compile(r"<([\w:.|\uff5c-]+)(?:\s+[\w-]+)?=\"?$")


class TagCalls(msgspec.Struct, frozen=True):
    """A syntax, its writer and its markers."""

    syntax: CallSyntax
    write: Callable[[CallSegment], str]
    markers: tuple[str, ...]


class Argument(msgspec.Struct, frozen=True):
    """The tag of an argument: the text before its key, what stands between key and value, the text behind the value. `framed`:
    white space round the value is no part of it."""

    before: str
    between: tuple[Piece, ...]
    behind: str
    framed: bool


class Head(msgspec.Struct, frozen=True):
    """The opening of a call: the wrapper's marker ("" when there is none), the text before the name, the text behind it."""

    wrapper: str
    before: str
    behind: str


def read_tags(field: Field, opening: tuple[Piece, ...], closing: tuple[str, ...], capture: str, layout: Layout) -> TagCalls:
    """The tag format. ConfigError names what is not read, and why."""
    if not closing:
        raise refuse(f"{WHERE}.close", "calls of tags are read only up to a closing marker")
    argument, head = _argument(field), _head(opening, capture)
    texts = [piece.text for piece in argument.between if isinstance(piece, Text)]
    joined = "".join(texts)
    if texts == [">"] and argument.before.endswith("=") and head.before.endswith("=") and head.behind == ">" and head.wrapper:
        return _functions(argument, head, closing, layout)
    if argument.before.endswith('="') and joined.startswith('"') and joined.endswith(">"):
        return _attributes(argument, head, closing, layout)
    if len(texts) == 2 and not head.wrapper and not argument.framed:
        return _key_values(argument, head, texts, closing, layout)
    raise refuse(f"{WHERE}.content_args.tag_pattern", "such tags are in none of the forms that are read")


def _argument(field: Field) -> Argument:
    where = f"{WHERE}.content_args"
    arguments = dict(field.content_args)
    pattern, parser = arguments.pop("tag_pattern", None), arguments.pop("value_parser", None)
    if not isinstance(pattern, str):
        raise refuse(f"{where}.tag_pattern", "it is missing")
    if any(arguments.values()):
        raise refuse(where, f"{', '.join(arguments)}: is not read; of a repeated key the last value counts")
    if parser not in (None, {"name": "text"}) and parser != {"name": "json", "args": {"allow_non_json": True}}:
        raise refuse(f"{where}.value_parser", "values are read as text and typed by the tool's schema, and in no other way")
    pieces = read_pattern(f"{where}.tag_pattern", pattern)
    places = {piece.name: at for at, piece in enumerate(pieces) if isinstance(piece, Run | Anything) and piece.name}
    key, value = places.get("key", 0), places.get("value", 0)
    first, last = pieces[0], pieces[-1]
    if key != 1 or value < 3 or not isinstance(first, Text) or not isinstance(last, Text):
        raise refuse(f"{where}.tag_pattern", "it must be text, the key, text, the value, and text")
    lead, tail = pieces[value - 1], pieces[value + 1 : -1]
    framed = isinstance(lead, Space)
    if any(not isinstance(piece, Space) for piece in tail) or framed != bool(tail):
        raise refuse(f"{where}.tag_pattern", "white space must be framing on both sides of the value, or on neither")
    return Argument(first.text, pieces[2 : value - framed], last.text, framed)


def _head(opening: tuple[Piece, ...], capture: str) -> Head:
    place = next((at for at, piece in enumerate(opening) if isinstance(piece, Run | Anything) and piece.name == capture), -1)
    if place < 0:
        raise refuse(f"{WHERE}.open_pattern", f"it has no capture {capture!r}")
    before = [piece.text for piece in opening[:place] if isinstance(piece, Text)]
    behind = [piece.text for piece in opening[place + 1 :] if isinstance(piece, Text)]
    if any(isinstance(piece, Either | Run | Anything) for piece in (*opening[:place], *opening[place + 1 :])) or len(behind) > 1:
        raise refuse(f"{WHERE}.open_pattern", "only texts and white space may stand round the name")
    whole = "".join(before)
    tag = max(whole.rfind("<"), 0)
    return Head(whole[:tag].strip(), whole[tag:], behind[0] if behind else "")


def _inner(head: Head, closing: tuple[str, ...]) -> str:
    """What closes the tag that holds the name: declared, or the same tag with a slash."""
    found = _TAG.search(head.before)
    if len(closing) > 1:
        return closing[0]
    if found is None:
        raise refuse(f"{WHERE}.open_pattern", f"{head.before!r} is not the beginning of a tag")
    return f"</{found[1]}>"


def _functions(argument: Argument, head: Head, closing: tuple[str, ...], layout: Layout) -> TagCalls:
    """`<wrapper><function=NAME><parameter=KEY>VALUE</parameter></function></wrapper>`."""
    inner = _inner(head, closing)
    syntax = XmlCalls(
        block_open=(head.wrapper,),
        block_close=(closing[-1],),
        call_open=(head.before,),
        call_close=(inner,),
        parameter_open=(argument.before,),
        parameter_close=(argument.behind,),
        framed_values=argument.framed,
    )
    feed = "\n" * layout.feeds_behind(head.wrapper, 1)
    frame = "\n" if argument.framed else ""
    # A closer that was only concluded is written where the template writes it.
    end = inner + feed if len(closing) > 1 or layout.names(inner) else ""

    def write(call: CallSegment) -> str:
        values = ((key, string_value(raw)) for key, raw in pairs(call.arguments))
        body = "".join(f"{argument.before}{key}>{frame}{value}{frame}{argument.behind}{feed}" for key, value in values)
        return f"{head.wrapper}{feed}{head.before}{call.name}>{feed}{body}{end}{closing[-1]}"

    return TagCalls(syntax, write, (*syntax.openers, *syntax.closers, inner, argument.before, argument.behind))


def _attributes(argument: Argument, head: Head, closing: tuple[str, ...], layout: Layout) -> TagCalls:
    """`<block><invoke name="NAME"><parameter name="KEY">VALUE</parameter></invoke></block>`."""
    if argument.framed or not head.before.endswith('="') or head.behind != '">':
        raise refuse(f"{WHERE}.content_args.tag_pattern", "tags with attributes are read with values verbatim, and the name in one too")
    kinds = [piece for piece in argument.between if isinstance(piece, Either)]
    texts = [piece.text for piece in argument.between if isinstance(piece, Text)]
    known = [['">'], ['" string="', '">']][len(kinds) > 0]
    if texts != known or any(set(kind.texts) != {"true", "false"} for kind in kinds):
        raise refuse(f"{WHERE}.content_args.tag_pattern", 'beside the key only string="true|false" is read')
    inner = _inner(head, closing) if head.wrapper else closing[0]
    syntax = InvokeCalls(
        block_open=(head.wrapper,) if head.wrapper else (),
        block_close=(closing[-1],) if head.wrapper else (),
        call_open=(head.before[:-1],),
        call_close=(inner,),
        parameter_open=(argument.before[:-1],),
        parameter_close=(argument.behind,),
        typed=bool(kinds),
    )
    feed = "\n" * layout.feeds_behind(head.wrapper or head.behind, 1)

    def attribute(raw: str) -> str:
        return ("true" if raw.startswith('"') else "false").join(texts) if kinds else "".join(texts)

    def write(call: CallSegment) -> str:
        body = "".join(
            f"{argument.before}{key}{attribute(raw)}{string_value(raw)}{argument.behind}{feed}" for key, raw in pairs(call.arguments)
        )
        invoke = f'{head.before}{call.name}">{feed}{body}{inner}'
        return f"{head.wrapper}{feed}{invoke}{feed}{closing[-1]}" if head.wrapper else invoke

    markers = (*syntax.openers, *syntax.block_close, inner, *syntax.parameter_open, argument.behind)
    return TagCalls(syntax, write, markers)


def _key_values(argument: Argument, head: Head, texts: list[str], closing: tuple[str, ...], layout: Layout) -> TagCalls:
    """`<call>NAME<key>KEY</key><value>VALUE</value></call>`."""
    separator = head.behind.strip()
    syntax = PairCalls(
        call_open=(head.before.strip(),),
        call_close=(closing[-1],),
        parameter_open=(argument.before,),
        key_close=(texts[0],),
        value_open=(texts[1],),
        parameter_close=(argument.behind,),
        separator=(separator,) if separator else (),
    )
    feed = "\n" * layout.feeds_before(argument.before, 1)

    def write(call: CallSegment) -> str:
        body = "".join(
            f"{argument.before}{key}{texts[0]}{feed}{texts[1]}{string_value(raw)}{argument.behind}{feed}"
            for key, raw in pairs(call.arguments)
        )
        return f"{head.before.strip()}{call.name}{separator}{feed}{body}{closing[-1]}"

    markers = (*syntax.openers, *syntax.closers, *texts, argument.before, argument.behind, *syntax.separator)
    return TagCalls(syntax, write, markers)
