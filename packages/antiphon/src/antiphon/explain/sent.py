"""Prompts that were sent, kept for comparison: the last one of each session, and the ids of all."""

from array import array
from collections import OrderedDict
from collections.abc import Sequence
from threading import Lock

import msgspec

from antiphon.explain.prefixes import SentPrefixes, hashes_of
from antiphon_turns import AssistantMessage, CallSegment, Segment, TurnRequest

_ENTRY_BYTES = 2000


class Sent(msgspec.Struct, frozen=True, kw_only=True):
    """One prompt and what was sampled behind it. `model` names all that turns a request into ids: model, template, family.
    `reply` are the sampled segments, empty while the turn runs. `worker` served it. `request_id` once it has ended."""

    request: TurnRequest
    model: str
    ids: Sequence[int]
    output_ids: Sequence[int] = ()
    reply: tuple[Segment, ...] = ()
    worker: str | None = None
    request_id: str = ""


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """Which prompts follow each other. `conversation` is one line of a session: side requests and sub-agents have their own; a
    conversation that begins anew (after a compaction, say) follows the `session`'s main one: the first, and then what followed it."""

    tenant: str
    session: str | None
    conversation: str


class Expectation(msgspec.Struct, frozen=True, kw_only=True):
    """How much of a prompt was sent before. `session`: tokens it shares with the session's previous prompt and its output
    (`previous`); `tenant`: with any prompt of the tenant and its output. `anew`: the session's previous prompt was another conversation;
    `beside`: this prompt does not go on from it. `blocks` are the prompt's chained hashes."""

    prompt_tokens: int
    session: int = 0
    tenant: int = 0
    previous: Sent | None = None
    anew: bool = False
    beside: bool = False
    blocks: tuple[int, ...] = ()

    @property
    def tokens(self) -> int:
        """Tokens that a cache without eviction would hold."""
        return max(self.session, self.tenant)


class SentPrompts:
    """What was sent: the last prompt of each conversation, and the ids of everything. Each has half of the bytes. Safe to share
    between threads."""

    def __init__(self, max_bytes: int) -> None:
        self._max = max_bytes // 2
        self._last: OrderedDict[tuple[str, str], tuple[Sent, int]] = OrderedDict()
        self._main: dict[tuple[str, str], tuple[str, str]] = {}
        self._prefixes = SentPrefixes(max_bytes // 2)
        self._lock = Lock()
        self._bytes = 0

    @property
    def bytes(self) -> int:
        """What both take."""
        return self._bytes + self._prefixes.bytes

    def __len__(self) -> int:
        return len(self._last)

    def latest(self, tenant: str, conversation: str) -> Sent | None:
        """The last prompt of a conversation, if it is still held."""
        with self._lock:
            found = self._last.get((tenant, conversation))
        return found[0] if found else None

    def expect(self, line: Line, ids: Sequence[int]) -> Expectation:
        """What of a prompt was there before, by this tenant."""
        now = _ids(ids)
        blocks = hashes_of(line.tenant, now)
        with self._lock:
            found = self._last.get((line.tenant, line.conversation))
            anew = found is None
            if anew and line.session is not None:
                found = self._last.get(self._main.get((line.tenant, line.session), ("", "")))
            previous = found[0] if found else None
            held = self._prefixes.shared(line.tenant, now, blocks)
        shared = 0
        if previous is not None:
            shared = common_prefix(now, previous.ids)
            if shared == len(previous.ids):
                shared += common_prefix(now[shared:], previous.output_ids)
        return Expectation(
            prompt_tokens=len(now), session=shared, tenant=held, previous=previous, anew=anew and previous is not None, blocks=tuple(blocks)
        )

    def read(self, line: Line, ids: Sequence[int], expectation: Expectation) -> None:
        """An engine has read a prompt: whatever comes of its turn, another prompt may begin like it."""
        with self._lock:
            self._prefixes.add(line.tenant, _ids(ids), expectation.blocks)

    def add(self, line: Line, sent: Sent, expectation: Expectation) -> None:
        """Remembers a prompt with its output; it takes the place of the conversation's previous one."""
        sent = msgspec.structs.replace(sent, ids=_ids(sent.ids), output_ids=_ids(sent.output_ids))
        size = _size(sent)
        held = _ids(sent.ids) + _ids(sent.output_ids)
        blocks = hashes_of(line.tenant, held, expectation.blocks)
        key = line.tenant, line.conversation
        with self._lock:
            self._bytes -= self._last.pop(key, (None, 0))[1]
            if size <= self._max // 2:
                self._last[key] = sent, size
                self._bytes += size
                self._follow(line, key, expectation)
            else:
                self._unfollow(key, sent)
            while self._bytes > self._max:
                self._forget_oldest()
            self._prefixes.add(line.tenant, held, blocks)

    def _follow(self, line: Line, key: tuple[str, str], expectation: Expectation) -> None:
        if line.session is None or expectation.beside:
            return
        session = line.tenant, line.session
        if expectation.anew or session not in self._main:
            self._main[session] = key

    def _unfollow(self, key: tuple[str, str], sent: Sent) -> None:
        session = sent.request.session
        if session is not None and self._main.get((key[0], session)) == key:
            del self._main[key[0], session]

    def _forget_oldest(self) -> None:
        key, (sent, size) = self._last.popitem(last=False)
        self._bytes -= size
        self._unfollow(key, sent)


def _ids(ids: Sequence[int]) -> "array[int]":
    return ids if isinstance(ids, array) else array("I", ids)


def common_prefix(one: Sequence[int], other: Sequence[int]) -> int:
    """How many ids two sequences share from the beginning; linear, at the speed of a memory compare."""
    a, b = _ids(one), _ids(other)
    low, high = 0, min(len(a), len(b))
    if a[:high] == b[:high]:
        return high
    while high - low > 1:
        middle = (low + high) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle
    return low if a[low : low + 1] != b[low : low + 1] else low + 1


def _size(sent: Sent) -> int:
    text = 0
    for message in sent.request.messages:
        if isinstance(message, AssistantMessage):
            text += sum(_length(segment) for segment in message.segments)
        else:
            text += len(message.text)
    text += sum(len(tool.parameters) + len(tool.description or "") for tool in sent.request.tools)
    return 4 * (len(sent.ids) + len(sent.output_ids)) + text + sum(map(_length, sent.reply)) + _ENTRY_BYTES


def _length(segment: Segment) -> int:
    return len(segment.arguments) if isinstance(segment, CallSegment) else len(segment.text)
