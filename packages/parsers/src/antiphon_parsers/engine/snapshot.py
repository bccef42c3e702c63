"""Records to plain data and back.

A snapshot is a flat list of objects, the first of which is the root; each is a mapping of its fields, with its class under "is".
What is no plain value stands as a mapping with one key::

    {"ref": 3}                  the object with that number; an object that two others hold stands once
    {"given": "grammar.calls"}  a part of what the machine was constructed with
    {"parameters": "run"}       the declared parameters of a tool
    {"event": {...}}            a turn event that was not handed out yet
    {"tuple": [...]}            also "set", "frozenset" and "deque"
"""

from collections import deque
from collections.abc import Callable, Hashable, Iterator, Mapping
from functools import lru_cache
from hashlib import blake2b
from typing import Any

import msgspec

from antiphon_parsers.engine.record import FIELDS, RECORDS, Record, record_name
from antiphon_parsers.engine.tools import Parameters, ToolTable
from antiphon_parsers.grammar import Grammar
from antiphon_turns import Event
from antiphon_turns.errors import InternalError

_COLLECTIONS: dict[type, str] = {tuple: "tuple", set: "set", frozenset: "frozenset", deque: "deque"}
_MAKERS: dict[str, Callable[[list[Any]], Any]] = {name: kind for kind, name in _COLLECTIONS.items()}


class Given:
    """What a snapshot refers to by name: the grammar with all its parts, and the tools. `fingerprints` stand for both."""

    def __init__(self, grammar: Grammar, tools: ToolTable) -> None:
        self.tools = tools
        self.fingerprints = fingerprint(grammar), fingerprint(tools.declared)
        self._values = {name: value for name, value in _parts("grammar", grammar)} | {"tools": tools}
        self._names = {id(value): name for name, value in self._values.items()}

    def name(self, value: object) -> str | None:
        """Its name; None when it was not given."""
        return self._names.get(id(value))

    def value(self, name: str) -> object:
        """What has this name. KeyError when nothing has."""
        return self._values[name]


def _parts(name: str, value: object) -> Iterator[tuple[str, object]]:
    """Every record within a value of frozen data, with the way to it."""
    if isinstance(value, msgspec.Struct):
        yield name, value
        for field in value.__struct_fields__:
            yield from _parts(f"{name}.{field}", getattr(value, field))
    elif isinstance(value, tuple):
        for number, item in enumerate(value):
            yield from _parts(f"{name}.{number}", item)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _parts(f"{name}.{key}", item)


def freeze(root: Record, given: Given) -> list[dict[str, Any]]:
    """The root and all that it holds. InternalError for what cannot be data."""
    return _Freezer(given).freeze(root)


class _Freezer:
    def __init__(self, given: Given) -> None:
        self._given = given
        self._numbers: dict[int, int] = {}
        self._objects: list[object] = []

    def freeze(self, root: Record) -> list[dict[str, Any]]:
        self._number(root)
        done: list[dict[str, Any]] = []
        while len(done) < len(self._objects):
            item = self._objects[len(done)]
            cls = type(item)
            if RECORDS.get(record_name(cls)) is not cls:
                raise InternalError(f"{cls.__qualname__} is no record: a snapshot cannot hold it")
            done.append({"is": record_name(cls), **{field: self._plain(getattr(item, field)) for field in FIELDS[cls]}})
        return done

    def _number(self, item: object) -> int:
        """The number of an object, which is kept until all is written, so that no other takes its identity."""
        found = self._numbers.get(id(item))
        if found is None:
            found = self._numbers[id(item)] = len(self._objects)
            self._objects.append(item)
        return found

    def _plain(self, value: object) -> Any:
        if value is None or isinstance(value, (str, int)):
            return value
        if isinstance(value, list):
            return [self._plain(item) for item in value]
        if isinstance(value, (tuple, set, frozenset, deque)):
            items = sorted(value) if isinstance(value, (set, frozenset)) else value
            return {_COLLECTIONS[type(value)]: [self._plain(item) for item in items]}
        name = self._given.name(value)
        if name is not None:
            return {"given": name}
        if isinstance(value, Parameters):
            return {"parameters": value.name}
        if isinstance(value, Event):
            return {"event": msgspec.to_builtins(value)}
        return {"ref": self._number(value)}


def thaw(objects: list[dict[str, Any]], given: Given) -> object:
    """The root that was frozen. InternalError when this is no list that `freeze` made."""
    try:
        shells = [_shell(plain["is"]) for plain in objects]
        for shell, plain in zip(shells, objects, strict=True):
            for field in FIELDS[type(shell)]:
                setattr(shell, field, _value(plain[field], shells, given))
        for shell in shells:
            if isinstance(shell, Record):
                shell.derive()
        return shells[0]
    except (KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
        raise InternalError(f"the snapshot cannot be read: {error!r}") from error


def _shell(name: str) -> Any:
    """An object of a class without its fields."""
    return object.__new__(RECORDS[name])


def _value(plain: Any, shells: list[Any], given: Given) -> Any:
    if isinstance(plain, list):
        return [_value(item, shells, given) for item in plain]
    if not isinstance(plain, dict):
        return plain
    ((word, content),) = plain.items()
    match word:
        case "ref":
            return shells[content]
        case "given":
            return given.value(content)
        case "parameters":
            return given.tools.parameters(content)
        case "event":
            return msgspec.convert(content, Event)
    return _MAKERS[word]([_value(item, shells, given) for item in content])


@lru_cache(maxsize=256)
def fingerprint(value: Hashable) -> str:
    """Sixteen hexadecimal digits that stand for a grammar or other frozen data: equal in every process for equal data."""
    return blake2b(_spelled(value).encode(), digest_size=8).hexdigest()


def _spelled(value: object) -> str:
    if isinstance(value, msgspec.Struct):
        return f"{type(value).__qualname__}({','.join(_spelled(getattr(value, field)) for field in value.__struct_fields__)})"
    if isinstance(value, (tuple, list)):
        return f"[{','.join(map(_spelled, value))}]"
    if isinstance(value, Mapping):
        return f"{{{','.join(f'{_spelled(key)}:{_spelled(item)}' for key, item in value.items())}}}"
    if isinstance(value, (set, frozenset)):
        return f"<{','.join(sorted(map(_spelled, value)))}>"
    return getattr(value, "__qualname__", None) or repr(value)
