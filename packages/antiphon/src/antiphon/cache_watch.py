"""What the engine's prefix cache should hold of each prompt, what it did hold, and why they differ."""

import time
from array import array
from collections import deque
from collections.abc import Callable, Sequence
from hashlib import blake2b

import msgspec

from antiphon.explain.causes import goes_on
from antiphon.explain.explanation import Explanation, explain, heard, trimmed
from antiphon.explain.sent import Expectation, Line, Sent, SentPrompts
from antiphon.model import Model
from antiphon.prompts import conversation_key
from antiphon_turns import Segment, TurnRequest

REMEMBERED = 256


class Watched(msgspec.Struct, frozen=True, kw_only=True):
    """One request, explained. `at` is Unix time in seconds. `conversation` is the line of the session it belongs to."""

    request_id: str
    tenant: str
    at: float
    surface: str
    session: str | None
    conversation: str
    explanation: Explanation


class Foresight(msgspec.Struct, frozen=True, kw_only=True):
    """What is known before the engine has said anything."""

    line: Line
    sent: Sent
    expectation: Expectation
    explanation: Explanation


class CacheWatch:
    """Compares prompts with those sent before. Safe to call from several threads."""

    def __init__(self, model: Model, *, worker: str | None, max_bytes: int, clock: Callable[[], float] = time.time) -> None:
        text = blake2b(model.template_text.encode(), digest_size=4).hexdigest()
        self._model = f"{model.name} ({model.family.name}, template {text}, tokenizer {model.tokenizer.fingerprint[:8]})"
        self._worker = worker
        self._clock = clock
        self.sent = SentPrompts(max_bytes)
        self.recent: deque[Watched] = deque(maxlen=REMEMBERED)

    def held(self, request: TurnRequest, ids: Sequence[int], tenant: str) -> int:
        """How many tokens of a prompt a cache without eviction would hold."""
        return self.sent.expect(line_of(request, tenant), array("I", ids)).tokens

    def foresee(self, request: TurnRequest, ids: Sequence[int], *, tenant: str, restored: Sequence[int]) -> Foresight:
        """What of a prompt could be cached, and where it left the one before."""
        line = line_of(request, tenant)
        packed = array("I", ids)
        expectation = self.sent.expect(line, packed)
        if expectation.anew and expectation.previous is not None and not goes_on(expectation.previous.request, request):
            expectation = msgspec.structs.replace(expectation, session=0, previous=None, beside=True)
        sent = Sent(request=request, model=self._model, ids=packed, worker=self._worker)
        found = explain(sent, expectation, restored=frozenset(restored))
        return Foresight(line=line, sent=sent, expectation=expectation, explanation=found)

    def read(self, foresight: Foresight) -> None:
        """The engine has read the prompt, and what begins like it may find it cached, however long its turn takes."""
        self.sent.read(foresight.line, foresight.sent.ids, foresight.expectation)

    def keep(
        self,
        foresight: Foresight,
        *,
        output_ids: Sequence[int],
        reply: Sequence[Segment],
        cached_tokens: int | None,
        request_id: str,
        worker: str | None = None,
    ) -> Explanation:
        """The turn is over: remembers what was sent, and says what the cache held of it. `worker`: who served it, where the engine has
        told."""
        worker = worker or foresight.sent.worker
        sent = msgspec.structs.replace(foresight.sent, output_ids=output_ids, reply=tuple(reply), request_id=request_id, worker=worker)
        found = foresight.explanation
        if cached_tokens is not None:
            found = heard(found, foresight.expectation.previous, sent, cached_tokens)
        self.sent.add(foresight.line, sent, foresight.expectation)
        request = sent.request
        self.recent.append(
            Watched(
                request_id=request_id,
                tenant=foresight.line.tenant,
                at=self._clock(),
                surface=request.surface,
                session=request.session,
                conversation=foresight.line.conversation,
                explanation=trimmed(found),
            )
        )
        return found


def line_of(request: TurnRequest, tenant: str) -> Line:
    """Which prompts a request follows."""
    return Line(tenant=tenant, session=request.session, conversation=conversation_key(request))
