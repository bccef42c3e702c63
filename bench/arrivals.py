"""What of a streamed turn arrives when: raw HTTP over one socket, every event stamped, the three surfaces read into one form."""

import json
import socket
import time
from collections.abc import Iterable, Iterator
from typing import Any, Literal

import msgspec

from bench.measure import BenchError
from bench.scripted import TOOL_NAME, Kind

Wire = Literal["messages", "responses", "chat"]
WIRES: tuple[Wire, ...] = ("messages", "responses", "chat")
PATHS: dict[Wire, str] = {"messages": "/v1/messages", "responses": "/v1/responses", "chat": "/v1/chat/completions"}
MAX_TOKENS = 8_000
_SCHEMA = {
    "type": "object",
    "properties": {"path": {"type": "string"}, "content": {"type": "string"}},
    "required": ["path", "content"],
}
_FUNCTION = {"name": TOOL_NAME, "description": "Writes a file.", "parameters": _SCHEMA}
# Linux: acknowledge at once. A server that leaves Nagle's algorithm on would else wait for the acknowledgement.
_QUICKACK = getattr(socket, "TCP_QUICKACK", None)
_LIMIT_SECONDS = 60


def request(wire: Wire, model: str, text: str) -> bytes:
    """A streaming request with one tool."""
    body: dict[str, Any] = {"model": model, "stream": True}
    if wire == "responses":
        body |= {
            "input": text,
            "max_output_tokens": MAX_TOKENS,
            "reasoning": {"summary": "auto"},
            "tools": [{"type": "function", **_FUNCTION}],
        }
    elif wire == "chat":
        body |= {
            "messages": [{"role": "user", "content": text}],
            "max_tokens": MAX_TOKENS,
            "tools": [{"type": "function", "function": _FUNCTION}],
        }
    else:
        tool = {"name": TOOL_NAME, "description": "Writes a file.", "input_schema": _SCHEMA}
        body |= {
            "messages": [{"role": "user", "content": text}],
            "max_tokens": MAX_TOKENS,
            "tools": [tool],
            "thinking": {"type": "adaptive"},
        }
    return json.dumps(body, separators=(",", ":")).encode()


Frames = list[tuple[int, dict[str, Any] | None]]


def ask(address: tuple[str, int], wire: Wire, body: bytes) -> Frames:
    """(nanoseconds of the monotonic clock, event) of a whole stream; None for a comment. Raises BenchError when it is no stream."""
    with socket.create_connection(address, timeout=_LIMIT_SECONDS) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        head = (
            f"POST {PATHS[wire]} HTTP/1.1\r\nhost: bench\r\ncontent-type: application/json\r\nanthropic-version: 2023-06-01\r\n"
            f"connection: close\r\ncontent-length: {len(body)}\r\n\r\n"
        )
        connection.sendall(head.encode() + body)
        return read_frames(_body(connection))


def read_frames(pieces: Iterable[tuple[int, bytes]]) -> Frames:
    """The events in the stamped pieces of a stream, each with the stamp of the piece that ends it."""
    frames: Frames = []
    unread = b""
    for now, data in pieces:
        *whole, unread = (unread + data).split(b"\n\n")
        frames += [(now, _event(frame)) for frame in whole]
    return frames


def _body(connection: socket.socket) -> Iterator[tuple[int, bytes]]:
    """The pieces of a chunked answer's body, stamped when the system handed them over."""
    raw, begun = b"", False
    while True:
        if _QUICKACK is not None:
            connection.setsockopt(socket.IPPROTO_TCP, _QUICKACK, 1)
        data = connection.recv(262_144)
        now = time.monotonic_ns()
        raw += data
        if not begun:
            head, found, rest = raw.partition(b"\r\n\r\n")
            if not found:
                if not data:
                    raise BenchError("the server closed the connection")
                continue
            if not head.startswith(b"HTTP/1.1 200"):
                raise BenchError(f"the server answered {raw[:600]!r}")
            raw, begun = rest, True
        body = b""
        while (line := raw.find(b"\r\n")) >= 0:
            size = int(raw[:line].partition(b";")[0], 16)
            if len(raw) < line + size + 4:
                break
            body += raw[line + 2 : line + 2 + size]
            raw = raw[line + size + 4 :]
            if not size:
                yield now, body
                return
        if body:
            yield now, body
        if not data:
            raise BenchError("the answer broke off")


