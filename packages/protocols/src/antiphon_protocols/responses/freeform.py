"""The raw input of a freeform call, out of the arguments it is written in: `{"input": "<text>"}`, decoded as it arrives."""

import re

import msgspec

from antiphon_protocols.responses.tools import INPUT

_HEAD = re.compile(r'\s*\{\s*"input"\s*:\s*"')
_HEAD_BEGUN = re.compile(r'\s*(?:\{\s*(?:"(?:i(?:n(?:p(?:u(?:t(?:"\s*(?::\s*)?)?)?)?)?)?)?)?)?')
_RUN = re.compile(r'[^"\\]+')
_SHORT = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_ARGUMENTS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_TEXT = msgspec.json.Decoder(str)


class FreeformReader:
    """Feed argument JSON in any pieces: `feed` gives the part of the input that is certain by then, `finish` the rest. Their sum is
    the input. Arguments of any other form are held, and `finish` makes the best of them."""

    def __init__(self) -> None:
        self._all: list[str] = []
        self._state = "head"
        self._pending = ""
        self._high = ""

    def feed(self, text: str) -> str:
        """Decoded text that `text` completes."""
        self._all.append(text)
        if self._state in ("held", "done"):
            return ""
        self._pending += text
        if self._state == "head" and not self._read_head():
            return ""
        return self._read_string()

    def finish(self) -> str:
        """What `feed` has not given yet, at the end of the arguments."""
        if self._state == "done":
            return ""
        if self._state == "string":
            return self._flush("")
        return whole_input("".join(self._all))

    def _read_head(self) -> bool:
        found = _HEAD.match(self._pending)
        if found:
            self._pending, self._state = self._pending[found.end() :], "string"
        elif not _HEAD_BEGUN.fullmatch(self._pending):
            self._state = "held"
        return found is not None

    def _read_string(self) -> str:
        out: list[str] = []
        text, at = self._pending, 0
        while at < len(text):
            run = _RUN.match(text, at)
            if run:
                out.append(self._flush(run[0]))
                at = run.end()
            elif text[at] == '"':
                out.append(self._flush(""))
                self._state, at = "done", len(text)
            else:
                size = 6 if text[at + 1 : at + 2] == "u" else 2
                if at + size > len(text):
                    break
                out.append(self._escape(text[at + 1 : at + size]))
                at += size
        self._pending = text[at:]
        return "".join(out)

    def _escape(self, body: str) -> str:
        if body[0] != "u":
            return self._flush(_SHORT.get(body, body))
        try:
            code = int(body[1:], 16)
        except ValueError:
            return self._flush("\ufffd")
        if 0xD800 <= code < 0xDC00:
            out = self._flush("")
            self._high = chr(code)
            return out
        if 0xDC00 <= code < 0xE000:
            if not self._high:
                return "\ufffd"
            high, self._high = ord(self._high), ""
            return chr(0x10000 + ((high - 0xD800) << 10) + (code - 0xDC00))
        return self._flush(chr(code))

    def _flush(self, text: str) -> str:
        """`text`, behind the mark for half a character whose other half never came."""
        lost, self._high = ("\ufffd" if self._high else ""), ""
        return lost + text


def whole_input(arguments: str) -> str:
    """The input of a complete call. A model that named its one text otherwise is understood; anything else is handed over as it
    is, for the tool to complain about."""
    try:
        fields = _ARGUMENTS.decode(arguments)
        values = [fields[INPUT]] if INPUT in fields else list(fields.values())
        return _TEXT.decode(values[0]) if len(values) == 1 else arguments
    except (msgspec.DecodeError, UnicodeEncodeError):
        return arguments
