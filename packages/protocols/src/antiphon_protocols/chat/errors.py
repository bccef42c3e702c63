"""Errors on the Chat Completions surface. Source: the OpenAI API's error reference and the clients' measured reactions."""

from typing import Any, NamedTuple

import msgspec

from antiphon_protocols import sse
from antiphon_protocols.errors import ErrorResponse, entry_for, retry_headers
from antiphon_turns import errors as e


class _Row(NamedTuple):
    """`code` None: the class's own code."""

    status: int
    type: str
    code: str | None = None


_SERVER = "server_error"
_REQUEST = "invalid_request_error"

ERRORS: dict[type[e.AntiphonError], _Row] = {
    e.AntiphonError: _Row(500, _SERVER),
    e.RequestError: _Row(400, _REQUEST),
    e.InvalidRequest: _Row(400, _REQUEST),
    e.UnsupportedFeature: _Row(400, _REQUEST),
    e.ContextOverflow: _Row(400, _REQUEST, "context_length_exceeded"),
    e.AuthError: _Row(401, "authentication_error", "invalid_api_key"),
    e.Forbidden: _Row(403, _REQUEST),
    e.UnknownModel: _Row(404, _REQUEST, "model_not_found"),
    e.NotFound: _Row(404, _REQUEST),
    e.MethodNotAllowed: _Row(405, _REQUEST),
    e.RequestTimeout: _Row(408, _REQUEST),
    e.BodyTooLarge: _Row(413, _REQUEST),
    e.HeadersTooLarge: _Row(431, _REQUEST),
    e.CapacityError: _Row(503, _SERVER),
    e.Overloaded: _Row(503, _SERVER),  # the vendor has no 529 here and not every client retries it
    e.RateLimited: _Row(429, "rate_limit_error", "rate_limit_exceeded"),
    e.WorkerError: _Row(502, _SERVER),
    e.WorkerUnavailable: _Row(503, _SERVER),
    e.WorkerTimeout: _Row(504, _SERVER),
    e.WorkerProtocolError: _Row(502, _SERVER),
    e.WorkerRefusal: _Row(400, _REQUEST),
    e.StreamInterrupted: _Row(502, _SERVER),
    e.ConfigError: _Row(500, _SERVER),
    e.InternalError: _Row(500, _SERVER),
}


def error_response(error: e.AntiphonError, request_id: str) -> ErrorResponse:
    """The answer to a request that failed before its first byte."""
    headers = {"content-type": "application/json", "x-request-id": request_id, **retry_headers(error)}
    return ErrorResponse(entry_for(ERRORS, error).status, headers, error_body(error))


def error_event(error: e.AntiphonError) -> bytes:
    """The in-band form, after which nothing follows on the stream."""
    return sse.data(error_body(error))


def error_body(error: e.AntiphonError) -> bytes:
    """The envelope `{"error": {message, type, param, code}}`."""
    row = entry_for(ERRORS, error)
    detail: dict[str, Any] = {"message": error.message, "type": row.type, "param": error.param, "code": row.code or error.code}
    if isinstance(error, e.ContextOverflow):
        limit, prompt = error.context_length, error.prompt_tokens
        # Clients compact the conversation when they read "maximum context length is N tokens".
        detail["message"] = f"The maximum context length is {limit} tokens; this prompt has {prompt} tokens. Send less text."
        detail["param"] = "messages"
    return msgspec.json.encode({"error": detail})
