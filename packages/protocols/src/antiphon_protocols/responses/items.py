"""Output items on the wire: the events of one item's life, and the item as it stays in the output.

Every writer has the same four steps: `opening`, `delta`, `closing` and, for the fast path, `delta_event` with `place`: the event's
name and the bytes between its number and the delta. An event here is (name, the rest of its JSON object without braces).
"""

from typing import Any, Protocol

import msgspec

from antiphon_protocols import sse
from antiphon_protocols.responses.freeform import FreeformReader
from antiphon_protocols.responses.labels import item_id
from antiphon_protocols.responses.native import NativeTool, read_action
from antiphon_protocols.responses.tools import Target
from antiphon_turns.events import SampledLogprob, SegmentEnd, TokenLogprob

WireEvent = tuple[str, bytes]

_LEAST_LOGPROB = -9999.0
"""What the vendor sends for a probability of zero; JSON has no infinity."""


class Closed(msgspec.Struct, frozen=True):
    """`item` None: nothing of it is shown, and nothing of it has left."""

    events: list[WireEvent]
    item: bytes | None


class ItemWriter(Protocol):
    """One open output item. `delta_event` None: deltas are not passed on one by one."""

    delta_event: str | None
    place: bytes

    def opening(self) -> list[WireEvent]:
        """The events that open the item."""
        ...

    def delta(self, text: str, logprobs: list[SampledLogprob]) -> list[WireEvent]:
        """Takes text of the segment; the events for it."""
        ...

    def closing(self, text: str, end: SegmentEnd) -> Closed:
        """The events that close the item; `text` is the whole of the segment."""
        ...


class TextWriter:
    """A message item with one text part."""

    delta_event: str | None = "response.output_text.delta"

    def __init__(self, label: str, index: int) -> None:
        self._id = item_id("message", label)
        self._index = index
        self._at = b'"item_id":"%b","output_index":%d,"content_index":0' % (self._id.encode(), index)
        self.place = self._at + b',"logprobs":[],"delta":'
        self._logprobs: list[dict[str, Any]] = []

    def opening(self) -> list[WireEvent]:
        """The item and its part, both empty."""
        return [
            _added(self._index, self._item("in_progress", b"[]")),
            ("response.content_part.added", b'%b,"part":%b' % (self._at, self._part(b'""'))),
        ]

    def delta(self, text: str, logprobs: list[SampledLogprob]) -> list[WireEvent]:
        """One text delta."""
        shown = [_logprob(token) for token in logprobs]
        self._logprobs += shown
        rest = b'%b,"logprobs":%b,"delta":%b' % (self._at, _json(shown), sse.json_text(text))
        return [("response.output_text.delta", rest)]

    def closing(self, text: str, end: SegmentEnd) -> Closed:
        """Text, part and item, whole."""
        encoded, part = sse.json_text(text), self._part(sse.json_text(text))
        item = self._item("incomplete" if end.status == "truncated" else "completed", b"[%b]" % part)
        return Closed(
            [
                ("response.output_text.done", b'%b,"logprobs":%b,"text":%b' % (self._at, _json(self._logprobs), encoded)),
                ("response.content_part.done", b'%b,"part":%b' % (self._at, part)),
                _done(self._index, item),
            ],
            item,
        )

    def _part(self, text: bytes) -> bytes:
        return b'{"type":"output_text","text":%b,"annotations":[],"logprobs":%b}' % (text, _json(self._logprobs))

    def _item(self, status: str, content: bytes) -> bytes:
        return b'{"id":"%b","type":"message","status":"%b","role":"assistant","content":%b}' % (self._id.encode(), status.encode(), content)


