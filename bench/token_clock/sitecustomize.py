"""Writes down when a scripted engine gives out each token, in whatever process has this folder on its PYTHONPATH.

Both scripted engines sleep for one token's time between tokens, and nothing else in their processes sleeps for exactly that
long. BENCH_TOKEN_CLOCK names the file and BENCH_TOKEN_SECONDS the time; every such sleep appends two 64-bit numbers, nanoseconds of the
monotonic clock, which all processes of a machine share: when it was asked for, and when it ended.
"""

import asyncio
import os
import struct
import time
from typing import Any

_PAIR = struct.Struct("<qq")


def _install(path: str, seconds: float) -> None:
    plain = asyncio.sleep
    log = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    async def sleep(delay: float, result: Any = None) -> Any:
        if delay != seconds:
            return await plain(delay, result)
        asked = time.monotonic_ns()
        await plain(delay)
        os.write(log, _PAIR.pack(asked, time.monotonic_ns()))
        return result

    asyncio.sleep = sleep


if "BENCH_TOKEN_CLOCK" in os.environ:
    _install(os.environ["BENCH_TOKEN_CLOCK"], float(os.environ["BENCH_TOKEN_SECONDS"]))
