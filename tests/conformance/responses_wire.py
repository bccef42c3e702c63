"""The good server's Responses side, written from the vendor's API and wire facts alone."""

from typing import Any

import msgspec
from tests.conformance.model import Turn, Want
from tests.conformance.wire import Answer, Out, pieces, spread, stream

from antiphon.conformance.sayings import NAMESPACE, READ
from antiphon_turns import CallSegment, ReasoningSegment

CREATED = 1_800_000_000


def _item_text(item: dict) -> str:
    match item.get("type", "message"):
        case "message":
            content = item["content"]
            return content if isinstance(content, str) else " ".join(part["text"] for part in content)
        case "reasoning":
            return "<think> " + " ".join(part["text"] for part in item["summary"]) + " </think>"
        case "function_call" | "custom_tool_call":
            return f"<call> {item['name']} {item.get('arguments') or item.get('input')} </call>"
        case "function_call_output" | "custom_tool_call_output":
            return f"<result> {item['output']} </result>"
        case kind:
            return kind


def _role(item: dict) -> str:
    kind = item.get("type", "message")
    if kind == "message":
        return item["role"]
    return "assistant" if kind in ("reasoning", "function_call", "custom_tool_call") else "user"


def input_items(body: dict) -> list[dict]:
    given = body["input"]
    return [{"type": "message", "role": "user", "content": given}] if isinstance(given, str) else given


def prompt(body: dict, past: list[dict]) -> str:
    lines = [f"tool {msgspec.json.encode(tool).decode()}" for tool in body.get("tools") or [] if tool["type"] != "web_search"]
    lines += [f"instructions: {body['instructions']}"] if "instructions" in body else []
    role = ""
    for item in [*past, *input_items(body)]:
        if _role(item) != role or role != "assistant":
            role = _role(item)
            lines.append(f"{role}:")
        lines.append(_item_text(item))
    return "\n".join(lines) + ("\nassistant:" if role != "assistant" else "")


def read(body: dict, past: list[dict]) -> Want:
    choice = body.get("tool_choice", "auto")
    return Want(
        model=body["model"],
        prompt=prompt(body, past),
        stream=bool(body.get("stream")),
        limit=body.get("max_output_tokens") or 10**9,
        choice=choice if isinstance(choice, str) else "named",
        parallel=body.get("parallel_tool_calls", True),
    )


def items(turn: Turn, body: dict) -> list[dict]:
    found = []
    custom = {tool["name"] for tool in body.get("tools") or [] if tool["type"] == "custom"}
    spaced = any(tool["type"] == "namespace" for tool in body.get("tools") or [])
    for place, said in enumerate(turn.spoken):
        segment, tag = said.segment, f"t{turn.number}x{place}"
        if isinstance(segment, ReasoningSegment):
            item = {"id": f"rs_{tag}", "type": "reasoning", "summary": [{"type": "summary_text", "text": segment.text}]}
            if "reasoning.encrypted_content" in (body.get("include") or []):
                item["encrypted_content"] = f"seal.{tag}"
        elif isinstance(segment, CallSegment) and segment.name in custom:
            text = msgspec.json.decode(segment.arguments)["input"]
            item = {"id": f"ctc_{tag}", "type": "custom_tool_call", "call_id": turn.call_id(place), "name": segment.name, "input": text}
            item["status"] = "completed"
        elif isinstance(segment, CallSegment):
            item = {"id": f"fc_{tag}", "type": "function_call", "call_id": turn.call_id(place), "name": segment.name}
            item |= {"arguments": segment.arguments, "status": "completed"}
            if spaced and segment.name == READ:
                item["namespace"] = NAMESPACE
        else:
            part = {"type": "output_text", "text": segment.text, "annotations": []}
            item = {"id": f"msg_{tag}", "type": "message", "role": "assistant", "status": "completed", "content": [part]}
        found.append(item)
    return found


def usage(turn: Turn) -> dict:
    return {
        "input_tokens": turn.prompt_tokens,
        "input_tokens_details": {"cached_tokens": turn.cached_tokens},
        "output_tokens": turn.output_tokens,
        "output_tokens_details": {"reasoning_tokens": turn.reasoning_tokens},
        "total_tokens": turn.prompt_tokens + turn.output_tokens,
    }