class ReasoningWriter:
    """A reasoning item, its text in one part: of the summary or of the content."""

    def __init__(self, label: str, index: int, *, form: str, encrypted: bool) -> None:
        self._id = item_id("reasoning", label)
        self._index = index
        self._encrypted = encrypted
        self._summary = form == "summary"
        what = ("response.reasoning_summary_text", "summary") if self._summary else ("response.reasoning_text", "content")
        self._text_event = what[0]
        self._part_event = "response.reasoning_summary_part" if self._summary else "response.content_part"
        self._part_type = b"summary_text" if self._summary else b"reasoning_text"
        self._at = b'"item_id":"%b","output_index":%d,"%b_index":0' % (self._id.encode(), index, what[1].encode())
        self.delta_event: str | None = f"{self._text_event}.delta"
        self.place = self._at + b',"delta":'

    def opening(self) -> list[WireEvent]:
        """The item and its part, both empty."""
        return [self._opened(), (f"{self._part_event}.added", b'%b,"part":%b' % (self._at, self._part(b'""')))]

    def delta(self, text: str, logprobs: list[SampledLogprob]) -> list[WireEvent]:
        """One reasoning delta."""
        return [(f"{self._text_event}.delta", self.place + sse.json_text(text))]

    def closing(self, text: str, end: SegmentEnd) -> Closed:
        """Text, part and item, whole."""
        encoded = sse.json_text(text)
        part = self._part(encoded)
        item = self._item(part, end.carrier, "incomplete" if end.status == "truncated" else "completed")
        return Closed(
            [
                (f"{self._text_event}.done", b'%b,"text":%b' % (self._at, encoded)),
                (f"{self._part_event}.done", b'%b,"part":%b' % (self._at, part)),
                _done(self._index, item),
            ],
            item,
        )

    def blank(self, end: SegmentEnd) -> Closed:
        """The whole life of an item that has no text to show and a carrier to carry; without one, nothing."""
        if not self._encrypted or not end.carrier:
            return Closed([], None)
        item = self._item(b"", end.carrier, "completed")
        return Closed([self._opened(), _done(self._index, item)], item)

    def _opened(self) -> WireEvent:
        return _added(self._index, self._item(b"", None, "in_progress"))

    def _part(self, text: bytes) -> bytes:
        return b'{"type":"%b","text":%b}' % (self._part_type, text)

    def _item(self, part: bytes, carrier: str | None, status: str) -> bytes:
        summary, content = (part, b"") if self._summary else (b"", part)
        parts = b'"summary":[%b]' % summary + (b',"content":[%b]' % content if content else b"")
        sealed = b',"encrypted_content":%b' % sse.json_text(carrier) if carrier and self._encrypted else b""
        return b'{"id":"%b","type":"reasoning",%b%b,"status":"%b"}' % (self._id.encode(), parts, sealed, status.encode())


class FunctionWriter:
    """A function call; its arguments leave as the deltas come."""

    delta_event: str | None = "response.function_call_arguments.delta"

    def __init__(self, label: str, index: int, call_id: str, target: Target) -> None:
        self._id = item_id("function_call", label)
        self._index = index
        self._name = target.name
        self._head = {"id": self._id, "type": "function_call", "call_id": call_id, "name": target.name, **_namespace(target)}
        self._at = b'"item_id":"%b","output_index":%d' % (self._id.encode(), index)
        self.place = self._at + b',"delta":'

    def opening(self) -> list[WireEvent]:
        """The item without arguments."""
        return [_added(self._index, _json({**self._head, "arguments": "", "status": "in_progress"}))]

    def delta(self, text: str, logprobs: list[SampledLogprob]) -> list[WireEvent]:
        """One piece of the arguments."""
        return [("response.function_call_arguments.delta", self.place + sse.json_text(text))]

    def closing(self, text: str, end: SegmentEnd) -> Closed:
        """The arguments and the item, whole."""
        events = [] if text else self.delta("{}", [])
        text = text or "{}"
        item = _json({**self._head, "arguments": text, "status": "completed"})
        done = b'%b,"name":%b,"arguments":%b' % (self._at, sse.json_text(self._name), sse.json_text(text))
        return Closed([*events, ("response.function_call_arguments.done", done), _done(self._index, item)], item)


