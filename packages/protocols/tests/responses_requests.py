"""Responses requests and what is read out of them."""

import json
from typing import Any

import msgspec

from antiphon_protocols import responses
from antiphon_turns import (
    AssistantMessage,
    Message,
    TurnRequest,
)


def body(**fields: Any) -> bytes:
    return json.dumps({"model": "m", "input": "hi", **fields}).encode()


def opened(text: str) -> str | None:
    return text.removeprefix("sealed:") if text.startswith("sealed:") else None


def ingest(headers: dict[str, str] | None = None, past: Any = (), stored: Any = None, **fields: Any) -> responses.ResponsesRequest:
    call = responses.read(body(**fields), headers or {}, tag="tag")
    kept = [msgspec.Raw(json.dumps(item).encode()) for item in past]
    found = {key: msgspec.Raw(json.dumps(item).encode()) for key, item in (stored or {}).items()}
    return responses.ingest(call, past=kept, stored=found, open_compaction=opened)


def turn(headers: dict[str, str] | None = None, **fields: Any) -> TurnRequest:
    return ingest(headers, **fields).turn


def history(*items: Any, **fields: Any) -> tuple[Message, ...]:
    return turn(input=list(items), **fields).messages


def said(*segments: Any) -> AssistantMessage:
    return AssistantMessage(tuple(segments))


USER = {"role": "user", "content": "u"}


def call(call_id: str, name: str = "run", arguments: Any = "{}", **extra: Any) -> dict[str, Any]:
    return {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments, **extra}


def result(call_id: str, output: Any, kind: str = "function_call_output", **extra: Any) -> dict[str, Any]:
    return {"type": kind, "call_id": call_id, "output": output, **extra}
