"""The good server's Messages side, written from the vendor's API and wire facts alone."""

from typing import Any

import msgspec
from tests.conformance.model import Turn, Want
from tests.conformance.wire import Answer, Out, pieces, spread, stream

from antiphon_turns import CallSegment, ReasoningSegment, TextSegment

REASONS = {"stop": "end_turn", "calls": "tool_use", "length": "max_tokens", "stop_sequence": "stop_sequence"}
BILLING = "x-anthropic-billing-header:"


def _text(content: Any) -> str:
    """A content as one text, however it is spelled."""
    if isinstance(content, str):
        return content
    found = []
    for block in content:
        match block["type"]:
            case "text":
                found.append(block["text"])
            case "thinking":
                found.append(f"<think> {block['thinking']} </think>")
            case "tool_use":
                found.append(f"<call> {block['name']} {msgspec.json.encode(block['input']).decode()} </call>")
            case "tool_result":
                error = " (failed)" if block.get("is_error") else ""
                found.append(f"<result{error}> {_text(block.get('content') or '')} </result>")
            case "tool_reference":
                found.append(block["tool_name"])
    return " ".join(found)


def prompt(body: dict) -> str:
    system = body.get("system") or []
    system = [{"type": "text", "text": system}] if isinstance(system, str) else system
    lines = [block["text"] for block in system if not block["text"].startswith(BILLING)]
    offered = [tool for tool in body.get("tools") or [] if "input_schema" in tool]
    lines += [f"tool {tool['name']} {tool['description']} {tool['input_schema']}" for tool in offered]
    lines += [f"{message['role']}: {_text(message['content'])}" for message in body["messages"]]
    return "\n".join(lines) + "\nassistant:"


def read(body: dict) -> Want:
    choice = body.get("tool_choice") or {}
    return Want(
        model=body["model"],
        prompt=prompt(body),
        stream=bool(body.get("stream")),
        thinking=(body.get("thinking") or {"type": "disabled"})["type"] != "disabled",
        limit=body["max_tokens"],
        stops=tuple(body.get("stop_sequences") or ()),
        choice=choice.get("type", "auto"),
        parallel=not choice.get("disable_parallel_tool_use"),
    )


def blocks(turn: Turn, *, omitted: bool) -> list[dict]:
    found = []
    for place, said in enumerate(turn.spoken):
        segment = said.segment
        if isinstance(segment, CallSegment):
            value = msgspec.json.decode(segment.arguments)
            found.append({"type": "tool_use", "id": turn.call_id(place), "name": segment.name, "input": value})
        elif isinstance(segment, ReasoningSegment):
            text = "\u200b" if omitted else segment.text
            found.append({"type": "thinking", "thinking": text, "signature": f"sig.{turn.number}.{place}"})
        else:
            assert isinstance(segment, TextSegment)
            found.append({"type": "text", "text": segment.text})
    return found


def usage(turn: Turn, output: int) -> dict:
    return {
        "input_tokens": turn.prompt_tokens - turn.cached_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": turn.cached_tokens,
        "output_tokens": output,
    }


def answer(turn: Turn, body: dict) -> Answer:
    omitted = (body.get("thinking") or {}).get("display") == "omitted"
    head = {"id": f"msg_t{turn.number}", "type": "message", "role": "assistant", "model": turn.want.model}
    content = blocks(turn, omitted=omitted)
    end = {"stop_reason": REASONS[turn.finish], "stop_sequence": turn.stop}
    if not turn.want.stream:
        return Answer(body={**head, "content": content, **end, "usage": usage(turn, turn.output_tokens)}, ends=turn.ends)
    start = {**head, "content": [], "stop_reason": None, "stop_sequence": None, "usage": usage(turn, 1)}
    out = [_out(0.0, "message_start", message=start)]
    for index, (block, said) in enumerate(zip(content, turn.spoken, strict=True)):
        out += _block(index, block, said)
    out += [_out(turn.ends, "message_delta", delta=end, usage=usage(turn, turn.output_tokens)), _out(turn.ends, "message_stop")]
    return stream(out, turn.ends, _out(0.0, "ping"))


def _block(index: int, block: dict, said) -> list[Out]:
    if block["type"] == "tool_use":
        text, kind, key = said.segment.arguments, "input_json_delta", "partial_json"
        start, times = {**block, "input": {}}, [said.ends]
        deltas = [text]
    else:
        key = "text" if block["type"] == "text" else "thinking"
        kind = f"{key}_delta"
        deltas = pieces(block[key])
        start = {**block, key: "", **({"signature": ""} if key == "thinking" else {})}
        times = spread(said.begins, said.ends, len(deltas))
    out = [_out(times[0], "content_block_start", index=index, content_block=start)]
    out += [_out(at, "content_block_delta", index=index, delta={"type": kind, key: delta}) for at, delta in zip(times, deltas, strict=True)]
    if block["type"] == "thinking":
        out.append(_out(said.ends, "content_block_delta", index=index, delta={"type": "signature_delta", "signature": block["signature"]}))
    return [*out, _out(said.ends, "content_block_stop", index=index)]


def _out(at: float, kind: str, **fields: Any) -> Out:
    return Out(at, kind, {"type": kind, **fields})


def error(status: int, kind: str, message: str, **more: Any) -> Answer:
    return Answer(status=status, body={"type": "error", "error": {"type": kind, "message": message, **more}, "request_id": "req_1"})
