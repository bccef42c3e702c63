"""A file that lines are appended to, and that others may move away meanwhile."""

import os
import sys
from pathlib import Path

from antiphon_turns.errors import ConfigError

STANDARD_OUTPUT = Path("-")


class LogFile:
    """`path` "-" is standard output. A file that was moved or removed is made anew with the next lines, so log rotation needs no signal;
    lines are appended, so one that was cut short is simply gone on with. Raises ConfigError for a file that cannot be written."""

    def __init__(self, path: Path, *, what: str, mode: int = 0o640) -> None:
        self._path = path
        self._mode = mode
        self._standard = path == STANDARD_OUTPUT
        try:
            self._fd = sys.stdout.fileno() if self._standard else self._open()
        except OSError as error:
            raise ConfigError(f"cannot write the {what} {path}: {error.strerror or error}") from error

    def write(self, data: bytes) -> None:
        """Appends whole lines. Raises OSError."""
        if not self._standard and self._moved():
            os.close(self._fd)
            self._fd = self._open()
        while data:
            data = data[os.write(self._fd, data) :]

    def close(self) -> None:
        """Closes the file."""
        if not self._standard:
            os.close(self._fd)

    def _open(self) -> int:
        return os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, self._mode)

    def _moved(self) -> bool:
        try:
            there = os.stat(self._path)
        except FileNotFoundError:
            return True
        return not os.path.samestat(there, os.fstat(self._fd))
