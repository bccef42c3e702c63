"""Where the characters of an untyped value go: straight out as a JSON string, or held until they can be typed."""

from abc import abstractmethod
from typing import Literal

from antiphon_parsers.coercion import JsonType, coerce, is_json, json_string
from antiphon_parsers.engine.cursor import Cursor, Found, MarkerSet
from antiphon_parsers.engine.emitter import Emitter
from antiphon_parsers.engine.record import Record
from antiphon_parsers.engine.tools import Parameters

HELD_LIMIT = 1 << 20
"""Characters of a value that are held for typing; a longer one is a string (I7)."""

_STRING: frozenset[JsonType] = frozenset(("string",))

ValueForm = Literal["schema", "string", "json"]
"""What types a value: the declared schema, or the model, which says that it is text or that it is JSON."""


class Sink(Record):
    """Takes one value."""

    __slots__ = ()

    @abstractmethod
    def write(self, text: str, out: Emitter) -> "Sink":
        """More of the value; returns the sink that takes what follows."""

    @abstractmethod
    def end(self, out: Emitter) -> None:
        """The value is complete."""

    def plain(self, text: str, markers: MarkerSet) -> str | None:
        """The short way (see `State.plain`), given the markers that may end the value."""
        return None


def pour(sink: Sink, markers: MarkerSet, cursor: Cursor, out: Emitter) -> tuple[Sink, Found | None]:
    """Gives the sink everything before the next marker, or before what may still become one. Returns the sink that takes
    what follows, and the marker when it is whole."""
    found = markers.find(cursor.text, cursor.at)
    end = found.start if found else markers.held_from(cursor.text, cursor.at)
    if end > cursor.at:
        sink = sink.write(cursor.text[cursor.at : end], out)
        cursor.at = end
    return sink, found


class StringValue(Sink):
    """A string: streams."""

    __slots__ = ()

    def __init__(self, member: str, out: Emitter) -> None:
        out.delta(member + '"')

    def write(self, text: str, out: Emitter) -> Sink:
        out.delta(json_string(text))
        return self

    def end(self, out: Emitter) -> None:
        out.delta('"')

    def plain(self, text: str, markers: MarkerSet) -> str | None:
        return None if markers.first.search(text) else json_string(text)


class HeldValue(Sink):
    """A value of some other type, or of several."""

    __slots__ = ("_form", "_member", "_parts", "_size", "_types")

    def __init__(self, member: str, types: frozenset[JsonType], *, form: ValueForm) -> None:
        self._member = member
        self._types = types
        self._form = form
        self._parts: list[str] = []
        self._size = 0

    def write(self, text: str, out: Emitter) -> Sink:
        self._parts.append(text)
        self._size += len(text)
        if self._size <= HELD_LIMIT:
            return self
        out.anomaly("held_value_too_long")
        return StringValue(self._member, out).write("".join(self._parts), out)

    def end(self, out: Emitter) -> None:
        out.delta(self._member + typed("".join(self._parts), self._types, form=self._form))


def typed(text: str, types: frozenset[JsonType], *, form: ValueForm) -> str:
    """A whole value as JSON."""
    word = text.strip()
    return word if form == "json" and is_json(word) else coerce(text, types)


class DroppedValue(Sink):
    """The value of a parameter whose tag is unreadable."""

    __slots__ = ()

    def write(self, text: str, out: Emitter) -> Sink:
        return self

    def end(self, out: Emitter) -> None:
        pass


class Wrapping(Sink):
    """The value of a first argument that may hold all of them: held until it is known what follows it."""

    __slots__ = ("_parts", "_size", "form", "key")

    def __init__(self, key: str, form: ValueForm) -> None:
        self.key = key
        self.form: ValueForm = form
        self._parts: list[str] = []
        self._size = 0

    @property
    def text(self) -> str:
        """The value as far as it is there."""
        return "".join(self._parts)

    @property
    def whole(self) -> str:
        """The value, when it is a JSON object; else ""."""
        text = self.text.strip()
        return text if text.startswith("{") and is_json(text) else ""

    def write(self, text: str, out: Emitter) -> Sink:
        self._parts.append(text)
        self._size += len(text)
        if self._size <= HELD_LIMIT:
            return self
        out.anomaly("held_value_too_long")
        self.form = "string"
        sink = StringValue(f'{{"{json_string(self.key)}": ', out).write(self.text, out)
        self._parts = []
        return sink

    @property
    def is_held(self) -> bool:
        """Whether it has not gone out yet."""
        return self._size <= HELD_LIMIT

    def end(self, out: Emitter) -> None:
        pass


class Arguments(Record):
    """The argument object of one call while it is written. A repeated key is written again: the last one wins
    wherever JSON is read. `wrappers` are keys that models put round all arguments: where the tool declares no such parameter
    and no other argument is given, the object in it is the arguments."""

    __slots__ = ("_littered", "_wrappers", "_wrapping", "keys", "parameters", "recovered")

    def __init__(self, parameters: Parameters, *, wrappers: tuple[str, ...] = ()) -> None:
        self.parameters = parameters
        self.keys: set[str] = set()
        self.recovered = False
        self._littered = False
        self._wrappers = wrappers
        self._wrapping: Wrapping | None = None

    def begin(self, key: str, out: Emitter, *, form: ValueForm = "schema") -> Sink:
        """The sink for the value of `key`."""
        if self._wrapping is not None:
            out.delta(self._unwrapped(self._wrapping))
            self._wrapping = None
        if key in self._wrappers and not self.keys and not self.parameters.declares(key):
            self.keys.add(key)
            self._wrapping = Wrapping(key, form)
            return self._wrapping
        member = self.member(key)
        return StringValue(member, out) if self._streams(key, form) else HeldValue(member, self.parameters.types(key), form=form)

    def member(self, key: str) -> str:
        """What stands before the value of `key`."""
        start = "{" if not self.keys else ", "
        self.keys.add(key)
        return f'{start}"{json_string(key)}": '

    def _streams(self, key: str, form: ValueForm) -> bool:
        return form == "string" or (form == "schema" and self.parameters.types(key) <= _STRING)

    def _unwrapped(self, value: Wrapping) -> str:
        """A wrapping that is an argument like any other, the first of the object."""
        if not value.is_held:
            return ""
        member = f'{{"{json_string(value.key)}": '
        if self._streams(value.key, value.form):
            return f'{member}"{json_string(value.text)}"'
        return member + typed(value.text, self.parameters.types(value.key), form=value.form)

    def skip_junk(self, cursor: Cursor, out: Emitter, *, upto: str) -> None:
        """Passes over text between the members, to where the character `upto` may begin a tag; it is told once a call."""
        following = cursor.text.find(upto, cursor.at + 1)
        cursor.at = following if following >= 0 else len(cursor.text)
        if not self._littered:
            self._littered = True
            out.anomaly("stray_call_text")

    @property
    def closing(self) -> str:
        """What ends the object."""
        if self._wrapping is not None:
            return self._wrapping.whole or self._unwrapped(self._wrapping) + "}"
        return "}" if self.keys else "{}"
