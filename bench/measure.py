"""What every benchmark needs: the machine in words, CPU clocks, and tables."""

import os
import platform
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median

import msgspec

# Longer than the longest tick, 10 ms; and more readings than a server at rest, which wakes up ten times a second, can disturb.
_SETTLE_SECONDS = 0.015
_SETTLE_READINGS = 20


class BenchError(Exception):
    """A figure that cannot be trusted or taken; the message says why."""


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """Where and when the figures were taken. `load` is the one-minute load average before the run."""

    cpu: str
    cores: int
    memory_gib: float
    system: str
    python: str
    date: str
    load: float

    def __str__(self) -> str:
        return (
            f"{self.cpu}, {self.cores} cores, {self.memory_gib:.0f} GiB, {self.system}, Python {self.python}, "
            f"{self.date}, load {self.load:.2f} before the run"
        )


def this_machine() -> Machine:
    """Names this machine."""
    return Machine(
        cpu=_cpu_name(),
        cores=os.cpu_count() or 1,
        memory_gib=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30,
        system=f"{platform.system()} {platform.release().partition('-')[0]} {platform.machine()}",
        python=platform.python_version(),
        date=time.strftime("%Y-%m-%d"),
        load=os.getloadavg()[0],
    )


def _cpu_name() -> str:
    info = Path("/proc/cpuinfo")
    if not info.is_file():
        return platform.processor() or platform.machine()
    fields = dict(line.split(":", 1) for line in info.read_text().split("\n\n")[0].splitlines() if ":" in line)
    fields = {key.strip(): value.strip() for key, value in fields.items()}
    name = fields.get("model name", platform.machine())
    return f"{name} (family {fields['cpu family']}, model {fields['model']})" if {"cpu family", "model"} <= set(fields) else name


def cpu_seconds(pid: int) -> float:
    """CPU time of another process so far, ended threads included, once it has come to rest. Raises BenchError elsewhere than on Linux.

    The kernel books a running process only when it leaves its core or at a tick, so the clock is read until it stands still.
    """
    # The kernel's numbering of per-process clocks: the pid's complement above three bits, of which 2 means "scheduler".
    clock = (~pid << 3) | 2
    try:
        before = time.clock_gettime(clock)
        for _ in range(_SETTLE_READINGS):
            time.sleep(_SETTLE_SECONDS)
            now = time.clock_gettime(clock)
            if now == before:
                break
            before = now
        return before
    except (OSError, AttributeError) as error:
        raise BenchError("the CPU time of another process can only be read on Linux; `--only parsers` runs anywhere") from error


def middle(values: Iterable[float]) -> float:
    """The median; 0 of nothing."""
    found = list(values)
    return median(found) if found else 0.0


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table that is readable as it stands. Floats get three significant digits."""
    cells = [list(head), *([_cell(value) for value in row] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(head))]
    lines = [
        "| "
        + " | ".join(cell.rjust(width) if at else cell.ljust(width) for at, (cell, width) in enumerate(zip(row, widths, strict=True)))
        + " |"
        for row in cells
    ]
    rule = "|" + "|".join("-" * (width + 1) + (":" if at else "-") for at, width in enumerate(widths)) + "|"
    return "\n".join([lines[0], rule, *lines[1:]])


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
