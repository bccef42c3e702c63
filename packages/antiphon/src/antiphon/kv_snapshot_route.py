"""`GET /antiphon/kv-snapshot`: what this frontend knows of the engines' caches, for a sibling that starts; and the sibling's question."""

import logging
from collections.abc import Awaitable, Callable, Iterable

import aiohttp
from starlette.requests import Request
from starlette.responses import Response

from antiphon_turns.errors import AntiphonError, WorkerTimeout

log = logging.getLogger("antiphon")

PATH = "/antiphon/kv-snapshot"
ASK_SECONDS = 10.0


class KvSnapshotRoute:
    """Hashes leave here, and no text; the server's key, where it has one, is asked for as on every route."""

    def __init__(self, take: Callable[[], Awaitable[bytes]], refuse: Callable[[Request, AntiphonError], Response]) -> None:
        self._take = take
        self._refuse = refuse

    async def snapshot(self, request: Request) -> Response:
        """The snapshot as it is (`router/kv_snapshot.py`)."""
        try:
            body = await self._take()
        except TimeoutError:
            return self._refuse(request, WorkerTimeout("the process that follows KV events does not answer; ask again, or begin without"))
        return Response(body, media_type="application/octet-stream", headers={"cache-control": "no-store"})


async def snapshot_of(siblings: Iterable[str], *, key: str | None = None) -> bytes | None:
    """The snapshot of the first sibling (`http://host:port`) that has one; None when none does, and the index then begins with replays."""
    headers = {"authorization": f"Bearer {key}"} if key else {}
    async with aiohttp.ClientSession(headers=headers, timeout=aiohttp.ClientTimeout(ASK_SECONDS)) as session:
        for sibling in siblings:
            try:
                async with session.get(sibling.rstrip("/") + PATH) as answer:
                    if answer.status == 200:
                        return await answer.read()
                    log.info("no KV snapshot from %s: status %d", sibling, answer.status)
            except (TimeoutError, aiohttp.ClientError) as error:
                log.info("no KV snapshot from %s: %s", sibling, error or type(error).__name__)
    return None