def response(turn: Turn, output: list[dict]) -> dict:
    cut = turn.finish == "length"
    return {
        "id": f"resp_t{turn.number}",
        "object": "response",
        "created_at": CREATED,
        "model": turn.want.model,
        "status": "incomplete" if cut else "completed",
        "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
        "output": output,
        "usage": usage(turn),
        "error": None,
    }


def answer(turn: Turn, output: list[dict]) -> Answer:
    whole = response(turn, output)
    if not turn.want.stream:
        return Answer(body=whole, ends=turn.ends)
    begun = {**whole, "status": "in_progress", "output": [], "usage": None, "incomplete_details": None}
    out = [_out(0.0, "created", response=begun), _out(0.0, "in_progress", response=begun)]
    for index, item in enumerate(output):
        said = turn.spoken[index] if index < len(turn.spoken) else None
        out += _item(index, item, (said.begins, said.ends) if said else (turn.ends, turn.ends))
    out.append(_out(turn.ends, whole["status"], response=whole))
    return number(stream(out, turn.ends, _out(0.0, "in_progress", response=begun)))


def number(found: Answer) -> Answer:
    """Gives every event its sequence number."""
    for place, out in enumerate(found.out or []):
        out.data = {**out.data, "sequence_number": place}
    return found


def _item(index: int, item: dict, when: tuple[float, float]) -> list[Out]:
    at: dict[str, Any] = {"output_index": index}
    place = {"item_id": item["id"], **at}
    begins, ends = when
    match item["type"]:
        case "message":
            text, part = item["content"][0]["text"], {"type": "output_text", "text": "", "annotations": []}
            where = {**place, "content_index": 0}
            deltas = pieces(text)
            times = spread(begins, ends, len(deltas))
            out = [_out(times[0], "output_item.added", item={**item, "content": [], "status": "in_progress"}, **at)]
            out.append(_out(times[0], "content_part.added", part=part, **where))
            out += [_out(moment, "output_text.delta", delta=delta, **where) for moment, delta in zip(times, deltas, strict=True)]
            out.append(_out(ends, "output_text.done", text=text, **where))
            out.append(_out(ends, "content_part.done", part=item["content"][0], **where))
        case "reasoning":
            text, where = item["summary"][0]["text"], {**place, "summary_index": 0}
            part = {"type": "summary_text", "text": ""}
            out = [_out(begins, "output_item.added", item={**item, "summary": []}, **at)]
            out.append(_out(begins, "reasoning_summary_part.added", part=part, **where))
            out += [_out(ends, "reasoning_summary_text.delta", delta=delta, **where) for delta in pieces(text)]
            out.append(_out(ends, "reasoning_summary_text.done", text=text, **where))
            out.append(_out(ends, "reasoning_summary_part.done", part=item["summary"][0], **where))
        case "function_call":
            out = _call(item, "arguments", "function_call_arguments", ends, place)
        case "custom_tool_call":
            out = _call(item, "input", "custom_tool_call_input", ends, place)
        case _:
            out = [_out(ends, "output_item.added", item=item, **at)]
    return [*out, _out(ends, "output_item.done", item=item, **at)]


def _call(item: dict, key: str, name: str, ends: float, place: dict) -> list[Out]:
    added = {**item, key: "", "status": "in_progress"}
    return [
        _out(ends, "output_item.added", item=added, output_index=place["output_index"]),
        _out(ends, f"{name}.delta", delta=item[key], **place),
        _out(ends, f"{name}.done", **{key: item[key]}, **place),
    ]


def _out(at: float, name: str, **fields: Any) -> Out:
    kind = f"response.{name}"
    return Out(at, kind, {"type": kind, **fields})


def error(status: int, code: str, message: str) -> Answer:
    """The envelope of both OpenAI surfaces."""
    return Answer(status=status, body={"error": {"message": message, "type": "invalid_request_error", "param": None, "code": code}})
