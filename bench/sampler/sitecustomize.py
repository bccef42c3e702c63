"""Put on PYTHONPATH by a benchmark: from SIGUSR2 on it samples the main thread of the process by its own CPU time, and writes at its end
how often which function of which file was running. A function's figure holds what it calls in C."""

import atexit
import os
import signal
from collections import Counter
from pathlib import Path
from types import FrameType

SECONDS = 0.001
_counts: Counter[tuple[str, str]] = Counter()


def _sample(number: int, frame: FrameType | None) -> None:
    if frame is not None:
        _counts[frame.f_code.co_filename, frame.f_code.co_name] += 1


def _begin(number: int, frame: FrameType | None) -> None:
    signal.setitimer(signal.ITIMER_PROF, SECONDS, SECONDS)


def _write(path: str) -> None:
    signal.setitimer(signal.ITIMER_PROF, 0)
    lines = (f"{count}\t{file}\t{function}" for (file, function), count in _counts.most_common())
    Path(path).write_text("\n".join(lines) + "\n", "utf-8")


if wanted := os.environ.get("BENCH_SAMPLES"):
    signal.signal(signal.SIGPROF, _sample)
    signal.signal(signal.SIGUSR2, _begin)
    atexit.register(_write, wanted)
