"""Errors on the Messages surface. Source: the Anthropic API's error reference and the clients' measured reactions."""

from typing import Any, NamedTuple

import msgspec

from antiphon_protocols import sse
from antiphon_protocols.errors import ErrorResponse, entry_for, retry_headers
from antiphon_turns import errors as e


class _Row(NamedTuple):
    status: int
    type: str


ERRORS: dict[type[e.AntiphonError], _Row] = {
    e.AntiphonError: _Row(500, "api_error"),
    e.RequestError: _Row(400, "invalid_request_error"),
    e.InvalidRequest: _Row(400, "invalid_request_error"),
    e.UnsupportedFeature: _Row(400, "invalid_request_error"),
    e.ContextOverflow: _Row(400, "invalid_request_error"),
    e.AuthError: _Row(401, "authentication_error"),
    e.Forbidden: _Row(403, "permission_error"),
    e.UnknownModel: _Row(404, "not_found_error"),
    e.NotFound: _Row(404, "not_found_error"),
    e.MethodNotAllowed: _Row(405, "invalid_request_error"),
    e.RequestTimeout: _Row(408, "timeout_error"),
    e.BodyTooLarge: _Row(413, "request_too_large"),
    e.HeadersTooLarge: _Row(431, "invalid_request_error"),
    e.CapacityError: _Row(529, "overloaded_error"),
    e.Overloaded: _Row(529, "overloaded_error"),
    e.RateLimited: _Row(429, "rate_limit_error"),
    e.WorkerError: _Row(502, "api_error"),
    e.WorkerUnavailable: _Row(503, "overloaded_error"),
    e.WorkerTimeout: _Row(504, "timeout_error"),
    e.WorkerProtocolError: _Row(502, "api_error"),
    e.WorkerRefusal: _Row(400, "invalid_request_error"),
    e.StreamInterrupted: _Row(502, "api_error"),
    e.ConfigError: _Row(500, "api_error"),
    e.InternalError: _Row(500, "api_error"),
}


def error_response(error: e.AntiphonError, request_id: str) -> ErrorResponse:
    """The answer to a request that failed before its first byte."""
    headers = {"content-type": "application/json", "request-id": request_id, **retry_headers(error)}
    return ErrorResponse(entry_for(ERRORS, error).status, headers, _body(error, request_id))


def error_event(error: e.AntiphonError, request_id: str | None = None) -> bytes:
    """The in-band form, after which nothing follows on the stream."""
    return sse.event("error", _body(error, request_id))


def _body(error: e.AntiphonError, request_id: str | None) -> bytes:
    detail: dict[str, Any] = {"type": entry_for(ERRORS, error).type, "message": error.message}
    if isinstance(error, e.UnsupportedFeature) and error.details:
        detail["details"] = error.details
    body: dict[str, Any] = {"type": "error", "error": detail}
    if request_id is not None:
        body["request_id"] = request_id
    return msgspec.json.encode(body)
