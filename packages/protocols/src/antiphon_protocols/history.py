"""What the histories of all surfaces share: what clients do to past calls, undone, and the words for what the model cannot see."""

import re
from collections.abc import Iterable

import msgspec

from antiphon_turns.ids import fold

RAW_KEY = "raw_arguments"
"""Key that holds arguments which are not a JSON object, so that a past call stays an object without losing a byte."""

_JSON_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[,:]|[^\s",:]+', re.DOTALL)
_SPACED = {",": ", ", ":": ": "}
_NOTHING = frozenset({"", "null", "{}", "[]", '""'})


TEXT_ONLY = "this model reads text only"


class CallNames:
    """Names of past calls by id, as the client spells it. Built while the history is read."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def add(self, call_id: str, name: str) -> None:
        """A later call with the same id wins."""
        self._names[fold(call_id)] = name

    def name_of(self, call_id: str) -> str | None:
        """The name of the call a result answers, if the history holds it."""
        return self._names.get(fold(call_id))


def argument_text(text: str) -> str:
    """Arguments of a past call as the text of one JSON object: verbatim if they are one, `{}` if they say nothing,
    else the whole text under `RAW_KEY`. Broken history must never end a session."""
    if is_object(text):
        return text
    if text.strip() in _NOTHING:
        return "{}"
    return msgspec.json.encode({RAW_KEY: text}).decode()


def input_text(raw: bytes) -> str:
    """The same for an already parsed value: an object in the spacing that models write; a string is taken as argument text."""
    text = raw.decode().strip()
    if text.startswith('"'):
        return argument_text(msgspec.json.decode(raw, type=str))
    return respaced(argument_text(text))


def respaced(text: str) -> str:
    """Valid JSON with one blank behind each comma and colon and no other white space between tokens; strings and numbers
    keep their spelling.

    Clients parse a call's arguments and send them back as compact JSON. Models are trained on this spacing (`json.dumps`), so it
    is what they most likely sampled, and a prompt that spells a past call the same way keeps the prefix."""
    return "".join(_SPACED.get(token, token) for token in _JSON_TOKEN.findall(text))


def is_object(text: str) -> bool:
    """Whether `text` is one valid JSON object."""
    if not text.lstrip().startswith("{"):
        return False
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return False
    return True


def not_shown(what: str, details: str = "") -> str:
    """What stands in a tool's result for a part that is no text: a session must not end because a tool took a screenshot."""
    return f"[{what}{f' ({details[:200]})' if details else ''} not shown: {TEXT_ONLY}]"


def joined(texts: Iterable[str]) -> str:
    """Several text blocks of one message are one text."""
    return "\n".join(texts)
