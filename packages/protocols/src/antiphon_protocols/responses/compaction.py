"""Compaction: a conversation becomes one opaque item that stands for it in later requests.

Two ways lead here: an input whose last item is a `compaction_trigger` (answered as a response), and `POST /v1/responses/compact`
(answered by an object of its own). Both ask the model for a summary; its visible text is sealed by the caller.
"""

from collections.abc import Callable

import msgspec

from antiphon_protocols import sse
from antiphon_protocols.responses.envelope import Options, Outcome, Status, response_object, usage_object
from antiphon_protocols.responses.errors import failure
from antiphon_protocols.responses.labels import item_id
from antiphon_turns.errors import AntiphonError, InternalError, StreamInterrupted
from antiphon_turns.events import Event, SegmentDelta, SegmentEnd, SegmentStart, TurnEnd, TurnStart, Usage

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
_ENDED = ("end_turn", "tool_use", "stop_sequence", "max_tokens")


class CompactionProjector:
    """The answer to a request that compacts: created, in_progress, one compaction item, completed. Same methods as `Projector`;
    `compacted` is the body of `/responses/compact`. A summary that the limit has cut is kept as far as it goes."""

    def __init__(self, options: Options, seal_text: SealText) -> None:
        self._options = options
        self._seal_text = seal_text
        self._number = 0
        self._tag = ""
        self._kind = ""
        self._texts: list[str] = []
        self._output: list[bytes] = []
        self._outcome = Outcome()
        self._over = False

    @property
    def failed(self) -> bool:
        """Whether the response has failed."""
        return self._outcome.status == "failed"

    def push(self, event: Event) -> bytes:
        """The wire events for one turn event, framed; b"" if none are due."""
        return _framed(self.push_events(event))

    def push_events(self, event: Event) -> list[bytes]:
        """The same without framing."""
        if self._over:
            return []
        match event:
            case SegmentStart():
                self._kind = event.kind
            case SegmentDelta() if self._kind == "text":
                self._texts.append(event.text)
            case SegmentEnd() if self._kind == "text":
                self._texts.append("\n")
            case TurnStart():
                return self._turn_start(event)
            case TurnEnd() if event.stop_reason in _ENDED:
                return self._turn_end(event)
            case _:
                pass
        return []

    def fail(self, error: AntiphonError) -> bytes:
        """The terminal event of a response that failed; nothing may follow it."""
        return _framed(self.fail_events(error))

    def fail_events(self, error: AntiphonError) -> list[bytes]:
        """The same without framing."""
        if self._over:
            return []
        self._outcome = Outcome(status="failed", error=failure(error))
        self._over = True
        return [self._response_event("failed")]

    def keepalive(self) -> bytes:
        """An event that says nothing; a fresh one each time."""
        return _framed(self.keepalive_events())

    def keepalive_events(self) -> list[bytes]:
        """The same without framing."""
        return [self._event("keepalive", b"")]

    def body(self) -> bytes:
        """The response object. Raises InternalError before TurnEnd or `fail`."""
        if not self._over:
            raise InternalError("the turn has not ended")
        return self.snapshot()

    def compacted(self) -> bytes:
        """The answer of `/responses/compact`. Raises InternalError before TurnEnd, StreamInterrupted if there is no summary."""
        if not self._over or self._outcome.usage is None:
            raise InternalError("the turn has not ended")
        if not self._output:
            raise _NOTHING
        return compaction_body(self._options, self._output[0], self._outcome.usage)

    def snapshot(self, status: Status | None = None) -> bytes:
        """The response as it stands. `status` replaces its own."""
        outcome = self._outcome if status is None else msgspec.structs.replace(self._outcome, status=status)
        return response_object(self._options, outcome, self._output)

    def output(self) -> list[msgspec.Raw]:
        """The finished item, as a store keeps it."""
        return [msgspec.Raw(item) for item in self._output]

    def _event(self, name: str, rest: bytes) -> bytes:
        number = self._number
        self._number = number + 1
        return b'{"type":"%b","sequence_number":%d%b%b}' % (name.encode(), number, b"," if rest else b"", rest)

    def _response_event(self, name: str) -> bytes:
        return self._event(f"response.{name}", b'"response":' + self.snapshot())

    def _turn_start(self, event: TurnStart) -> list[bytes]:
        self._tag = event.turn_tag
        if not self._options.model:
            self._options = msgspec.structs.replace(self._options, model=event.model)
        return [self._response_event("created"), self._response_event("in_progress")]

    def _turn_end(self, event: TurnEnd) -> list[bytes]:
        self._over = True
        text = "".join(self._texts).strip()
        if not text:
            self._outcome = Outcome(status="failed", error=failure(_NOTHING), usage=event.usage)
            return [self._response_event("failed")]
        item = compaction_item(self._tag, text, self._seal_text)
        self._output.append(item)
        self._outcome = Outcome(status="completed", usage=event.usage)
        place = b'"output_index":0,"item":' + item
        return [
            self._event("response.output_item.added", place),
            self._event("response.output_item.done", place),
            self._response_event("completed"),
        ]


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


def _framed(payloads: list[bytes]) -> bytes:
    return b"".join(sse.event(_name(payload), payload) for payload in payloads)


def _name(payload: bytes) -> str:
    """The event's name, which every payload begins with."""
    return payload[len(b'{"type":"') : payload.index(b'"', len(b'{"type":"'))].decode()
