"""Prompts of simulated sessions, without any token: what two prompts share is known by the runs of blocks that they are made of."""

from array import array
from collections.abc import Sequence

import msgspec
from xxhash import xxh3_64_intdigest

from antiphon.load.trace import PlannedRequest


class Run:
    """Blocks that one session, or one head, has added to a prompt: from block `start` of the prompt on. `hashes` are those of the whole
    prompt up to here, and grow. `reached`: how far any worker has ever computed it."""

    __slots__ = ("hashes", "reached", "start")

    def __init__(self, start: int, hashes: "array[int]") -> None:
        self.start = start
        self.hashes = hashes
        self.reached = start


Path = tuple[tuple[Run, int], ...]
"""Runs from the beginning of a prompt, each with the block at which the next one, or the prompt, goes on."""


class Prompt(msgspec.Struct, frozen=True, kw_only=True):
    """One prompt. `hashes` are those of its whole blocks; `path` leads to the last of them, or `ids` are its tokens. `attainable`:
    tokens that one cache which never forgets would have held of it."""

    tokens: int
    hashes: Sequence[int]
    attainable: int
    path: Path = ()
    ids: Sequence[int] = ()


def reusable(blocks: int, tokens: int, block_tokens: int) -> int:
    """How many tokens of a prompt can come from a cache that holds so many of its blocks: the last token is always computed."""
    return min(blocks, (tokens - 1) // block_tokens) * block_tokens


class _Session:
    def __init__(self, root: str, path: Path, hashes: "array[int]", tokens: int, seed: int) -> None:
        self.root = root
        self.base = path
        self.run = Run(len(hashes), hashes)
        self.tokens = tokens
        self.seed = seed


class BlockPrompts:
    """Prompts of every session under way, in blocks."""

    def __init__(self, block_tokens: int) -> None:
        self.block_tokens = block_tokens
        self._sessions: dict[str, _Session] = {}
        self._members: dict[str, list[str]] = {}
        self._heads: dict[str, Run] = {}
        self._seeds = 0

    def ask(self, request: PlannedRequest) -> Prompt:
        """The prompt of a session's next request."""
        session = self._sessions.get(request.session) or self._begin(request)
        self._grow(session, request.new_tokens)
        return self._prompt(session)

    def answered(self, request: PlannedRequest) -> Prompt:
        """The same with its answer, which the next prompt of the session begins with."""
        session = self._sessions[request.session]
        self._grow(session, request.output_tokens)
        return self._prompt(session)

    def forget(self, root: str) -> None:
        """A tree has ended."""
        for name in self._members.pop(root, ()):
            del self._sessions[name]

    def _prompt(self, session: _Session) -> Prompt:
        size, run = self.block_tokens, session.run
        path = (*session.base, (run, len(run.hashes)))
        held = 0
        for part, end in path:
            held = max(held, min(part.reached, end))
            if part.reached < end:
                break
        attainable = reusable(held, session.tokens, size)
        return Prompt(tokens=session.tokens, hashes=run.hashes[:], attainable=attainable, path=path)

    def _begin(self, request: PlannedRequest) -> _Session:
        parent = self._sessions.get(request.parent) if request.parent is not None else None
        root = parent.root if parent is not None else request.session
        self._seeds += 1
        if parent is not None and request.share == "history":
            whole = parent.tokens // self.block_tokens
            path = (*parent.base, (parent.run, whole))
            session = _Session(root, path, parent.run.hashes[:whole], parent.tokens, self._seeds)
        else:
            head = self._head(request)
            path = ((head, len(head.hashes)),) if head.hashes else ()
            session = _Session(root, path, head.hashes[:], request.head_tokens, self._seeds)
        self._sessions[request.session] = session
        self._members.setdefault(root, []).append(request.session)
        return session

    def _head(self, request: PlannedRequest) -> Run:
        name = f"{request.head or request.session}/{request.head_tokens}"
        run = self._heads.get(name)
        if run is None:
            run = Run(0, array("Q"))
            _extend(run.hashes, request.head_tokens // self.block_tokens, xxh3_64_intdigest(name.encode()))
            if request.head:
                self._heads[name] = run
        return run

    def _grow(self, session: _Session, tokens: int) -> None:
        session.tokens += tokens
        _extend(session.run.hashes, session.tokens // self.block_tokens, session.seed)


def _extend(hashes: "array[int]", length: int, seed: int) -> None:
    """Makes up the missing hashes; each depends on the one before it, and on whose block it is."""
    last = hashes[-1] if hashes else 1337
    for place in range(len(hashes), length):
        last = (last * 0x9E3779B97F4A7C15 + seed * 0xBF58476D1CE4E5B9 + place + 1) & 0xFFFF_FFFF_FFFF_FFFF
        last ^= last >> 29
        hashes.append(last)
