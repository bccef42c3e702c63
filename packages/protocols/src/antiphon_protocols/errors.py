"""What the error tables of all surfaces share. The tables themselves: `messages.errors`, `chat.errors`."""

import math
from collections.abc import Mapping
from typing import NamedTuple, TypeVar

from antiphon_turns.errors import AntiphonError, CapacityError, WorkerUnavailable

T = TypeVar("T")

_WORKER_RETRY_AFTER = 2.0
"""Seconds. A worker that is gone is replaced or restarted; clients that retry at once only add load."""


class ErrorResponse(NamedTuple):
    """A whole HTTP answer."""

    status: int
    headers: dict[str, str]
    body: bytes


def entry_for(table: Mapping[type[AntiphonError], T], error: AntiphonError) -> T:
    """The row of the most derived class that the table names. Every table names AntiphonError."""
    return next(table[kind] for kind in type(error).__mro__ if kind in table)


def retry_headers(error: AntiphonError) -> dict[str, str]:
    """`retry-after` in whole seconds, at least 1; clients treat a 429 or 503 without it as fatal."""
    if isinstance(error, CapacityError):
        return {"retry-after": str(max(1, math.ceil(error.retry_after)))}
    if isinstance(error, WorkerUnavailable):
        return {"retry-after": str(math.ceil(_WORKER_RETRY_AFTER))}
    return {}
