"""`--trace-tokens`: one JSON line a turn with the exact token ids, for replay checks and cache questions."""

from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

import msgspec

from antiphon_turns import StopReason
from antiphon_turns.errors import ConfigError

_FINISH: dict[StopReason, str] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "refusal": "stop",
    "tool_use": "tool",
    "max_tokens": "length",
    "cancelled": "cancelled",
    "error": "error",
}


class TokenRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One turn as the engine saw it. `output_ids` are as sampled, with the end-of-turn id."""

    request_id: str
    session: str | None
    surface: str
    prompt_ids: Sequence[int]
    cached_tokens: int | None
    output_ids: list[int]
    finish: str


def finish_name(reason: StopReason) -> str:
    """The trace's word for a stop reason: stop | tool | length | cancelled | error."""
    return _FINISH[reason]


class TokenTrace:
    """Appends records to a file and flushes each; without a path it does nothing. Raises ConfigError for a file that
    cannot be written."""

    def __init__(self, path: Path | None) -> None:
        try:
            self._file: BinaryIO | None = path.open("ab") if path else None
        except OSError as error:
            raise ConfigError(f"cannot write the token trace {path}: {error.strerror}") from error

    def write(self, record: TokenRecord) -> None:
        """Returns after the line has left this process. Raises OSError when the disk refuses it."""
        if self._file is not None:
            self._file.write(msgspec.json.encode(record, enc_hook=list) + b"\n")
            self._file.flush()

    def close(self) -> None:
        """Closes the file; later writes are ignored."""
        if self._file is not None:
            self._file.close()
            self._file = None
