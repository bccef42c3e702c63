"""Call formats as data: what a family says about the text of its calls, for whoever has to force one."""

from collections.abc import Callable

import msgspec

from antiphon_parsers.engine.attribute_calls import AttributeCalls
from antiphon_parsers.engine.element_calls import ElementCalls
from antiphon_parsers.engine.invoke_calls import InvokeCalls
from antiphon_parsers.engine.pair_calls import PairCalls
from antiphon_parsers.engine.xml_calls import XmlCalls


def as_it_is(text: str) -> str:
    """JSON text is the notation itself."""
    return text


class ValueNotation(msgspec.Struct, frozen=True, kw_only=True):
    """How values are written. `quote`: double quotes are JSON strings, single ones Python's, anything else is a marker on both
    sides of raw text. `bare_keys`: members' names stand without quotes where they can. `ends`: what the parser takes for the end of
    raw text behind its quote. `spell` gives a JSON value in the notation."""

    quote: str = '"'
    item: str = ", "
    assign: str = ": "
    bare_keys: bool = False
    ends: tuple[str, ...] = ()
    spell: Callable[[str], str] = as_it_is


JSON = ValueNotation()


class ObjectArguments(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments are one object in the notation, brackets and all."""

    notation: ValueNotation = JSON


class KeywordArguments(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments are `KEY assign VALUE`, `item` between them, brackets not included."""

    notation: ValueNotation
    assign: str


class TagArguments(msgspec.Struct, frozen=True, kw_only=True):
    """Each argument is `open KEY key_end VALUE close`: strings are raw, other values JSON. `kinds`: what stands for `key_end` by the
    value's JSON type, where the tags say it. `empty` stands where there is no argument. `escape` spells names and keys in tags.
    `syntax` is what the parser reads, and so what a value may not hold."""

    open: str
    key_end: str
    close: str
    syntax: XmlCalls | PairCalls | InvokeCalls | AttributeCalls
    kinds: tuple[tuple[str, str], ...] = ()
    empty: str = ""
    escape: Callable[[str], str] = as_it_is


class ElementArguments(msgspec.Struct, frozen=True, kw_only=True):
    """Each argument is an element of its name, members and items elements in it."""

    syntax: ElementCalls


class CallFormat(msgspec.Struct, frozen=True, kw_only=True):
    """The calls of a turn: `block_open before NAME behind ARGUMENTS close (between before NAME ...)* block_close`.

    `quoted_name`: the name is a JSON string. `numbered`: each call has a number behind `behind`, and this text behind the number.
    `single`: the close ends the turn by itself, so that no second call can follow and no end-of-turn token does. `lead` stands before the
    calls of a turn that has no text."""

    before: str
    behind: str
    close: str
    arguments: ObjectArguments | KeywordArguments | TagArguments | ElementArguments = ObjectArguments()
    block_open: str = ""
    block_close: str = ""
    between: str = ""
    quoted_name: bool = False
    numbered: str = ""
    single: bool = False
    lead: str = ""


def json_envelope(
    before: str, close: str, *, key: str = "arguments", block_open: str = "", between: str, block_close: str = ""
) -> CallFormat:
    """Calls as `{"name": NAME, key: OBJECT}` with `before` in front and `close` behind."""
    return CallFormat(
        before=f'{before}{{"name": ',
        behind=f', "{key}": ',
        close=f"}}{close}",
        block_open=block_open,
        between=between,
        block_close=block_close,
        quoted_name=True,
    )
