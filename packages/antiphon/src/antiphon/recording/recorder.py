"""`--record`: writes requests and what became of them into a folder, off the event loop, in files of bounded size and number."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from antiphon.observe.observation import Observation, TurnFacts
from antiphon.observe.scribe import Scribe
from antiphon.recording.recorded import PATTERN, VERSION, Content, RecordedRequest, RecordedTurn
from antiphon.recording.redaction import Redaction
from antiphon_turns.errors import ConfigError

# The oldest file goes when all are too large together, so one is an eighth of that.
FILES = 8
# So much of a prompt tells it from others for the mock engine.
PROMPT_END_TOKENS = 256


class Decodes(Protocol):
    """What is needed of a tokenizer."""

    def decode(self, ids: Sequence[int]) -> str:
        """The text of some ids, control tokens visible."""
        ...


class RecordOptions(msgspec.Struct, frozen=True, kw_only=True):
    """`folder` is made where it is missing, for its owner only. At most `max_bytes` are kept there; the oldest file goes first."""

    folder: Path
    content: Content = "hash"
    tokens: bool = False
    max_bytes: int = 1 << 30


class Recorder:
    """See observe.observing.Observer. Raises ConfigError for a folder that cannot be written. `stop_ids` end a turn and are no text."""

    wants_bodies = True
    what = "recording"

    def __init__(
        self, options: RecordOptions, tokenizer: Decodes, *, stop_ids: frozenset[int], random_bytes: Callable[[int], bytes]
    ) -> None:
        if options.tokens and options.content != "full":
            raise ConfigError("--record-tokens writes prompts as token ids, so it needs --record-content full")
        self._options = options
        self._tokenizer = tokenizer
        self._stop_ids = stop_ids
        self._redaction = Redaction(options.content, random_bytes(32))
        self._files = RecordFiles(options.folder, max_bytes=options.max_bytes)
        self._scribe: Scribe[Observation] = Scribe("recording", self._write)

    @property
    def dropped(self) -> int:
        """Requests that were lost."""
        return self._scribe.dropped

    def ended(self, observation: Observation) -> None:
        """See Observer."""
        if observation.surface is not None:
            self._scribe.take(observation, observation.size)

    def close(self) -> None:
        """See Observer."""
        self._scribe.close()
        self._files.close()

    def _write(self, observations: list[Observation]) -> None:
        for observation in observations:
            self._files.write(msgspec.json.encode(self.record(observation)) + b"\n")

    def record(self, observation: Observation) -> RecordedRequest:
        """What is kept of a request."""
        surface, body = observation.surface or "", observation.body
        head, share = self._redaction.head(body, surface)
        first = observation.turns[0] if observation.turns else None
        return RecordedRequest(
            recorded=VERSION,
            at=round(observation.at, 6),
            request_id=observation.request_id,
            surface=surface,
            path=observation.path,
            client=observation.client,
            status=observation.status,
            duration=round(observation.ended - observation.since, 6),
            content=self._options.content,
            model=first.model if first else None,
            session=first.request.session if first else None,
            parent=first.request.parent if first else None,
            head=head,
            head_share=share,
            body_bytes=len(body),
            body=self._redaction.body(body),
            turns=tuple(map(self._turn, observation.turns)),
        )

    def _turn(self, turn: TurnFacts) -> RecordedTurn:
        full, ids = self._options.content == "full", self._options.tokens
        output = list(turn.output_ids)
        said = output[:-1] if output and output[-1] in self._stop_ids else output
        return RecordedTurn(
            request_id=turn.request_id,
            stop_reason=turn.stop_reason,
            prompt_tokens=turn.usage.prompt_tokens,
            cached_tokens=turn.usage.cached_tokens,
            output_tokens=turn.usage.output_tokens,
            reasoning_tokens=turn.usage.reasoning_tokens,
            ttft=turn.ttft,
            queue=turn.queue_seconds,
            seconds=round(turn.ended - turn.since, 6),
            calls=tuple(round(moment - turn.since, 6) for moment in turn.calls),
            worker=turn.worker,
            migrations=turn.migrations,
            said=self._tokenizer.decode(said) if full else None,
            prompt_end=self._prompt_end(turn.prompt_ids) if full else None,
            prompt_ids=tuple(turn.prompt_ids) if ids else None,
            output_ids=tuple(output) if ids else None,
        )

    def _prompt_end(self, prompt_ids: Sequence[int]) -> str:
        text = self._tokenizer.decode(list(prompt_ids[-PROMPT_END_TOKENS:]))
        # Where the first token is the end of a character, that character is not there.
        return text.lstrip("\N{REPLACEMENT CHARACTER}")


class RecordFiles:
    """Files of one process in a folder that several may share. Raises ConfigError at the beginning, OSError later."""

    def __init__(self, folder: Path, *, max_bytes: int) -> None:
        self._folder = folder
        self._max_bytes = max_bytes
        self._number = 0
        self._size = 0
        self._fd: int | None = None
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._open()
        except OSError as error:
            raise ConfigError(f"cannot record into {folder}: {error.strerror}; --record takes a folder") from error

    def write(self, line: bytes) -> None:
        """Appends a line, in a new file where the last one is full."""
        if self._fd is None or (self._size and self._size + len(line) > self._max_bytes // FILES):
            self.close()
            self._open()
        assert self._fd is not None
        self._size += len(line)
        while line:
            line = line[os.write(self._fd, line) :]

    def close(self) -> None:
        """Closes the file."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _open(self) -> None:
        self._trim()
        while True:
            self._number += 1
            path = self._folder / PATTERN.replace("*", f"{os.getpid()}-{self._number:06}")
            try:
                self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            except FileExistsError:
                continue
            self._size = 0
            return

    def _trim(self) -> None:
        """Makes room for one more file."""
        files = []
        for path in self._folder.glob(PATTERN):
            try:
                found = path.stat()
            except FileNotFoundError:  # another process was faster
                continue
            files.append((found.st_mtime_ns, found.st_size, path))
        files.sort()
        room = self._max_bytes - self._max_bytes // FILES
        while files and sum(size for _, size, _ in files) > room:
            files.pop(0)[2].unlink(missing_ok=True)
