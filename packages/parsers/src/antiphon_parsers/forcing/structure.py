"""What a parser takes for structure inside a raw value: the runs of tags that such a value may not hold.

A closer inside a value counts for the parser only where the grammar goes on behind it, so only that is forbidden; a closing
tag by itself is data.
"""

from collections.abc import Iterable

from antiphon_parsers.engine.attribute_calls import AttributeCalls
from antiphon_parsers.engine.element_calls import ElementCalls
from antiphon_parsers.engine.invoke_calls import InvokeCalls
from antiphon_parsers.engine.pair_calls import PairCalls
from antiphon_parsers.engine.xml_calls import XmlCalls

Run = tuple[tuple[str, ...], ...]


def forbidden_in_value(syntax: XmlCalls | PairCalls | InvokeCalls | AttributeCalls, keys: Iterable[str]) -> tuple[Run, ...]:
    """The runs for a value of a call with these declared parameters."""
    names = tuple(keys)
    match syntax:
        case XmlCalls():
            return _xml(syntax, names)
        case AttributeCalls():
            behind = (syntax.call_open, *syntax.after_call)
            return (
                ((syntax.argument_close,), (syntax.argument_open, syntax.call_close, *behind)),
                ((syntax.call_close,), behind),
            )
        case _:
            return _tags(syntax, names)


def _xml(syntax: XmlCalls, names: tuple[str, ...]) -> tuple[Run, ...]:
    feed = "\n" if syntax.framed_values else ""
    openers = tuple(f"{feed}{opener}{name}>" for opener in syntax.parameter_open for name in names)
    return (*_closers(syntax), *([(openers,)] if openers else []))


def _tags(syntax: PairCalls | InvokeCalls, names: tuple[str, ...]) -> tuple[Run, ...]:
    runs = _closers(syntax)
    if names and isinstance(syntax, PairCalls):
        runs.append((syntax.parameter_open, names, syntax.key_close))
    elif names:
        runs.append((syntax.parameter_open, tuple(f"{quote}{name}{quote}" for name in names for quote in ('"', "'")) + names))
    return tuple(runs)


def _closers(syntax: XmlCalls | PairCalls | InvokeCalls) -> list[Run]:
    """A closer with what may follow it."""
    runs: list[Run] = [
        (syntax.parameter_close, syntax.parameter_open + syntax.call_close + syntax.block_close),
        (syntax.call_close, syntax.block_close + syntax.call_open),
    ]
    if syntax.block_open:
        runs.append((syntax.block_close, syntax.block_open))
    return runs


def forbidden_in_element(syntax: ElementCalls, key: str) -> tuple[Run, ...]:
    """The runs for a parameter that is text and nothing else."""
    return (((f"{syntax.marker}</{key}>",), (syntax.marker,)), ((syntax.ends[0],), syntax.ends[1:]))
