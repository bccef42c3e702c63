"""The store of responses: what `previous_response_id`, retrieval and background runs need. One protocol, one file an
implementation; nothing of it is on the token path."""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from antiphon_turns.errors import InvalidRequest, NotFound

RUNNING = ("queued", "in_progress")


class StoredResponse(msgspec.Struct, frozen=True, kw_only=True):
    """One response. `input_items` are those of its own request, without the chain's; `body` is the response object as JSON. Times
    are unix seconds."""

    response_id: str
    tenant: str
    status: str
    created: int
    body: bytes
    previous_id: str | None = None
    input_items: tuple[msgspec.Raw, ...] = ()
    output_items: tuple[msgspec.Raw, ...] = ()

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return self.status in RUNNING


class PreviousResponseNotFound(NotFound):
    """A chain cannot be continued: the client must send the whole conversation. The surface gives it the vendor's code, on which
    clients do that."""

    def __init__(self, response_id: str) -> None:
        super().__init__(f"Previous response with id {response_id!r} not found.", param="previous_response_id")


class ChainLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of a walk along `previous_response_id`: responses, and bytes of their items."""

    responses: int = 2000
    size: int = 64 * 1024 * 1024


class ResponseStore(Protocol):
    """Everything is by tenant: a response of another tenant does not exist. Entries expire by themselves."""

    def put(self, response: StoredResponse) -> None:
        """Writes or replaces, soon: does not wait, and whatever is asked later sees it. A write that fails is logged."""
        ...

    async def get(self, tenant: str, response_id: str) -> StoredResponse | None:
        """One response."""
        ...

    async def delete(self, tenant: str, response_id: str) -> bool:
        """Whether it was there."""
        ...

    async def chain(self, tenant: str, response_id: str, limits: ChainLimits) -> tuple[msgspec.Raw, ...]:
        """Input and output items of the response and all before it, oldest first. Raises PreviousResponseNotFound where a link is
        missing, InvalidRequest where one still runs or a limit is passed."""
        ...

    async def items(self, tenant: str, item_ids: Sequence[str]) -> dict[str, msgspec.Raw]:
        """Those of the named items that stand in a kept response, input or output."""
        ...

    async def close(self) -> None:
        """Writes what is pending and frees everything."""
        ...


def check_link(response: StoredResponse | None, response_id: str) -> StoredResponse:
    """A response that a chain may go through. Raises as `ResponseStore.chain`."""
    if response is None:
        raise PreviousResponseNotFound(response_id)
    if response.running:
        raise InvalidRequest(f"response {response_id!r} is still running; wait for its end", param="previous_response_id")
    return response


def too_long(limits: ChainLimits) -> InvalidRequest:
    """The refusal of a chain that passes a limit."""
    text = f"more than {limits.responses} responses or {limits.size} bytes stand before this one; send the conversation as input"
    return InvalidRequest(text, param="previous_response_id")


def pack(items: Sequence[msgspec.Raw]) -> bytes:
    """Items as one JSON array, every byte kept."""
    return b"[" + b",".join(bytes(item) for item in items) + b"]"


def unpack(data: bytes) -> tuple[msgspec.Raw, ...]:
    """The inverse of `pack`."""
    return msgspec.json.decode(data, type=tuple[msgspec.Raw, ...])
