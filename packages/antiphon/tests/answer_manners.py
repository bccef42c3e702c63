"""What every answer to a request that may be bad has to be: good, or refused in the surface's own words; never a fault, never half."""

import json
from typing import Any

from asgi_caller import Answered

REFUSALS = {400, 404, 413}
"""What the surfaces' documents name for a bad body. 404: a model, a stored response or an item that is not here."""

LONGEST_SECONDS = 10.0

_OBJECTS = {
    "/v1/messages": ("type", {"message"}),
    "/v1/chat/completions": ("object", {"chat.completion"}),
    "/v1/completions": ("object", {"text_completion"}),
    "/v1/responses": ("object", {"response"}),
    "/v1/responses/compact": ("object", {"response.compaction"}),
    "/v1/responses/input_tokens": ("object", {"response.input_tokens"}),
}
_LAST_EVENTS = {
    "/v1/messages": ("message_stop",),
    "/v1/responses": ("response.completed", "response.incomplete"),
}


def read(text: bytes | str) -> Any:
    """JSON; Python's own reader refuses integers of thousands of digits, which a schema that is echoed may hold."""
    return json.loads(text, parse_int=float)


def complaint(path: str, answer: Answered) -> str | None:
    """What is wrong with an answer; None if nothing is."""
    if answer.seconds > LONGEST_SECONDS:
        return f"took {answer.seconds:.1f} s"
    kind = answer.headers.get("content-type", "").partition(";")[0]
    if answer.status == 200 and kind == "text/event-stream":
        return stream_complaint(path, answer.body)
    if kind != "application/json":
        return f"content type {kind!r}"
    body = read(answer.body)
    if answer.status == 200:
        return body_complaint(path, body)
    if answer.status not in REFUSALS:
        return f"status {answer.status}: {answer.body[:300]!r}"
    return refusal_complaint(path, answer, body)


def body_complaint(path: str, body: dict) -> str | None:
    """A whole answer is the surface's object."""
    if path not in _OBJECTS:
        return None if set(body) == {"input_tokens"} else f"not a count: {sorted(body)}"
    field, kinds = _OBJECTS[path]
    if body.get(field) not in kinds:
        return f"{field} is {body.get(field)!r}"
    return f"failed: {body['error']}" if body.get("error") else None


def refusal_complaint(path: str, answer: Answered, body: dict) -> str | None:
    """A refusal is in the surface's envelope, and its text says something short."""
    error = body.get("error")
    if not isinstance(error, dict):
        return f"no envelope: {answer.body[:300]!r}"
    if path.startswith("/v1/messages"):
        wanted = (
            set(body) == {"type", "error", "request_id"} and body["type"] == "error" and set(error) - {"details"} == {"type", "message"}
        )
        wanted = wanted and answer.headers.get("request-id") == body["request_id"]
    else:
        wanted = set(body) == {"error"} and set(error) == {"message", "type", "param", "code"} and bool(answer.headers.get("x-request-id"))
    if not wanted:
        return f"another envelope: {answer.body[:300]!r}"
    return message_complaint(error["message"])


def message_complaint(message: Any) -> str | None:
    """A message is text for a person, however long what it complains of is."""
    return None if isinstance(message, str) and 0 < len(message) <= 1_000 else f"message of {len(str(message))} characters"


def stream_complaint(path: str, body: bytes) -> str | None:
    """A stream ends as the surface's streams end, without a failure in it."""
    lines = [line[6:] for line in body.decode().split("\n") if line.startswith("data: ")]
    if not lines:
        return "a stream without events"
    ended = lines[-1] == "[DONE]"
    events = [read(line) for line in lines if line != "[DONE]"]
    failed = next((event for event in events if event.get("error") or event.get("type") in ("error", "response.failed")), None)
    if failed is not None:
        return f"failed in the stream: {failed}"
    if path in _LAST_EVENTS:
        ended = events[-1].get("type") in _LAST_EVENTS[path]
    return None if ended else f"a stream without its end: {lines[-1][:200]}"


def frames_complaint(events: list[dict], seconds: float) -> str | None:
    """The frames that answer one frame of a WebSocket: one error with a documented status, or a whole response."""
    if seconds > LONGEST_SECONDS:
        return f"took {seconds:.1f} s"
    last = events[-1]
    if last["type"] in _LAST_EVENTS["/v1/responses"]:
        return None if events[0]["type"] == "response.created" else f"begins with {events[0]['type']}"
    if last["type"] != "error" or len(events) > 1:
        return f"ends with {last}"
    if last.get("status") not in REFUSALS or set(last["error"]) != {"message", "type", "param", "code"}:
        return f"refused with {last}"
    return message_complaint(last["error"]["message"])
