"""Reading a Chat answer as a client does: chunks folded into one message a choice, or the unary body."""

from typing import Any

import msgspec

from antiphon.conformance.exchange import Exchange
from antiphon.conformance.pieces import Piece
from antiphon.conformance.verdict import Broken, require

REASONING_KEYS = ("reasoning_content", "reasoning")


class Timed(msgspec.Struct, frozen=True):
    """One chunk and the time it came."""

    at: float
    data: dict[str, Any]


def chunks(exchange: Exchange) -> list[Timed]:
    """Every chunk in order. Side events whose data is no chunk are left out: one check is enough to tell of them."""
    found = [Timed(frame.at, frame.json()) for frame in exchange.events() if frame.data != "[DONE]"]
    return [chunk for chunk in found if isinstance(chunk.data.get("choices"), list)]


def deltas(exchange: Exchange, choice: int = 0) -> list[Timed]:
    """The deltas of one choice."""
    found = []
    for chunk in chunks(exchange):
        found += [Timed(chunk.at, entry) for entry in chunk.data["choices"] if entry["index"] == choice]
    return found


def reasoning_of(delta: dict[str, Any]) -> str:
    """The reasoning text under whatever key it came."""
    return next((str(delta[key]) for key in REASONING_KEYS if delta.get(key)), "")


def message(exchange: Exchange, choice: int = 0) -> dict[str, Any]:
    """The message a client keeps and sends back."""
    if not exchange.is_stream():
        found = [entry["message"] for entry in exchange.json()["choices"] if entry["index"] == choice]
        require(found, f"no choice {choice}")
        return {key: value for key, value in found[0].items() if key != "refusal"}
    kept: dict[str, Any] = {"role": "assistant", "content": ""}
    calls: dict[int, dict[str, Any]] = {}
    for chunk in deltas(exchange, choice):
        delta = chunk.data.get("delta") or {}
        kept["content"] += delta.get("content") or ""
        if reasoning_of(delta):
            kept["reasoning_content"] = kept.get("reasoning_content", "") + reasoning_of(delta)
        for piece in delta.get("tool_calls") or []:
            _add(calls, piece)
    if calls:
        kept["tool_calls"] = [calls[index] for index in sorted(calls)]
    return kept


def _add(calls: dict[int, dict[str, Any]], piece: dict[str, Any]) -> None:
    """Folds one call delta by its index, as the vendor's SDK does."""
    if "index" not in piece:
        raise Broken(f"a call delta without index: {str(piece)[:120]}")
    function = piece.get("function") or {}
    if piece["index"] not in calls:
        require(piece.get("id") and function.get("name"), f"the first delta of a call has no id or name: {str(piece)[:120]}")
        head = {"name": function["name"], "arguments": ""}
        calls[piece["index"]] = {"id": piece["id"], "type": piece.get("type"), "function": head}
    calls[piece["index"]]["function"]["arguments"] += function.get("arguments") or ""


def pieces(exchange: Exchange, choice: int = 0) -> list[Piece]:
    """The message in the common form: one reasoning, one text, the calls in order."""
    kept = message(exchange, choice)
    found = [Piece(kind="reasoning", text=reasoning_of(kept)), Piece(kind="text", text=kept.get("content") or "")]
    for call in kept.get("tool_calls") or []:
        found.append(Piece(kind="call", id=call["id"], name=call["function"]["name"], arguments=call["function"]["arguments"]))
    return found


def finish(exchange: Exchange, choice: int = 0) -> str | None:
    """The finish reason. Raises Broken unless there is exactly one."""
    source = exchange.json()["choices"] if not exchange.is_stream() else [chunk.data for chunk in deltas(exchange, choice)]
    found = [entry["finish_reason"] for entry in source if entry["index"] == choice and entry.get("finish_reason")]
    require(len(found) == 1, f"{len(found)} finish reasons")
    return str(found[0])


def usage(exchange: Exchange) -> dict[str, Any]:
    """The counts, of the body or of the only chunk that has them. Raises Broken when there are none."""
    if not exchange.is_stream():
        return dict(exchange.json()["usage"])
    found = [chunk.data["usage"] for chunk in chunks(exchange) if chunk.data.get("usage")]
    require(found, "no chunk has usage")
    return dict(found[-1])
