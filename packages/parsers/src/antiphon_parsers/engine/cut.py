"""How a call ends that the turn's end has cut."""

from antiphon_parsers.engine.cursor import Cursor
from antiphon_parsers.engine.emitter import Emitter
from antiphon_parsers.engine.prose import Mention


def cut_call(cursor: Cursor, out: Emitter) -> bool:
    """The turn ended inside the open call. A model that stops there by itself is an anomaly; a limit is not."""
    cursor.at = len(cursor.text)
    out.close("truncated", cursor.offset())
    if cursor.finish == "stop":
        out.anomaly("call_unfinished")
    return True


def cut_attempt(mention: Mention, name: str | None, cursor: Cursor, out: Emitter) -> bool:
    """The same for a call that had not begun: it is shown, cut and empty, when its name is known."""
    mention.prose.leave(out, cursor.offset(cursor.at + mention.lead))
    if name:
        out.open("tool_call", name)
    return cut_call(cursor, out)