def _event(frame: bytes) -> dict[str, Any] | None:
    data = b"\n".join(line[5:].strip() for line in frame.split(b"\n") if line.startswith(b"data:"))
    if not data:
        return None
    if data == b"[DONE]":
        return {"type": "done"}
    event: dict[str, Any] = json.loads(data)
    if event.get("type") in ("error", "response.failed") or event.get("error"):
        raise BenchError(f"the stream holds an error: {data[:400]!r}")
    return event


class Mark(msgspec.Struct, frozen=True):
    """One thing that a stream told: a block has begun, has grown by `text`, or is closed."""

    at: int
    what: Literal["begin", "add", "close"]
    block: str
    kind: Kind
    text: str = ""


def marks(wire: Wire, frames: Frames) -> list[Mark]:
    """What the events say of blocks. Chat names none: there a block is what follows without another kind between, and is never closed."""
    reader = {"messages": _messages, "responses": _responses, "chat": _chat}[wire]
    return list(reader([(at, event) for at, event in frames if event is not None]))


def heartbeats(frames: Frames) -> int:
    """How many keep-alives came."""
    return sum(event is None or event.get("type") in ("ping", "keepalive") for _, event in frames)


_BLOCKS: dict[str, Kind] = {"thinking": "reasoning", "text": "text", "tool_use": "call"}
_ITEMS: dict[str, Kind] = {"reasoning": "reasoning", "message": "text", "function_call": "call"}
_DELTAS: dict[str, Kind] = {
    "thinking_delta": "reasoning",
    "text_delta": "text",
    "input_json_delta": "call",
    "response.reasoning_summary_text.delta": "reasoning",
    "response.reasoning_text.delta": "reasoning",
    "response.output_text.delta": "text",
    "response.function_call_arguments.delta": "call",
}
_FIELDS = {"thinking_delta": "thinking", "text_delta": "text", "input_json_delta": "partial_json"}
Events = list[tuple[int, dict[str, Any]]]


def _messages(events: Events) -> Iterator[Mark]:
    kinds: dict[str, Kind] = {}
    for at, event in events:
        block, kind = str(event.get("index")), event.get("type")
        if kind == "content_block_start":
            kinds[block] = _BLOCKS[event["content_block"]["type"]]
            yield Mark(at, "begin", block, kinds[block])
        elif kind == "content_block_delta" and event["delta"]["type"] in _DELTAS:
            delta = event["delta"]
            yield Mark(at, "add", block, _DELTAS[delta["type"]], delta[_FIELDS[delta["type"]]])
        elif kind == "content_block_stop":
            yield Mark(at, "close", block, kinds[block])


def _responses(events: Events) -> Iterator[Mark]:
    for at, event in events:
        block, kind = str(event.get("output_index")), event.get("type", "")
        if kind == "response.output_item.added":
            yield Mark(at, "begin", block, _ITEMS[event["item"]["type"]])
        elif kind in _DELTAS:
            yield Mark(at, "add", block, _DELTAS[kind], event["delta"])
        elif kind == "response.output_item.done":
            yield Mark(at, "close", block, _ITEMS[event["item"]["type"]])


def _chat(events: Events) -> Iterator[Mark]:
    block, number = "", 0
    for at, event in events:
        delta = event["choices"][0]["delta"] if event.get("choices") else {}
        told: list[tuple[Kind, str, str]] = [
            ("reasoning", "reasoning", delta.get("reasoning_content") or ""),
            ("text", "text", delta.get("content") or ""),
            *(("call", f"call {call['index']}", call.get("function", {}).get("arguments") or "") for call in delta.get("tool_calls") or ()),
        ]
        for kind, name, text in told:
            if not text and kind != "call":
                continue
            if name != block:
                block, number = name, number + 1
                yield Mark(at, "begin", f"{number} {name}", kind)
            yield Mark(at, "add", f"{number} {name}", kind, text)
