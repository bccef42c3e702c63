"""Which workers there are: addresses, from whoever places and starts them."""

from collections.abc import AsyncGenerator
from typing import Protocol

import msgspec

from antiphon.workers.card import WorkerKind


class WorkerAddress(msgspec.Struct, frozen=True, kw_only=True):
    """One worker. `name` is unique and stable over restarts; `url` is where its HTTP interface is. `kind` None: found out by asking.
    `draining` workers finish what they have and get nothing new. What a card cannot say for a foreign engine the operator may:
    `block_tokens`, and `feeds` in the spelling of `workers/static.py`."""

    name: str
    url: str
    kind: WorkerKind | None = None
    draining: bool = False
    block_tokens: int | None = None
    feeds: tuple[str, ...] = ()


class WorkerDirectory(Protocol):
    """A provider of addresses. It says nothing about health: probes do."""

    def changes(self) -> AsyncGenerator[tuple[WorkerAddress, ...], None]:
        """The whole list at once and after each change, for as long as it is listened to. Trouble in looking them up is logged and
        the last known list stands."""
        ...
