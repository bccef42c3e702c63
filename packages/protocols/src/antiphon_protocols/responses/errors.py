"""Errors on the Responses surface. Source: the OpenAI API's error reference and what Codex and the others do (wire facts 2.8, 3 to 5)."""

import math
from typing import Any, NamedTuple

import msgspec

from antiphon_protocols.errors import ErrorResponse, entry_for, retry_headers
from antiphon_turns import errors as e


class _Row(NamedTuple):
    """`code` None: the class's own. `failed`: the code of a response that had begun, of which Codex knows only some: it tries again
    on server_error and on rate_limit_exceeded (after the time the message names), and gives up on server_is_overloaded."""

    status: int
    type: str
    code: str | None = None
    failed: str = "server_error"


_SERVER = "server_error"
_REQUEST = "invalid_request_error"
_REFUSED = "invalid_prompt"
_WAIT = "rate_limit_exceeded"

ERRORS: dict[type[e.AntiphonError], _Row] = {
    e.AntiphonError: _Row(500, _SERVER),
    e.RequestError: _Row(400, _REQUEST, failed=_REFUSED),
    e.InvalidRequest: _Row(400, _REQUEST, failed=_REFUSED),
    e.UnsupportedFeature: _Row(400, _REQUEST, failed=_REFUSED),
    e.ContextOverflow: _Row(400, _REQUEST, "context_length_exceeded", "context_length_exceeded"),
    e.AuthError: _Row(401, "authentication_error", "invalid_api_key", _REFUSED),
    e.Forbidden: _Row(403, _REQUEST, failed=_REFUSED),
    e.UnknownModel: _Row(404, _REQUEST, "model_not_found", _REFUSED),
    e.NotFound: _Row(404, _REQUEST, failed=_REFUSED),
    e.MethodNotAllowed: _Row(405, _REQUEST, failed=_REFUSED),
    e.RequestTimeout: _Row(408, _REQUEST, failed=_REFUSED),
    e.BodyTooLarge: _Row(413, _REQUEST, failed=_REFUSED),
    e.HeadersTooLarge: _Row(431, _REQUEST, failed=_REFUSED),
    e.WorkerRefusal: _Row(400, _REQUEST, failed=_REFUSED),
    e.CapacityError: _Row(503, _SERVER, failed=_WAIT),
    e.Overloaded: _Row(503, _SERVER, failed=_WAIT),
    e.RateLimited: _Row(429, "rate_limit_error", _WAIT, _WAIT),
    e.WorkerError: _Row(502, _SERVER),
    e.WorkerUnavailable: _Row(503, _SERVER),
    e.WorkerTimeout: _Row(504, _SERVER),
    e.WorkerProtocolError: _Row(502, _SERVER),
    e.WorkerRefusal: _Row(400, _REQUEST, failed=_REFUSED),
    e.StreamInterrupted: _Row(502, _SERVER),
    e.ConfigError: _Row(500, _SERVER),
    e.InternalError: _Row(500, _SERVER),
}

PREVIOUS = "previous_response_id"


def error_response(error: e.AntiphonError, request_id: str) -> ErrorResponse:
    """The answer to a request that failed before its first byte."""
    headers = {"content-type": "application/json", "x-request-id": request_id, **retry_headers(error)}
    return ErrorResponse(_status(error), headers, msgspec.json.encode({"error": _detail(error)}))


def socket_error(error: e.AntiphonError) -> bytes:
    """The frame that answers a `response.create` which failed before its first event: the HTTP answer in one object. Clients read the
    status and `error`, the vendor's SDK the fields beside them."""
    detail = _detail(error)
    frame = {
        "type": "error",
        "sequence_number": 0,
        "status": _status(error),
        "code": detail["code"],
        "message": detail["message"],
        "param": detail["param"],
        "error": detail,
        "headers": retry_headers(error),
    }
    return msgspec.json.encode(frame)


def failure(error: e.AntiphonError) -> dict[str, Any]:
    """The `error` of a failed response."""
    code, message = entry_for(ERRORS, error).failed, error.message
    if isinstance(error, e.ContextOverflow):
        message = _overflow(error)
    if code == _WAIT and isinstance(error, e.CapacityError):
        message = f"{message.rstrip('.')}. Please try again in {max(1, math.ceil(error.retry_after))}s."
    return {"code": code, "message": message}


def _status(error: e.AntiphonError) -> int:
    return 400 if _chain_broken(error) else entry_for(ERRORS, error).status


def _chain_broken(error: e.AntiphonError) -> bool:
    """The response to go on from is not here: the vendor's own status and code, on which clients send everything again."""
    return isinstance(error, e.NotFound) and error.param == PREVIOUS


def _detail(error: e.AntiphonError) -> dict[str, Any]:
    row = entry_for(ERRORS, error)
    code = "previous_response_not_found" if _chain_broken(error) else row.code or error.code
    detail: dict[str, Any] = {"message": error.message, "type": row.type, "param": error.param, "code": code}
    if isinstance(error, e.ContextOverflow):
        detail["message"], detail["param"] = _overflow(error), "input"
    return detail


def _overflow(error: e.ContextOverflow) -> str:
    """In the words that make clients compact the conversation."""
    limit, prompt = error.context_length, error.prompt_tokens
    return f"Your input exceeds the context window: the maximum context length is {limit} tokens, and the input has {prompt} tokens."
