"""`GET /antiphon/explain`: the latest requests of the asking tenant, explained. `GET /metrics`."""

import asyncio
import ipaddress
from collections.abc import Callable

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from antiphon.cache_watch import REMEMBERED, Watched
from antiphon.explain.composition import Part, compose
from antiphon.explain.report import Report, request_row
from antiphon.http import headers_of
from antiphon.metrics.metrics import CONTENT_TYPE
from antiphon.pipeline import Pipeline
from antiphon.tenant import tenant_of
from antiphon_turns.errors import AntiphonError, AuthError, InvalidRequest

PATH = "/antiphon/explain"
DEFAULT_LIMIT = 20


class ExplainRoute:
    """Text of prompts leaves here, so it needs the server's key, or, where there is none, a request from this machine."""

    def __init__(self, pipeline: Pipeline, refuse: Callable[[Request, AntiphonError], Response], *, has_key: bool) -> None:
        self._pipeline = pipeline
        self._refuse = refuse
        self._has_key = has_key

    async def explain(self, request: Request) -> Response:
        """A `Report` as JSON; `session`, `request_id` and `limit` choose among the requests."""
        try:
            if not self._has_key and not is_local(request):
                raise AuthError("without --api-key this is told only on the machine itself")
            chosen = self._choose(request)
        except AntiphonError as error:
            return self._refuse(request, error)
        # Taking a prompt of 50,000 tokens apart takes a tenth of a second, so that is done for the newest one only.
        newest = [await asyncio.to_thread(self._parts, one) for one in chosen[-1:]]
        rows = (*map(request_row, chosen[:-1]), *map(request_row, chosen[-1:], newest))
        body = msgspec.json.encode(Report(model=self._pipeline.model.name, requests=rows))
        return Response(body, media_type="application/json", headers={"cache-control": "no-store"})

    async def metrics(self, request: Request) -> Response:
        """The metrics in the text form of Prometheus."""
        return Response(self._pipeline.metrics.text(), headers={"content-type": CONTENT_TYPE})

    def _choose(self, request: Request) -> list[Watched]:
        query, tenant = request.query_params, tenant_of(headers_of(request.scope))
        limit = query.get("limit", str(DEFAULT_LIMIT))
        if not limit.isdecimal() or not 1 <= int(limit[:9]) <= REMEMBERED:
            raise InvalidRequest(f"limit: must be a number between 1 and {REMEMBERED}", param="limit")
        wanted = {name: query[name] for name in ("session", "request_id") if name in query}
        found = [
            one
            for one in self._pipeline.watch.recent
            if one.tenant == tenant and all(getattr(one, name) == value for name, value in wanted.items())
        ]
        return found[-int(limit) :]

    def _parts(self, watched: Watched) -> tuple[Part, ...]:
        """What the prompt is made of, while it is the last one of its conversation."""
        sent = self._pipeline.watch.sent.latest(watched.tenant, watched.conversation)
        if sent is None or sent.request_id != watched.request_id:
            return ()
        model, found = self._pipeline.model, watched.explanation
        return compose(sent.request, sent.ids, model.tokenizer, model.family.frame, shared=found.shared_tokens, cached=found.cached_tokens)


def is_local(request: Request) -> bool:
    """Whether a request comes from this machine and was meant for it: a web page that gives its own name this machine's address
    sends that name as host."""
    return request.client is not None and is_loopback(request.client.host) and is_loopback(request.url.hostname or "")


def is_loopback(host: str) -> bool:
    """Whether this is a name or an address of the machine itself."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
