"""Compaction: a conversation becomes one opaque item that stands for it in later requests.

Two ways lead here: an input whose last item is a `compaction_trigger` (answered as a response), and `POST /v1/responses/compact`
(answered by an object of its own). Both ask the model for a summary; its visible text is sealed by the caller.
"""

from collections.abc import Callable

import msgspec

from antiphon_protocols import sse
from antiphon_protocols.responses.envelope import Options, Status, usage_object
from antiphon_protocols.responses.labels import item_id
from antiphon_protocols.responses.project import Projector, framed
from antiphon_turns.errors import AntiphonError, InternalError, InvalidRequest, StreamInterrupted
from antiphon_turns.events import Event, SegmentDelta, SegmentEnd, SegmentStart, TurnEnd, TurnMetadata, TurnStart, Usage

SealText = Callable[[str], str]

SUMMARY_REQUEST = """\
Stop here and write the notes with which this work goes on. From now on they take the place of everything above, which will not be \
there any more: whoever reads them knows nothing else.
Write down, as far as there is any of it:
1. What the user wants, in the user's own words where the wording matters, and every rule or preference the user has stated.
2. What has been done and found out: files with their paths, commands and what came of them, decisions with their reasons, errors and how \
they were solved.
3. Where things stand: what works, what does not, what was begun and not finished.
4. What to do next, step by step, with the names, paths, values and pieces of code it takes.
Leave out greetings, and what has been settled and is of no further use. Do not call a tool, do not ask anything, and do not go on with \
the work: answer with the notes alone."""
"""The last message of a request that compacts."""

_NOTHING = StreamInterrupted("the model wrote no summary of the conversation; try again")
_CUT = InvalidRequest(
    "max_output_tokens: the limit was reached before the model wrote a word of the summary; allow more, or send less",
    param="max_output_tokens",
)
_ENDED = ("end_turn", "tool_use", "stop_sequence", "max_tokens")


class CompactionProjector:
    """The answer to a request that compacts: created, in_progress, one compaction item, completed. Same methods as `Projector`, which
    it stands before; `compacted` is the body of `/responses/compact`. A summary that the limit has cut is kept as far as it goes."""

    def __init__(self, options: Options, seal_text: SealText) -> None:
        self._options = options
        self._seal_text = seal_text
        self._inner = Projector(options)
        self._tag = ""
        self._kind = ""
        self._texts: list[str] = []
        self._usage: Usage | None = None
        self._cut = False

    @property
    def failed(self) -> bool:
        """Whether the response has failed."""
        return self._inner.failed

    def push(self, event: Event) -> bytes:
        """The wire events for one turn event, framed; b"" if none are due."""
        return b"".join(map(framed, self.push_events(event)))

    def push_events(self, event: Event) -> list[bytes]:
        """The same without framing."""
        match event:
            case SegmentStart():
                self._kind = event.kind
            case SegmentDelta() if self._kind == "text":
                self._texts.append(event.text)
            case SegmentEnd() if self._kind == "text":
                self._texts.append("\n")
            case TurnStart():
                self._tag = event.turn_tag
                return self._inner.push_events(event)
            case TurnMetadata():
                return self._inner.push_events(event)
            case TurnEnd() if event.stop_reason in _ENDED and not self.failed:
                return self._turn_end(event)
            case _:
                pass
        return []

    def fail(self, error: AntiphonError) -> bytes:
        """The terminal event of a response that failed; nothing may follow it."""
        return self._inner.fail(error)

    def fail_events(self, error: AntiphonError) -> list[bytes]:
        """The same without framing."""
        return self._inner.fail_events(error)

    def keepalive(self) -> bytes:
        """An event that says nothing; a fresh one each time."""
        return self._inner.keepalive()

    def keepalive_events(self) -> list[bytes]:
        """The same without framing."""
        return self._inner.keepalive_events()

    def body(self) -> bytes:
        """The response object. Raises InternalError before TurnEnd or `fail`."""
        return self._inner.body()

    def compacted(self) -> bytes:
        """The answer of `/responses/compact`. Raises InternalError before TurnEnd; if there is no summary StreamInterrupted, or
        InvalidRequest where the limit left no room for one, because another try would end the same way."""
        if self._usage is None:
            raise InternalError("the turn has not ended")
        item = next(iter(self._inner.output()), None)
        if item is None:
            raise _CUT if self._cut else _NOTHING
        return compaction_body(self._options, bytes(item), self._usage)

    def snapshot(self, status: Status | None = None) -> bytes:
        """The response as it stands. `status` replaces its own."""
        return self._inner.snapshot(status)

    def output(self) -> list[msgspec.Raw]:
        """The finished item, as a store keeps it."""
        return self._inner.output()

    def _turn_end(self, event: TurnEnd) -> list[bytes]:
        self._usage, self._cut = event.usage, event.stop_reason == "max_tokens"
        text = "".join(self._texts).strip()
        if not text:
            return self._inner.fail_events(_NOTHING)
        item = self._inner.whole_item(compaction_item(self._tag, text, self._seal_text))
        return [*item, *self._inner.push_events(TurnEnd("end_turn", event.usage))]


def compaction_item(turn_tag: str, text: str, seal_text: SealText) -> bytes:
    """The item that stands for the conversation: `text`, readable only through whoever sealed it."""
    item = {"id": item_id("compaction", turn_tag), "type": "compaction", "encrypted_content": seal_text(text)}
    return sse.one_line(msgspec.json.encode(item))


def compaction_body(options: Options, item: bytes, usage: Usage) -> bytes:
    """The answer of `POST /v1/responses/compact`: exactly one compaction item, which is the whole next input."""
    fields = {
        "id": options.response_id,
        "object": "response.compaction",
        "created_at": options.created,
        "output": [msgspec.Raw(item)],
        "usage": usage_object(usage),
    }
    return msgspec.json.encode(fields)
