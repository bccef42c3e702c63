"""Reading a Messages answer as a client does: the stream folded by block index, or the unary body."""

from typing import Any

import msgspec

from antiphon.conformance.exchange import Exchange
from antiphon.conformance.pieces import Piece
from antiphon.conformance.verdict import Broken, require


class Block(msgspec.Struct, kw_only=True):
    """One streamed block. Times are those of its first and last event; `stopped_at` is None while it is open."""

    index: int
    start: dict[str, Any]
    opened_at: float
    deltas: list[dict[str, Any]] = []
    stopped_at: float | None = None

    def joined(self, kind: str, key: str) -> str:
        """The texts of one kind of delta."""
        return "".join(delta[key] for delta in self.deltas if delta["type"] == kind)


def payloads(exchange: Exchange) -> list[dict[str, Any]]:
    """The data of every event but pings and the OpenAI end marker."""
    found = [frame.json() for frame in exchange.events() if frame.data != "[DONE]"]
    return [data for data in found if data.get("type") != "ping"]


def one(exchange: Exchange, kind: str) -> dict[str, Any]:
    """The only event of a kind. Raises Broken."""
    found = [data for data in payloads(exchange) if data.get("type") == kind]
    require(len(found) == 1, f"{len(found)} {kind} events in {exchange.ask}")
    return found[0]


def blocks(exchange: Exchange) -> list[Block]:
    """The blocks of a stream, by index as the vendor's SDK folds them. Raises Broken for a delta without a block."""
    found: dict[int, Block] = {}
    for frame in exchange.events():
        data = frame.json() if frame.data != "[DONE]" else {}
        kind, index = data.get("type"), data.get("index")
        if kind == "content_block_start":
            found[data["index"]] = Block(index=data["index"], start=data["content_block"], opened_at=frame.at)
        elif kind in ("content_block_delta", "content_block_stop"):
            require(index in found, f"{kind} for block {index}, which was never started")
            if kind == "content_block_stop":
                found[data["index"]].stopped_at = frame.at
            else:
                found[data["index"]].deltas.append(data["delta"])
    return [found[index] for index in sorted(found)]


def content(exchange: Exchange) -> list[dict[str, Any]]:
    """The content list a client keeps and sends back."""
    if not exchange.is_stream():
        return list(exchange.json()["content"])
    return [_folded(block) for block in blocks(exchange)]


def _folded(block: Block) -> dict[str, Any]:
    kind = block.start["type"]
    if kind == "text":
        return {"type": "text", "text": block.start.get("text", "") + block.joined("text_delta", "text")}
    if kind == "thinking":
        # The clients keep the last signature and do not append.
        signatures = [delta["signature"] for delta in block.deltas if delta["type"] == "signature_delta"]
        text = block.start.get("thinking", "") + block.joined("thinking_delta", "thinking")
        return {"type": "thinking", "thinking": text, "signature": (signatures or [block.start.get("signature", "")])[-1]}
    if kind == "tool_use":
        arguments = block.joined("input_json_delta", "partial_json") or "{}"
        try:
            value = msgspec.json.decode(arguments)
        except msgspec.DecodeError as error:
            raise Broken(f"the input of {block.start.get('name')} is no JSON: {arguments[:120]!r}") from error
        return {"type": "tool_use", "id": block.start["id"], "name": block.start["name"], "input": value}
    return dict(block.start)


def pieces(exchange: Exchange) -> list[Piece]:
    """The content in the common form. Blocks the kit does not know are left out."""
    found = []
    for block in content(exchange):
        kind = block["type"]
        if kind == "tool_use":
            found.append(Piece(kind="call", name=block["name"], id=block["id"], arguments=msgspec.json.encode(block["input"]).decode()))
        elif kind == "text":
            found.append(Piece(kind="text", text=block["text"]))
        elif kind == "thinking":
            found.append(Piece(kind="reasoning", text=block["thinking"].replace("\u200b", "")))
    return found


def stop(exchange: Exchange) -> tuple[str | None, str | None]:
    """Stop reason and matched stop sequence."""
    source = one(exchange, "message_delta")["delta"] if exchange.is_stream() else exchange.json()
    return source["stop_reason"], source.get("stop_sequence")


def usage(exchange: Exchange) -> dict[str, Any]:
    """The final usage: what message_start said, overridden by message_delta."""
    if not exchange.is_stream():
        return dict(exchange.json()["usage"])
    first = one(exchange, "message_start")["message"]["usage"]
    return {**first, **{key: value for key, value in one(exchange, "message_delta")["usage"].items() if value is not None}}


def prompt_tokens(counts: dict[str, Any]) -> int:
    """The whole prompt: the three disjoint parts added up."""
    parts = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    return sum(int(counts.get(part) or 0) for part in parts)
