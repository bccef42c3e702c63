"""The error tree. Malformed model output is never an error; it is an `Anomaly` event.

::

    AntiphonError
    +-- RequestError            the client's fault, before the first byte
    |   +-- InvalidRequest        400
    |   +-- UnsupportedFeature    400, names the field
    |   +-- ContextOverflow       400, carries both numbers
    |   +-- AuthError             401
    |   +-- Forbidden             403
    |   +-- UnknownModel          404
    |   +-- NotFound              404
    |   +-- MethodNotAllowed      405
    |   +-- RequestTimeout        408
    |   +-- BodyTooLarge          413
    |   +-- HeadersTooLarge       431
    +-- CapacityError           try again later; carries retry_after seconds
    |   +-- Overloaded            529
    |   +-- RateLimited           429
    +-- WorkerError             an engine failed
    |   +-- WorkerUnavailable     503
    |   +-- WorkerTimeout         504
    |   +-- WorkerProtocolError   502
    |   |   +-- WorkerRefusal       400, the engine does not take this request
    |   +-- StreamInterrupted     502, after the first byte
    +-- ConfigError             at start only: unknown family, bad template, missing file
    +-- InternalError           500, a broken invariant of ours

Each surface maps classes to its wire form in one table of its own.
"""

from typing import ClassVar


class AntiphonError(Exception):
    """`message` is for the user: what is wrong and what to do. `param` names the request field at fault."""

    code: ClassVar[str] = "internal_error"

    def __init__(self, message: str, *, param: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param


class RequestError(AntiphonError):
    code = "invalid_request"


class InvalidRequest(RequestError):
    pass


class UnsupportedFeature(RequestError):
    """A known field or block that cannot be honoured. `details` is merged into the error body where a
    client acts on it (wire fact: the Messages tool runner needs `error_code` to go on without threads)."""

    code = "unsupported_feature"

    def __init__(self, message: str, *, param: str, details: dict[str, object] | None = None) -> None:
        super().__init__(message, param=param)
        self.details = details


class ContextOverflow(RequestError):
    """The prompt alone does not fit."""

    code = "context_length_exceeded"

    def __init__(self, prompt_tokens: int, context_length: int) -> None:
        super().__init__(f"prompt is too long: {prompt_tokens} tokens > {context_length} maximum")
        self.prompt_tokens = prompt_tokens
        self.context_length = context_length


class AuthError(RequestError):
    code = "invalid_api_key"


class Forbidden(RequestError):
    """The key is right, and may not do this."""

    code = "permission_denied"


class UnknownModel(RequestError):
    code = "model_not_found"


class NotFound(RequestError):
    code = "not_found"


class MethodNotAllowed(RequestError):
    code = "method_not_allowed"


class RequestTimeout(RequestError):
    """The request did not arrive in time."""

    code = "request_timeout"


class BodyTooLarge(RequestError):
    code = "request_too_large"


class HeadersTooLarge(RequestError):
    code = "headers_too_large"


class CapacityError(AntiphonError):
    """`retry_after` is in seconds; every surface sends it as a header."""

    code = "overloaded"

    def __init__(self, message: str, *, retry_after: float = 1.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Overloaded(CapacityError):
    pass


class RateLimited(CapacityError):
    code = "rate_limit_exceeded"


class WorkerError(AntiphonError):
    code = "worker_error"


class WorkerUnavailable(WorkerError):
    code = "worker_unavailable"


class WorkerTimeout(WorkerError):
    code = "worker_timeout"


class WorkerProtocolError(WorkerError):
    code = "worker_protocol_error"


class WorkerRefusal(WorkerProtocolError):
    """The engine answered that this very request is at fault: sending it again does not help."""

    code = "worker_refusal"


class StreamInterrupted(WorkerError):
    code = "stream_interrupted"


class ConfigError(AntiphonError):
    code = "config_error"


class InternalError(AntiphonError):
    pass
