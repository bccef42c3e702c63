"""Ways to break an answer of the good server. A breakage is a function of the request and its answer, which it edits or replaces."""

from collections.abc import Callable
from typing import Any

from tests.conformance.wire import Answer, Out

from antiphon.conformance.asks import Request

Breakage = Callable[[Request, Answer], Answer | None]
Edit = Callable[[dict], Any]
Fits = Callable[[dict], Any]


def any_body(body: dict) -> bool:
    return True


def has(field: str, *values: Any) -> Fits:
    """Requests with a field, or with one of its values."""
    return lambda body: field in body and (not values or body[field] in values)


def spells(text: str) -> Fits:
    """Requests that contain a text anywhere."""
    return lambda body: text in repr(body)


def when(fits: Fits, breakage: Breakage) -> Breakage:
    """Only for answers to JSON requests that fit."""

    def apply(request: Request, answer: Answer) -> Answer | None:
        return breakage(request, answer) if isinstance(request.body, dict) and fits(request.body) else None

    return apply


def all_of(*breakages: Breakage) -> Breakage:
    def apply(request: Request, answer: Answer) -> Answer:
        for breakage in breakages:
            answer = breakage(request, answer) or answer
        return answer

    return apply


def each_event(edit: Callable[[Out], Any]) -> Breakage:
    """Edits every event of a stream."""

    def apply(request: Request, answer: Answer) -> None:
        for out in answer.out or []:
            edit(out)

    return apply


def events(kind: str, edit: Edit, fits: Fits = any_body) -> Breakage:
    """Edits the data of every event whose type ends so and whose data fits."""

    def one(out: Out) -> None:
        if _is(out, kind) and fits(out.data):
            edit(out.data)

    return each_event(one)


def drop(kind: str, fits: Fits = any_body) -> Breakage:
    """Leaves out every event whose type ends so and whose data fits."""

    def apply(request: Request, answer: Answer) -> None:
        if answer.out is not None:
            answer.out = [out for out in answer.out if not (_is(out, kind) and fits(out.data))]

    return apply


def _is(out: Out, kind: str) -> bool:
    return isinstance(out.data, dict) and str(out.data.get("type", "")).endswith(kind)


def body(edit: Edit) -> Breakage:
    """Edits a whole body with status 200."""

    def apply(request: Request, answer: Answer) -> None:
        if answer.out is None and answer.status == 200 and isinstance(answer.body, dict):
            edit(answer.body)

    return apply


def refuse(fits: Fits, status: int = 400) -> Breakage:
    """Answers fitting requests with an error."""
    return when(fits, lambda request, answer: Answer(status=status, body={"type": "error", "error": {"type": "x", "message": "no"}}))


def accept(fits: Fits) -> Breakage:
    """Answers fitting requests with a 200 that says nothing."""
    return when(fits, lambda request, answer: Answer(body={"choices": [], "content": [], "output": []}))


def errors(edit: Callable[[Answer], Any]) -> Breakage:
    """Edits every error."""

    def apply(request: Request, answer: Answer) -> None:
        if answer.status >= 400:
            edit(answer)

    return apply


def plain_text(answer: Answer) -> None:
    """An error as some servers send it."""
    answer.headers, answer.body = {"content-type": "text/plain"}, b"bad request"


def set_status(status: int) -> Callable[[Answer], None]:
    return lambda answer: setattr(answer, "status", status)


def headers(name: str, value: str, *, streams: bool) -> Breakage:
    def apply(request: Request, answer: Answer) -> None:
        if (answer.out is not None) == streams:
            answer.headers = {**answer.headers, name: value}

    return apply


def no_keepalive(kind: str | None) -> Breakage:
    """Takes the keep-alives away: events of the type behind the start, or comments."""

    def apply(request: Request, answer: Answer) -> None:
        answer.out = answer.out and [
            out for out in answer.out if not (out.at > 0 and (out.data is None if kind is None else _is(out, kind)))
        ]

    return apply


def ascii_only(text: str) -> str:
    return text.encode("ascii", "replace").decode().replace("?", "\ufffd")


def removed(*keys: str) -> Edit:
    """Takes keys away."""

    def edit(data: dict) -> None:
        for key in keys:
            data.pop(key, None)

    return edit


def put(**fields: Any) -> Edit:
    """Sets keys."""
    return lambda data: data.update(fields)
