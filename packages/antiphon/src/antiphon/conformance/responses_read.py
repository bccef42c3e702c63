"""Reading a Responses answer as a client does: finished items of the stream, or the unary body."""

from typing import Any

import msgspec

from antiphon.conformance.exchange import Exchange
from antiphon.conformance.pieces import Piece
from antiphon.conformance.verdict import Broken, require

TERMINAL = ("response.completed", "response.incomplete", "response.failed")


class Timed(msgspec.Struct, frozen=True):
    """One event's data and the time it came."""

    at: float
    data: dict[str, Any]

    @property
    def kind(self) -> str:
        """The event's type."""
        return str(self.data.get("type"))


def events(exchange: Exchange) -> list[Timed]:
    """Every data event in order, without keep-alives of unknown kind and without the Chat end marker."""
    found = [Timed(frame.at, frame.json()) for frame in exchange.events() if frame.data != "[DONE]"]
    return [event for event in found if event.kind.startswith("response.") or event.kind == "error"]


def final(exchange: Exchange) -> dict[str, Any]:
    """The finished response object. Raises Broken when the stream has no end."""
    if not exchange.is_stream():
        return dict(exchange.json())
    ends = [event for event in events(exchange) if event.kind in TERMINAL]
    if len(ends) != 1:
        raise Broken(f"{len(ends)} terminal events in {exchange.ask}")
    return dict(ends[0].data["response"])


def items(exchange: Exchange) -> list[dict[str, Any]]:
    """The output items a client keeps: those of output_item.done, which Codex acts on, or of the body."""
    if not exchange.is_stream():
        return list(exchange.json()["output"])
    return [event.data["item"] for event in events(exchange) if event.kind == "response.output_item.done"]


def pieces(exchange: Exchange) -> list[Piece]:
    """The output in the common form. Items the kit does not know are left out."""
    return [piece for piece in map(_piece, items(exchange)) if piece is not None]


def _piece(item: dict[str, Any]) -> Piece | None:
    match item["type"]:
        case "message":
            return Piece(kind="text", text="".join(part.get("text", "") for part in item["content"]))
        case "reasoning":
            return Piece(kind="reasoning", text=reasoning_text(item))
        case "function_call":
            return Piece(kind="call", name=item["name"], id=item["call_id"], arguments=item["arguments"])
        case "custom_tool_call":
            arguments = msgspec.json.encode({"input": item["input"]}).decode()
            return Piece(kind="call", name=item["name"], id=item["call_id"], arguments=arguments)
        case _:
            return None


def reasoning_text(item: dict[str, Any]) -> str:
    """The readable text of a reasoning item: its content, else its summary."""
    parts = item.get("content") or item.get("summary") or []
    return "".join(part["text"] for part in parts)


def usage(exchange: Exchange) -> dict[str, Any]:
    """The counts of the finished response. Raises Broken when there are none."""
    counts = final(exchange).get("usage")
    require(isinstance(counts, dict), f"the usage is {counts!r}")
    return dict(counts or {})
