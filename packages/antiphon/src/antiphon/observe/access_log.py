"""`--access-log`: one JSON line a request. Never a key (but its name), a header's value, a query or a word of what was said."""

from datetime import UTC, datetime
from pathlib import Path

import msgspec

from antiphon.observe.log_file import LogFile
from antiphon.observe.observation import Observation
from antiphon.observe.scribe import Scribe

_MOST_TEXT = 200
_LINE_BYTES = 512


class AccessLine(msgspec.Struct, frozen=True, kw_only=True):
    """One request. `time`: when it came. Times in seconds: `duration` until the last byte of its answer, for one in the background until
    the end of its turn; `ttft` until the first sampled token. What is not known is null: tokens and the fields around them where no turn
    ran, `cached_tokens` where the engine did not say. With several choices tokens are summed, and the rest is the first one's.
    `status` 499: the client went away before there was an answer."""

    time: str
    request_id: str | None
    method: str
    path: str
    status: int
    duration: float
    client: str
    key: str | None = None
    surface: str | None = None
    model: str | None = None
    session: str | None = None
    parent: str | None = None
    stream: bool | None = None
    stop_reason: str | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None
    calls: int | None = None
    ttft: float | None = None
    queue: float | None = None
    worker: str | None = None
    migrations: int | None = None


def access_line(observation: Observation) -> AccessLine:
    """What the log says of a request."""
    at = datetime.fromtimestamp(observation.at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    line = AccessLine(
        time=at,
        request_id=observation.request_id,
        method=observation.method,
        path=observation.path[:_MOST_TEXT],
        status=observation.status,
        duration=round(observation.ended - observation.since, 6),
        client=observation.client,
        key=observation.key,
        surface=observation.surface,
    )
    if not observation.turns:
        return line
    first, usages = observation.turns[0], [turn.usage for turn in observation.turns]
    cached = [usage.cached_tokens for usage in usages]
    return msgspec.structs.replace(
        line,
        model=first.model,
        session=_bounded(first.request.session),
        parent=_bounded(first.request.parent),
        stream=first.request.stream,
        stop_reason=first.stop_reason,
        prompt_tokens=sum(usage.prompt_tokens for usage in usages),
        cached_tokens=None if None in cached else sum(count or 0 for count in cached),
        output_tokens=sum(usage.output_tokens for usage in usages),
        reasoning_tokens=sum(usage.reasoning_tokens for usage in usages),
        calls=sum(len(turn.calls) for turn in observation.turns),
        ttft=None if first.ttft is None else round(first.ttft, 6),
        queue=None if first.queue_seconds is None else round(first.queue_seconds, 6),
        worker=first.worker,
        migrations=sum(turn.migrations for turn in observation.turns),
    )


def _bounded(text: str | None) -> str | None:
    return None if text is None else text[:_MOST_TEXT]


class AccessLog:
    """See observing.Observer. Raises ConfigError for a file that cannot be written."""

    wants_bodies = False
    what = "access log"

    def __init__(self, path: Path) -> None:
        self._file = LogFile(path, what="access log")
        self._scribe: Scribe[AccessLine] = Scribe("access log", self._write)

    @property
    def dropped(self) -> int:
        """Lines that were lost."""
        return self._scribe.dropped

    def ended(self, observation: Observation) -> None:
        """See Observer."""
        self._scribe.take(access_line(observation), _LINE_BYTES)

    def close(self) -> None:
        """See Observer."""
        self._scribe.close()
        self._file.close()

    def _write(self, lines: list[AccessLine]) -> None:
        if lines:
            self._file.write(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
