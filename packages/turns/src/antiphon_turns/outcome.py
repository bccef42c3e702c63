"""Why a turn ended: the truth table of stop reasons."""

from collections.abc import Sequence

from antiphon_turns.events import StopReason
from antiphon_turns.turn import CallSegment, FinishReason, Segment


def stop_reason(segments: Sequence[Segment], finish: FinishReason, stop_sequence: str | None, *, incomplete: bool = False) -> StopReason:
    """The turn's stop reason from what it holds and how generation ended. `incomplete`: it ended inside reasoning or a
    call, perhaps one of which nothing could be shown yet.

    A call that was complete when the limit struck is an ordinary call: tool_use. A turn whose last piece was
    cut by the limit is max_tokens, whatever calls came before it.
    """
    if stop_sequence is not None:
        return "stop_sequence"
    if finish == "cancelled" or finish == "error":
        return finish
    last = segments[-1] if segments else None
    if finish == "length":
        whole_call = isinstance(last, CallSegment) and last.status != "truncated" and not incomplete
        return "tool_use" if whole_call else "max_tokens"
    called = any(isinstance(segment, CallSegment) and segment.status != "truncated" for segment in segments)
    return "tool_use" if called else "end_turn"