class CustomWriter:
    """A call of a tool that takes free text: the text leaves, not the JSON it was written in."""

    delta_event: str | None = None
    place = b""

    def __init__(self, label: str, index: int, call_id: str, target: Target) -> None:
        self._id = item_id("custom_tool_call", label)
        self._index = index
        self._head = {"id": self._id, "type": "custom_tool_call", "call_id": call_id, "name": target.name, **_namespace(target)}
        self._at = b'"item_id":"%b","output_index":%d' % (self._id.encode(), index)
        self._reader = FreeformReader()
        self._input: list[str] = []
        self._held: list[WireEvent] = []

    def opening(self) -> list[WireEvent]:
        """The item without input. It leaves with the first piece of input, for a call without any may never leave."""
        self._held = [_added(self._index, _json({**self._head, "input": "", "status": "in_progress"}))]
        return []

    def delta(self, text: str, logprobs: list[SampledLogprob]) -> list[WireEvent]:
        """The piece of the input that `text` completes."""
        return self._shown(self._reader.feed(text))

    def closing(self, text: str, end: SegmentEnd) -> Closed:
        """The input and the item, whole. What stands in for a cut call has no input, and must not look like a call with some."""
        if end.status == "recovered" and self._held and text.strip() in ("", "{}"):
            return Closed([], None)
        events = [*self._shown(self._reader.finish()), *self._held]
        whole = "".join(self._input)
        item = _json({**self._head, "input": whole, "status": "completed"})
        done = b'%b,"input":%b' % (self._at, sse.json_text(whole))
        return Closed([*events, ("response.custom_tool_call_input.done", done), _done(self._index, item)], item)

    def _shown(self, piece: str) -> list[WireEvent]:
        if not piece:
            return []
        self._input.append(piece)
        held, self._held = self._held, []
        return [*held, ("response.custom_tool_call_input.delta", b'%b,"delta":%b' % (self._at, sse.json_text(piece)))]


class NativeWriter:
    """A call of one of the vendor's client-side tools; such an item has no deltas and leaves whole."""

    delta_event: str | None = None
    place = b""

    def __init__(self, label: str, index: int, call_id: str, tool: NativeTool) -> None:
        self._index = index
        self._tool = tool
        self._head = {"id": item_id(tool.call_type, label), "type": tool.call_type, "call_id": call_id}

    def opening(self) -> list[WireEvent]:
        """Nothing yet."""
        return []

    def delta(self, text: str, logprobs: list[SampledLogprob]) -> list[WireEvent]:
        """Nothing yet."""
        return []

    def closing(self, text: str, end: SegmentEnd) -> Closed:
        """The whole life of the item; none for arguments that hold nothing to do."""
        action = read_action(self._tool, text)
        if action is None:
            return Closed([], None)
        item = {**self._head, self._tool.field: action}
        whole = _json({**item, "status": "completed"})
        return Closed([_added(self._index, _json({**item, "status": "in_progress"})), _done(self._index, whole)], whole)


class SearchWriter:
    """A call of the client's tool search: its arguments are an object and leave whole."""

    delta_event: str | None = None
    place = b""

    def __init__(self, label: str, index: int, call_id: str) -> None:
        self._index = index
        self._head = {"id": item_id("tool_search_call", label), "type": "tool_search_call", "call_id": call_id, "execution": "client"}

    def opening(self) -> list[WireEvent]:
        """Nothing yet."""
        return []

    def delta(self, text: str, logprobs: list[SampledLogprob]) -> list[WireEvent]:
        """Nothing yet."""
        return []

    def closing(self, text: str, end: SegmentEnd) -> Closed:
        """The whole life of the item."""
        # On one line: the model may have laid its arguments out over several.
        item = {**self._head, "arguments": msgspec.Raw(msgspec.json.format(text.encode() or b"{}", indent=-1))}
        whole = _json({**item, "status": "completed"})
        return Closed([_added(self._index, _json({**item, "status": "in_progress"})), _done(self._index, whole)], whole)


def call_writer(label: str, index: int, call_id: str, target: Target) -> ItemWriter:
    """The writer for a call of `target`."""
    native = target.native_tool
    if native is not None:
        return NativeWriter(label, index, call_id, native)
    if target.kind == "tool_search":
        return SearchWriter(label, index, call_id)
    if target.kind == "custom":
        return CustomWriter(label, index, call_id, target)
    return FunctionWriter(label, index, call_id, target)


def _namespace(target: Target) -> dict[str, str]:
    return {"namespace": target.namespace} if target.namespace is not None else {}


def _added(index: int, item: bytes) -> WireEvent:
    return "response.output_item.added", b'"output_index":%d,"item":%b' % (index, item)


def _done(index: int, item: bytes) -> WireEvent:
    return "response.output_item.done", b'"output_index":%d,"item":%b' % (index, item)


def _json(value: Any) -> bytes:
    return sse.one_line(msgspec.json.encode(value))


def _logprob(sampled: SampledLogprob) -> dict[str, Any]:
    return {**_token(sampled.sampled), "top_logprobs": [_token(token) for token in sampled.top]}


def _token(token: TokenLogprob) -> dict[str, Any]:
    return {"token": token.token, "bytes": list(token.token_bytes), "logprob": max(token.logprob, _LEAST_LOGPROB)}
