"""A model that says what the kit's prompts order, with tokens counted in words: what the small good server has in place of weights."""

import re
from dataclasses import dataclass, field

from antiphon.conformance.sayings import Saying
from antiphon_turns import CallSegment, ReasoningSegment, TextSegment

ORDER = re.compile(r"@@SAY:(\w+)@@")
WORD = re.compile(r"[^\W\d_]+|\d|[^\w\s]|_")
DEFAULT = (ReasoningSegment("Hm."), TextSegment("Fine."))


def tokens(text: str) -> list[str]:
    return WORD.findall(text)


@dataclass
class Want:
    """One request as the model sees it. `names` maps a namespaced tool to (namespace, name)."""

    model: str
    prompt: str
    stream: bool
    thinking: bool = True
    limit: int = 10**9
    stops: tuple[str, ...] = ()
    choice: str = "auto"
    parallel: bool = True


@dataclass
class Spoken:
    """One segment that was said, when it began and ended, and how many tokens it took."""

    segment: object
    begins: float
    ends: float
    count: int


@dataclass
class Turn:
    """What the model said. `finish`: stop, length, stop_sequence or calls."""

    want: Want
    number: int
    spoken: list[Spoken] = field(default_factory=list)
    finish: str = "stop"
    stop: str | None = None
    prompt_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0
    ends: float = 0.0

    def call_id(self, place: int) -> str:
        return f"call_t{self.number}x{place}"


def text_of(segment) -> str:
    """A segment as it stands in a prompt."""
    if isinstance(segment, CallSegment):
        return f"<call> {segment.name} {segment.arguments} </call>"
    return f"<think> {segment.text} </think>" if isinstance(segment, ReasoningSegment) else segment.text


def speak(want: Want, number: int, sayings: dict[str, Saying]) -> Turn:
    """The last order of the prompt, within the request's limits."""
    orders = ORDER.findall(want.prompt)
    saying = sayings[orders[-1]] if orders else None
    turn = Turn(want=want, number=number, prompt_tokens=len(tokens(want.prompt)))
    pace = saying.delay_ms / 1000 if saying else 0.0
    for segment in saying.segments if saying else DEFAULT:
        if isinstance(segment, ReasoningSegment) and not want.thinking:
            continue
        if isinstance(segment, CallSegment) and want.choice == "none":
            continue
        if not _say(turn, segment, pace):
            break
        if isinstance(segment, CallSegment) and not want.parallel:
            break
    if turn.finish == "stop" and any(isinstance(said.segment, CallSegment) for said in turn.spoken):
        turn.finish = "calls"
    return turn


def _say(turn: Turn, segment, pace: float) -> bool:
    """Adds one segment; False when the turn ends with it."""
    count = len(tokens(text_of(segment)))
    goes_on = True
    room = turn.want.limit - turn.output_tokens
    if isinstance(segment, TextSegment):
        at = min((segment.text.find(stop) for stop in turn.want.stops if stop in segment.text), default=-1)
        if at >= 0:
            turn.stop = next(stop for stop in turn.want.stops if segment.text.startswith(stop, at))
            segment, turn.finish, goes_on = TextSegment(segment.text[:at]), "stop_sequence", False
            count = len(tokens(segment.text))
    if count > room:
        turn.finish, turn.output_tokens = "length", turn.want.limit
        if isinstance(segment, CallSegment):
            return False
        kept = " ".join(segment.text.split()[: max(1, room // 4)])
        segment, count, goes_on = type(segment)(kept), room, False
    else:
        turn.output_tokens += count
    if isinstance(segment, ReasoningSegment):
        turn.reasoning_tokens += count
    begins, turn.ends = turn.ends, turn.ends + count * pace
    turn.spoken.append(Spoken(segment, begins, turn.ends, count))
    return goes_on
