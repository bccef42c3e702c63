"""Turn events: the one stream that every stage between the engine and a surface speaks.

Order, checked by `antiphon_turns.check.OrderChecker`::

    TurnStart
    ( SegmentStart SegmentDelta* SegmentEnd [CallReady] )*      one open segment, dense ascending indices
    TurnEnd

`Anomaly`, `UsageUpdate`, `TurnMetadata` and `TokenLogprobs` may stand anywhere between TurnStart and TurnEnd.
All events are immutable plain data; equal events compare equal.
"""

from typing import Literal

import msgspec

SegmentKind = Literal["reasoning", "text", "tool_call"]
SegmentStatus = Literal["complete", "truncated", "recovered"]
StopReason = Literal["end_turn", "tool_use", "max_tokens", "stop_sequence", "refusal", "cancelled", "error"]


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """Token counts of one turn. `prompt_tokens` includes the cached ones; `cached_tokens` is None
    while the engine has not said. `output_tokens` includes `reasoning_tokens` and the end-of-turn token."""

    prompt_tokens: int
    cached_tokens: int | None = None
    output_tokens: int = 0
    reasoning_tokens: int = 0


class TurnStart(msgspec.Struct, frozen=True, tag="turn_start"):
    """The prompt is rendered and counted. `turn_tag` is the turn's 80 random bits as text (see `ids`)."""

    turn_tag: str
    model: str
    prompt_tokens: int
    cached_tokens: int | None = None


class SegmentStart(msgspec.Struct, frozen=True, tag="segment_start"):
    """A segment opens. For a tool call the name is known and the id is ours."""

    index: int
    kind: SegmentKind
    call_id: str | None = None
    name: str | None = None


class SegmentDelta(msgspec.Struct, frozen=True, tag="segment_delta"):
    """Appended text of the open segment: reasoning text, visible text, or bytes of the argument JSON."""

    index: int
    text: str


class SegmentEnd(msgspec.Struct, frozen=True, tag="segment_end"):
    """The open segment closes. `tokens` counts the sampled tokens whose last byte fell into it, its
    markers included. `carrier` is opaque to surfaces: they hand it to the client and take it back."""

    index: int
    status: SegmentStatus = "complete"
    tokens: int = 0
    carrier: str | None = None


class CallReady(msgspec.Struct, frozen=True, tag="call_ready"):
    """The call may be executed now. `arguments` is the whole JSON object text, equal to the joined deltas.
    Follows its SegmentEnd(complete or recovered) directly; never follows a truncated one."""

    index: int
    call_id: str
    name: str
    arguments: str


class Anomaly(msgspec.Struct, frozen=True, tag="anomaly"):
    """Malformed model output that was contained. Data for log, metrics and inspector, never an exception."""

    code: str
    detail: str = ""


class UsageUpdate(msgspec.Struct, frozen=True, tag="usage_update"):
    """Better numbers than those of TurnStart, e.g. the cached tokens once the engine has told them."""

    usage: Usage


class TurnMetadata(msgspec.Struct, frozen=True, kw_only=True, tag="turn_metadata"):
    """What the server knows about serving this turn, sent as soon as it is known; None = not known yet. Times are in
    seconds. `worker` is told anew when another one takes over; `migrations` then says how often that has happened. Surfaces show it only
    to clients that ask (`nvext.extra_fields`)."""

    worker: str | None = None
    queue_seconds: float | None = None
    ttft_seconds: float | None = None
    cached_tokens: int | None = None
    session: str | None = None
    migrations: int | None = None


class TokenLogprob(msgspec.Struct, frozen=True):
    """One token and the natural logarithm of its probability; `token` is its text as the tokenizer spells it."""

    token: str
    logprob: float
    token_bytes: bytes = b""


class SampledLogprob(msgspec.Struct, frozen=True):
    """A sampled token with the most likely ones at its place."""

    sampled: TokenLogprob
    top: tuple[TokenLogprob, ...] = ()


class TokenLogprobs(msgspec.Struct, frozen=True, tag="token_logprobs"):
    """Probabilities of the visible text tokens that the next event stands for; only where the request asks for them."""

    tokens: tuple[SampledLogprob, ...]


class TurnEnd(msgspec.Struct, frozen=True, tag="turn_end"):
    """Nothing follows. `stop_sequence` is the matched stop string when `stop_reason` is "stop_sequence". `resumable`: a call was cut
    by the limit and left out, and the client may be told to go on, because this session was not told so too often in a row."""

    stop_reason: StopReason
    usage: Usage
    stop_sequence: str | None = None
    resumable: bool = False


Event = TurnStart | SegmentStart | SegmentDelta | SegmentEnd | CallReady | Anomaly | UsageUpdate | TurnMetadata | TokenLogprobs | TurnEnd
