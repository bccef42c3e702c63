"""Two saved request bodies and a model, without any engine: what the second prompt shares with the first, and why no more."""

from collections.abc import Sequence
from typing import Literal

import msgspec

from antiphon.explain.composition import Part, compose
from antiphon.explain.explanation import bounded, explain
from antiphon.explain.report import CauseRow, cause_rows
from antiphon.explain.sent import Line, Sent, SentPrompts, common_prefix
from antiphon.model import Model
from antiphon.prompts import Prompt, PromptOptions, Prompts
from antiphon.replay.ledger import Ledger
from antiphon.replay.recall import Recall
from antiphon.stabilize import StabilizerRule
from antiphon.tenant import ANYONE
from antiphon_protocols import chat, messages, responses
from antiphon_turns import TurnRequest
from antiphon_turns.errors import ConfigError, RequestError

BodySurface = Literal["messages", "responses", "chat"]
_BEFORE, _BEHIND = 12, 24
"""Tokens shown on either side of the place where two prompts part."""
_LIMIT = 1 << 26


class Excerpt(msgspec.Struct, frozen=True, kw_only=True):
    """The text around the place where two prompts part, control tokens visible: what both have, and how either goes on."""

    both: str
    before: str
    after: str


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens of both prompts, how many they share from the beginning, and why they part. `excerpt` is None where the second begins
    with all of the first. `parts` are those of the second prompt."""

    model: str
    before_tokens: int
    prompt_tokens: int
    shared_tokens: int
    causes: tuple[CauseRow, ...]
    excerpt: Excerpt | None
    stabilized: tuple[str, ...]
    parts: tuple[Part, ...]


def compare(model: Model, before: bytes, after: bytes, *, surface: BodySurface, rules: Sequence[StabilizerRule]) -> Comparison:
    """The comparison of two bodies as the server would have rendered them with an empty memory. Raises ConfigError for a body that
    cannot be read or rendered."""
    options = PromptOptions(rules=tuple(rules))
    prompts = Prompts(model, Recall(model, Ledger(0)), options=options, held=lambda request, ids, tenant: 0)
    first, second = (_prompt(prompts, body, surface, name) for body, name in ((before, "--before"), (after, "--after")))
    # One conversation, whatever the bodies say: that is what the caller asks about.
    line, memory = Line(tenant=ANYONE, session=None, conversation=""), SentPrompts(1 << 40)
    one, other = (Sent(request=prompt.request, model=model.name, ids=prompt.ids) for prompt in (first, second))
    memory.add(line, one, memory.expect(line, one.ids))
    found = explain(other, memory.expect(line, other.ids))
    shared = common_prefix(first.ids, second.ids)
    return Comparison(
        model=model.name,
        before_tokens=len(first.ids),
        prompt_tokens=len(second.ids),
        shared_tokens=shared,
        causes=cause_rows(found),
        excerpt=_excerpt(model, first.ids, second.ids, shared) if shared < len(first.ids) else None,
        stabilized=second.stabilized,
        parts=compose(second.request, second.ids, model.tokenizer, model.family.frame, shared=shared),
    )


def _prompt(prompts: Prompts, body: bytes, surface: BodySurface, name: str) -> Prompt:
    try:
        return prompts.make(read_body(body, surface), None, tenant=ANYONE, limit=_LIMIT)
    except RequestError as error:
        raise ConfigError(f"{name}: {error.message}") from error


def read_body(body: bytes, surface: BodySurface) -> TurnRequest:
    """The turn a saved body asks for. Raises RequestError."""
    if surface == "messages":
        return messages.ingest(body, {}).turn
    if surface == "chat":
        return chat.ingest(body, {}).turn
    call = responses.read(body, {}, tag="0" * 16)
    return responses.ingest(call, past=(), stored={}, open_compaction=lambda value: None).turn


def _excerpt(model: Model, before: Sequence[int], after: Sequence[int], shared: int) -> Excerpt:
    both, one, other = (
        bounded(model.tokenizer.decode(list(ids)))
        for ids in (before[max(shared - _BEFORE, 0) : shared], before[shared : shared + _BEHIND], after[shared : shared + _BEHIND])
    )
    return Excerpt(both=both, before=one, after=other)
