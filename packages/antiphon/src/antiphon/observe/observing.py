"""Opens an observation for each request, and shows it to the observers once it is over."""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from antiphon.client_family import family_of
from antiphon.http import headers_of
from antiphon.observe.observation import SURFACES, Observation, current, opener

log = logging.getLogger("antiphon")


class Observer(Protocol):
    """Somebody who is told of requests that are over."""

    @property
    def wants_bodies(self) -> bool:
        """Whether request bodies shall be kept until then."""
        ...

    @property
    def what(self) -> str:
        """What it keeps, as metrics name it."""
        ...

    @property
    def dropped(self) -> int:
        """How many observations it lost."""
        ...

    def ended(self, observation: Observation) -> None:
        """Takes an observation, on the event loop: quickly, without waiting for anything, without raising."""
        ...

    def close(self) -> None:
        """Brings out what is pending; nothing comes behind this."""
        ...


class Observers:
    """All of them. `count` gets surface, client and status of each request for a turn."""

    def __init__(self, observers: Sequence[Observer] = (), *, count: Callable[[str, str, int], None] | None = None) -> None:
        self._observers = tuple(observers)
        self._count = count
        self.wants_bodies = any(one.wants_bodies for one in self._observers)

    def open(self, method: str, path: str, headers: Mapping[str, str], body: bytes = b"") -> Observation:
        """The observation of a request that begins now."""
        return Observation(method, path, headers, client=family_of(headers), done=self._ended, body=body)

    def lost(self) -> dict[str, int]:
        """How many observations each of them lost."""
        return {one.what: one.dropped for one in self._observers}

    def close(self) -> None:
        """See Observer."""
        for one in self._observers:
            one.close()

    def _ended(self, observation: Observation) -> None:
        if self._count is not None and observation.surface is not None:
            self._count(observation.surface, observation.client, observation.status)
        for one in self._observers:
            one.ended(observation)


def observing(app: ASGIApp, observers: Observers) -> ASGIApp:
    """The application, with every request observed. Neither `send` nor, where no bodies are wanted, `receive` is wrapped: a stream sends
    per token. Whoever answers calls `note_answer`."""

    async def observed(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            headers = headers_of(scope)
            opener.set(lambda frame: observers.open("POST", scope["path"], headers, frame if observers.wants_bodies else b""))
            await app(scope, receive, send)
            return
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        observation = observers.open(scope["method"], scope["path"], headers_of(scope))
        current.set(observation)
        keeps = observers.wants_bodies and (observation.method, observation.path) in SURFACES
        try:
            await app(scope, _keeping(receive, observation) if keeps else receive, send)
        finally:
            observation.release()

    return observed


def _keeping(receive: Receive, observation: Observation) -> Receive:
    async def kept() -> Message:
        message = await receive()
        if piece := message.get("body"):
            observation.pieces.append(piece)
        return message

    return kept


def noting(app: ASGIApp) -> ASGIApp:
    """An application whose answers do not leave by `antiphon.http`, with their status noted."""

    async def noted(scope: Scope, receive: Receive, send: Send) -> None:
        async def sent(message: Message) -> None:
            observation = current.get()
            if observation is not None and message["type"] == "http.response.start":
                observation.answered(
                    message["status"], ((name.decode("latin-1"), value.decode("latin-1")) for name, value in message["headers"])
                )
            await send(message)

        await app(scope, receive, sent)

    return noted
