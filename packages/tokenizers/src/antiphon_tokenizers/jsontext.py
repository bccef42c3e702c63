"""JSON whose numbers keep the client's spelling, and Python-style output of it.

Source of the output form: Python's json.dumps, which is what `tojson` means in Hugging Face chat templates.
"""

import json
from collections.abc import Callable
from json.encoder import encode_basestring, encode_basestring_ascii
from typing import Any


class SpelledInt(int):
    """An integer that prints as it was written."""

    spelling: str

    def __str__(self) -> str:
        return self.spelling

    __repr__ = __str__


class SpelledFloat(float):
    """A number that prints as it was written, e.g. 1.10 or 1e3."""

    spelling: str

    def __str__(self) -> str:
        return self.spelling

    __repr__ = __str__


class EscapedKey(str):
    """A key with stand-ins, which sorts as what it stands for."""

    __slots__ = ("plain",)

    plain: str


class FixedObject(dict[str, Any]):
    """An object that nobody changes after it was built; remembers its JSON text."""

    __slots__ = ("texts",)

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.texts: dict[object, str] = {}


def loads(text: str) -> Any:
    """Parses JSON; object order and number spelling survive. Raises ValueError, also for nesting beyond reason."""
    try:
        return json.loads(text, parse_int=_int, parse_float=_float, strict=False)
    except RecursionError as error:
        raise ValueError("JSON is nested too deeply") from error


def _int(text: str) -> int | float:
    # Python refuses to read integers of more than 4,300 digits.
    if len(text) > 4000:
        return _float(text)
    value = int(text)
    if len(text) < 19 and str(value) == text:
        return value
    spelled = SpelledInt(value)
    spelled.spelling = text
    return spelled


def _float(text: str) -> float:
    spelled = SpelledFloat(text)
    spelled.spelling = text
    return spelled


def dumps(
    value: Any,
    *,
    indent: int | str | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
    ensure_ascii: bool = False,
) -> str:
    """json.dumps with the spelling of numbers kept. Raises TypeError for what is not JSON, ValueError for a cycle."""
    pad = " " * indent if isinstance(indent, int) else indent
    comma, colon = separators if separators is not None else (", " if pad is None else ",", ": ")
    quote = encode_basestring_ascii if ensure_ascii else encode_basestring
    out: list[str] = []
    try:
        _Writer(out.append, quote, pad, (comma, colon), sort_keys).write(value, 0)
    except RecursionError as error:
        raise ValueError("value is nested too deeply for JSON") from error
    return "".join(out)


class _Writer:
    def __init__(
        self, emit: Callable[[str], None], quote: Callable[[str], str], pad: str | None, separators: tuple[str, str], sort: Any
    ) -> None:
        self._emit = emit
        self._quote = quote
        self._pad = pad
        self._comma, self._colon = separators
        self._sort = bool(sort)
        self._form = (quote is encode_basestring, pad, separators, self._sort)

    def write(self, value: Any, depth: int) -> None:
        if isinstance(value, str):
            self._emit(self._quote(value))
        elif isinstance(value, FixedObject):
            self._fixed(value, depth)
        elif isinstance(value, dict):
            self._object(value, depth)
        elif isinstance(value, list | tuple):
            self._array(value, depth)
        elif isinstance(value, SpelledInt | SpelledFloat):
            self._emit(value.spelling)
        elif value is None or isinstance(value, int | float):
            self._emit(json.dumps(value))
        else:
            raise TypeError(f"a value of type {type(value).__name__} is not JSON")

    def _fixed(self, value: FixedObject, depth: int) -> None:
        form = (*self._form, depth if self._pad is not None else 0)
        text = value.texts.get(form)
        if text is None:
            emit, parts = self._emit, list[str]()
            self._emit = parts.append
            self._object(value, depth)
            self._emit = emit
            text = value.texts[form] = "".join(parts)
        self._emit(text)

    def _object(self, value: dict[Any, Any], depth: int) -> None:
        items = sorted(value.items(), key=_plain_key) if self._sort else value.items()
        lead, between, tail = self._layout(depth)
        mark = "{" + lead
        for key, item in items:
            name = key if isinstance(key, str) else json.dumps(key)
            self._emit(mark + self._quote(name) + self._colon)
            self.write(item, depth + 1)
            mark = between
        self._emit(tail + "}" if value else "{}")

    def _array(self, value: list[Any] | tuple[Any, ...], depth: int) -> None:
        lead, between, tail = self._layout(depth)
        mark = "[" + lead
        for item in value:
            self._emit(mark)
            self.write(item, depth + 1)
            mark = between
        self._emit(tail + "]" if value else "[]")

    def _layout(self, depth: int) -> tuple[str, str, str]:
        if self._pad is None:
            return "", self._comma, ""
        inner = "\n" + self._pad * (depth + 1)
        return inner, self._comma + inner, "\n" + self._pad * depth


def _plain_key(item: tuple[Any, Any]) -> Any:
    return item[0].plain if isinstance(item[0], EscapedKey) else item[0]
