"""The good server's Chat side, written from the vendor's API and wire facts alone."""

from typing import Any

import msgspec
from tests.conformance.model import Turn, Want, tokens
from tests.conformance.wire import Answer, Out, pieces, spread, stream

from antiphon_turns import CallSegment, ReasoningSegment, TextSegment

CREATED = 1_800_000_000
REASONS = {"stop": "stop", "calls": "tool_calls", "length": "length", "stop_sequence": "stop"}


def _text(content: Any) -> str:
    if isinstance(content, list):
        return " ".join(part["text"] for part in content)
    return content or ""


def _arguments(text: str) -> str:
    try:
        return msgspec.json.encode(msgspec.json.decode(text)).decode()
    except msgspec.DecodeError:
        return text


def prompt(body: dict) -> str:
    lines = []
    for tool in body.get("tools") or []:
        function = tool["function"]
        lines.append(f"tool {function['name']} {function['description']} {function['parameters']}")
    for message in body["messages"]:
        reasoning = message.get("reasoning_content") or message.get("reasoning")
        parts = [f"<think> {reasoning} </think>"] if reasoning else []
        parts.append(_text(message.get("content")))
        for call in message.get("tool_calls") or []:
            parts.append(f"<call> {call['function']['name']} {_arguments(call['function']['arguments'])} </call>")
        if message["role"] == "tool":
            parts = [f"<result> {parts[-1]} </result>"]
        lines.append(f"{'user' if message['role'] == 'tool' else message['role']}: {' '.join(parts)}")
    return "\n".join(lines) + "\nassistant:"


def read(body: dict) -> Want:
    choice = body.get("tool_choice", "auto")
    return Want(
        model=body["model"],
        prompt=prompt(body),
        stream=bool(body.get("stream")),
        limit=body.get("max_completion_tokens") or body.get("max_tokens") or 10**9,
        stops=tuple(body.get("stop") or ()),
        choice=choice if isinstance(choice, str) else "named",
        parallel=body.get("parallel_tool_calls", True),
    )


def usage(turn: Turn) -> dict:
    return {
        "prompt_tokens": turn.prompt_tokens,
        "completion_tokens": turn.output_tokens,
        "total_tokens": turn.prompt_tokens + turn.output_tokens,
        "prompt_tokens_details": {"cached_tokens": turn.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": turn.reasoning_tokens},
    }


def answer(turn: Turn, body: dict) -> Answer:
    head = {"id": f"chatcmpl-t{turn.number}", "created": CREATED, "model": turn.want.model}
    choices = range(body.get("n") or 1)
    if not turn.want.stream:
        found = [_whole(turn, choice, body) for choice in choices]
        return Answer(body={**head, "object": "chat.completion", "choices": found, "usage": usage(turn)}, ends=turn.ends)
    head["object"] = "chat.completion.chunk"
    out = []
    for choice in choices:
        out += [Out(at, None, {**head, "choices": [{"index": choice, **entry}]}) for at, entry in _entries(turn)]
    if (body.get("stream_options") or {}).get("include_usage"):
        out.append(Out(turn.ends, None, {**head, "choices": [], "usage": usage(turn)}))
    out.append(Out(turn.ends, None, "[DONE]"))
    return stream(out, turn.ends, Out(0.0, None, None))


def _entries(turn: Turn) -> list[tuple[float, dict]]:
    found: list[tuple[float, dict]] = [(0.0, {"delta": {"role": "assistant"}, "finish_reason": None})]
    calls = 0
    for place, said in enumerate(turn.spoken):
        segment = said.segment
        if isinstance(segment, CallSegment):
            function = {"name": segment.name, "arguments": segment.arguments}
            call = {"index": calls, "id": turn.call_id(place), "type": "function", "function": function}
            calls += 1
            found.append((said.ends, {"delta": {"tool_calls": [call]}, "finish_reason": None}))
            continue
        key = "reasoning_content" if isinstance(segment, ReasoningSegment) else "content"
        deltas = pieces(segment.text)
        times = spread(said.begins, said.ends, len(deltas))
        found += [(at, {"delta": {key: delta}, "finish_reason": None}) for at, delta in zip(times, deltas, strict=True)]
    return [*found, (turn.ends, {"delta": {}, "finish_reason": REASONS[turn.finish]})]


def _whole(turn: Turn, choice: int, body: dict) -> dict:
    text = "".join(said.segment.text for said in turn.spoken if isinstance(said.segment, TextSegment))
    reasoning = "".join(said.segment.text for said in turn.spoken if isinstance(said.segment, ReasoningSegment))
    message: dict[str, Any] = {"role": "assistant", "content": text, "reasoning_content": reasoning, "refusal": None}
    calls = [
        {"id": turn.call_id(place), "type": "function", "function": {"name": said.segment.name, "arguments": said.segment.arguments}}
        for place, said in enumerate(turn.spoken)
        if isinstance(said.segment, CallSegment)
    ]
    if calls:
        message["tool_calls"] = calls
    chances = {"content": [{"token": word, "logprob": -0.5, "bytes": None, "top_logprobs": []} for word in tokens(text)]}
    entry = {"index": choice, "message": message, "finish_reason": REASONS[turn.finish]}
    return {**entry, "logprobs": chances if body.get("logprobs") else None}
