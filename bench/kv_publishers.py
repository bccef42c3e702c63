"""Engines that publish KV events at a steady rate, in a process of their own: real sockets, real replay, messages made beforehand.

Started by `bench.kv_events`; speaks in lines: it says its feeds as JSON, then takes `go` and `stop` and answers each with the numbers of
the messages published so far and its CPU seconds."""

import argparse
import asyncio
import contextlib
import json
import random
import sys
import time
from collections.abc import Iterator

import msgspec

from antiphon.simulation.cache_events import CacheEvent, Removed, Stored
from antiphon.simulation.kv_wire import encode_batch
from antiphon.workers.kv_publisher import MESSAGE_BLOCKS, KvPublisher

BLOCK = 16
VOCABULARY = 150_000
# Messages of one prompt: 100 of 32 blocks are about 51,000 tokens.
PROMPT_MESSAGES = 100
# Different messages of one engine. Half of their blocks are held at a time.
RING = 4_600
TICK_SECONDS = 0.005


class Engine:
    """One engine: message n stores the blocks of place n of its ring, and removes those that were stored half a ring ago."""

    def __init__(self, seed: int) -> None:
        dice = random.Random(seed)
        names = [tuple(dice.getrandbits(64) for _ in range(MESSAGE_BLOCKS)) for _ in range(RING)]
        self.payloads = [encode_batch(events, block_tokens=BLOCK, at=1.0) for events in _ring(names, dice)]
        self.publisher = KvPublisher(BLOCK)
        self.publisher.start()

    def publish(self, count: int) -> None:
        """So many messages more."""
        for _ in range(count):
            self.publisher.send(self.payloads[self.publisher.next_seq % RING])


def _ring(names: list[tuple[int, ...]], dice: random.Random) -> Iterator[list[CacheEvent]]:
    for place, hashes in enumerate(names):
        parent = names[place - 1][-1] if place % PROMPT_MESSAGES else None
        tokens = tuple(dice.randrange(VOCABULARY) for _ in range(BLOCK * MESSAGE_BLOCKS))
        yield [Stored(hashes, parent, tokens), Removed(names[place - RING // 2])]


async def publish(engines: list[Engine], blocks_per_second: float, running: asyncio.Event) -> None:
    """Publishes while `running` is set; what a late tick has missed, the next one sends."""
    rate = blocks_per_second / MESSAGE_BLOCKS / len(engines)
    while True:
        await running.wait()
        since, sent = time.monotonic(), 0
        while running.is_set():
            due = int((time.monotonic() - since) * rate)
            for engine in engines:
                engine.publish(due - sent)
            sent = due
            await asyncio.sleep(TICK_SECONDS)


async def main() -> None:
    """Until its input ends."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engines", type=int, default=4)
    parser.add_argument("--blocks-per-second", type=float, default=300_000)
    wanted = parser.parse_args()
    engines = [Engine(seed) for seed in range(wanted.engines)]
    say([msgspec.to_builtins(engine.publisher.feed()) for engine in engines])
    running = asyncio.Event()
    work = asyncio.create_task(publish(engines, wanted.blocks_per_second, running))
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        if line == b"go\n":
            running.set()
        else:
            running.clear()
        say({"sent": [engine.publisher.next_seq for engine in engines], "cpu": time.process_time()})
    work.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await work
    for engine in engines:
        engine.publisher.close()


def say(what: object) -> None:
    """One line."""
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main())
