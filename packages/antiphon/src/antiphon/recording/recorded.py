"""The format of a recording: a folder of files, one JSON object a line, a line a request. docs/recording.md describes it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import msgspec

from antiphon_turns.errors import ConfigError

VERSION = 1
PREFIX = b'{"recorded":'
"""How every line begins."""
PATTERN = "requests-*.jsonl"
Content = Literal["none", "hash", "full"]
"""What is kept of what was said: nothing, hashes of it, or all."""
NO_BODY = msgspec.Raw()


class RecordedTurn(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One turn of a request. Times in seconds; `calls` say how long behind the first preparation each call was handed out. `said` is the
    model's raw text without its end marker, `prompt_end` the last text of the prompt as the model read it; both are for content "full".
    The ids are there where they were asked for."""

    request_id: str
    stop_reason: str
    prompt_tokens: int
    output_tokens: int
    cached_tokens: int | None = None
    reasoning_tokens: int = 0
    ttft: float | None = None
    queue: float | None = None
    seconds: float = 0.0
    calls: tuple[float, ...] = ()
    worker: str | None = None
    migrations: int = 0
    said: str | None = None
    prompt_end: str | None = None
    prompt_ids: tuple[int, ...] | None = None
    output_ids: tuple[int, ...] | None = None


class RecordedRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One request for a turn. `at` is Unix time in seconds, `duration` the time until its answer, or its turn in the background, was over.
    `head` names system prompt and tools: the same ones have the same name in one process of the server; they are `head_share` of the
    body's bytes. `body` is NO_BODY with content "none", and where it is no JSON."""

    recorded: int
    at: float
    request_id: str | None
    surface: str
    path: str
    client: str
    status: int
    duration: float
    content: Content
    model: str | None = None
    session: str | None = None
    parent: str | None = None
    head: str = ""
    head_share: float = 0.0
    body_bytes: int = 0
    body: msgspec.Raw = NO_BODY
    turns: tuple[RecordedTurn, ...] = ()

    @property
    def output_tokens(self) -> int:
        """Of all its turns."""
        return sum(turn.output_tokens for turn in self.turns)


class _Line(msgspec.Struct, frozen=True):
    recorded: int


def is_recording(path: Path) -> bool:
    """Whether this is a folder, or a file whose first line is a recorded request; what cannot be read is none."""
    if path.is_dir():
        return True
    try:
        with path.open("rb") as file:
            return file.read(len(PREFIX)) == PREFIX
    except OSError:
        return False


def read_recording(path: Path) -> list[RecordedRequest]:
    """The requests of a file, or of all files of a folder, in the order in which they came. A last line that was cut short, as a crash
    leaves it, is passed over. Raises ConfigError naming the line at fault."""
    files = sorted(path.glob(PATTERN)) if path.is_dir() else [path]
    found = [request for file in files for request in _lines(file)]
    if not found:
        raise ConfigError(f"{path} holds no recorded request; `antiphon serve --record {path}` writes them")
    return sorted(found, key=lambda request: request.at)


def _lines(file: Path) -> Iterator[RecordedRequest]:
    try:
        lines = file.read_bytes().split(b"\n")
    except OSError as error:
        raise ConfigError(f"cannot read the recording {file}: {error.strerror}") from error
    whole, rest = lines[:-1], lines[-1]
    for number, line in enumerate([*whole, rest] if _is_whole(rest) else whole, 1):
        if not line.strip():
            continue
        try:
            version = msgspec.json.decode(line, type=_Line).recorded
            if version != VERSION:
                raise ConfigError(f"{file}, line {number}: a recording of version {version}, and this program reads {VERSION}")
            yield msgspec.json.decode(line, type=RecordedRequest)
        except msgspec.MsgspecError as error:
            raise ConfigError(f"{file}, line {number}: {error}; docs/recording.md describes the format") from error


def _is_whole(rest: bytes) -> bool:
    try:
        msgspec.json.decode(rest, type=_Line)
    except msgspec.MsgspecError:
        return False
    return True
