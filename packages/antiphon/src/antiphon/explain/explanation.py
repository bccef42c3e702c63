"""One request's answer to "why did the cache miss?": numbers, and where and why its prompt left the previous one."""

from collections.abc import Sequence

import msgspec

from antiphon.explain.causes import SENTENCES, Cause, causes
from antiphon.explain.sent import Expectation, Sent
from antiphon_turns import AssistantMessage, Message, ReasoningSegment

# Engines count in blocks of their own and keep the last token uncached, so small differences say nothing.
SLACK_TOKENS = 64
MAX_CAUSES = 20
MAX_DETAIL = 500


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """`expected_tokens` were sent before and could be cached; `cached_tokens` were, by the engine's word (None: it has not said).
    `shared_tokens` of them the prompt has in common with the session's previous prompt and its output; `lost_tokens` of those it
    has left: none where all of the prompt was sent before. `causes` in the order of the prompt: the first is where the prompts part."""

    prompt_tokens: int
    expected_tokens: int
    shared_tokens: int = 0
    lost_tokens: int = 0
    cached_tokens: int | None = None
    causes: tuple[Cause, ...] = ()

    @property
    def sentence(self) -> str:
        """The first cause in words, its place first; "" where nothing was lost."""
        return f"{self.causes[0].place}: {SENTENCES[self.causes[0].code]}" if self.causes else ""


def explain(now: Sent, expectation: Expectation, *, restored: frozenset[int] = frozenset()) -> Explanation:
    """What is known before the engine has said anything. `restored`: messages that stand in the prompt as they were sampled."""
    before = expectation.previous
    held = len(before.ids) + len(before.output_ids) if before else 0
    # A request sent again, or taken back to an earlier place, leaves the end of the one before and misses nothing.
    lost = max(held - expectation.session, 0) if expectation.tokens < expectation.prompt_tokens else 0
    found: tuple[Cause, ...] = ()
    if before is not None and lost:
        found = causes(before, now, restored=restored) or (_silent(before, now, expectation.session),)
    return Explanation(
        prompt_tokens=expectation.prompt_tokens,
        expected_tokens=expectation.tokens,
        shared_tokens=expectation.session,
        lost_tokens=lost,
        causes=found,
    )


def heard(foreseen: Explanation, before: Sent | None, now: Sent, cached_tokens: int) -> Explanation:
    """What was foreseen, and what the engine says it really held. Workers are compared where both are known. What the engine held of
    prompts that ran beside this one, or that are forgotten here, could be expected too."""
    found = foreseen.causes
    if cached_tokens + SLACK_TOKENS < foreseen.expected_tokens:
        moved = before is not None and before.worker is not None and now.worker not in (None, before.worker)
        detail = f"{cached_tokens} of {foreseen.expected_tokens} tokens"
        found = (*found, Cause(code="worker_changed" if moved else "evicted", detail=detail))
    expected = max(foreseen.expected_tokens, cached_tokens)
    return msgspec.structs.replace(foreseen, expected_tokens=expected, cached_tokens=cached_tokens, causes=found)


def _silent(before: Sent, now: Sent, shared: int) -> Cause:
    """The prompts part although the client changed nothing: the model's convention, or its template."""
    turns: list[tuple[int, Message]] = list(enumerate(before.request.messages))
    if before.reply:
        turns.append((len(turns), AssistantMessage(before.reply)))
    reasoned = [index for index, message in turns if _reasons(message)]
    detail = f"at token {shared}"
    if reasoned and len(now.request.messages) > len(before.request.messages):
        return Cause(code="replay_policy", message=reasoned[-1], detail=detail)
    return Cause(code="template_suffix", detail=detail)


def _reasons(message: Message) -> bool:
    segments: Sequence[object] = message.segments if isinstance(message, AssistantMessage) else ()
    return any(isinstance(segment, ReasoningSegment) for segment in segments)


def trimmed(found: Explanation) -> Explanation:
    """The explanation as it is kept and shown: its first causes, with the beginnings of what they quote."""
    kept = tuple(msgspec.structs.replace(cause, detail=bounded(cause.detail)) for cause in found.causes[:MAX_CAUSES])
    return msgspec.structs.replace(found, causes=kept)


def bounded(text: str) -> str:
    """At most MAX_DETAIL characters of a text, and a sign that there was more."""
    return text if len(text) <= MAX_DETAIL else f"{text[:MAX_DETAIL]}..."
