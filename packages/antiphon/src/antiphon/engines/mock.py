"""The scripted engine: no weights, real tokens, a real prefix cache, simulated time. It plays a model's part for tests, demos and
benchmarks."""

from array import array
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

import msgspec

from antiphon.engines.base import Chunk, Job
from antiphon.engines.mock_batch import BatchRunner
from antiphon.engines.mock_faults import Crash, Fault, troubled
from antiphon.engines.mock_script import Rule, Script, Spoken
from antiphon.engines.mock_seeded import Seeded
from antiphon.simulation.batch import SPARE_PRIORITY, Batch, BatchLimits, Request, retain
from antiphon.simulation.clock import Clock, RealClock
from antiphon.simulation.paged_cache import PagedCache
from antiphon.simulation.timing import PRESETS
from antiphon_tokenizers import Tokenizer
from antiphon_turns import Frame, SampledLogprob, TokenLogprob


class MockOptions(msgspec.Struct, frozen=True, kw_only=True):
    """`chunk_tokens` ids leave at a time, each after `token_delay_ms` of simulated decoding. `speed` names a preset of
    `simulation/timing.py`; with "none" nothing else takes time and every job runs at once. The prefix cache has `cache_blocks`
    blocks of `block_tokens` tokens; with 0 nothing is cached. `kv_events`: the cache's events are kept until they are taken. Where time
    counts, nobody waits much longer than `max_wait` seconds for those of a higher priority. With a `seed` no script is played: each token
    follows from the seed and what was read."""

    chunk_tokens: int = 1
    token_delay_ms: float = 0.0
    speed: str = "none"
    cache_blocks: int = 1 << 16
    block_tokens: int = 16
    fault: Fault | None = None
    kv_events: bool = False
    max_wait: float = 60.0
    seed: int | None = None


class MockEngine:
    """Plays a script. Ignores sampling and grammars; its log probabilities are made up."""

    constrains = False
    reports_logprobs = True

    def __init__(
        self,
        tokenizer: Tokenizer,
        frame: Frame,
        *,
        rules: Sequence[Rule] = (),
        options: MockOptions | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._tokenizer = tokenizer
        self._script = Script(tokenizer, frame, rules)
        self._speak = self._script.speak
        self._seeded = Seeded(tokenizer, options.seed) if options is not None and options.seed is not None else None
        self._options = options = options or MockOptions()
        self._clock = clock or RealClock()
        self.cache = PagedCache(options.cache_blocks, options.block_tokens, clock=self._clock.now, record=options.kv_events)
        timing = PRESETS[options.speed].times(options.fault.slowness if options.fault is not None else 1.0)
        self._batch: BatchRunner | None = None
        if not timing.is_instant:
            limits = BatchLimits(step_tokens=timing.step_tokens, burst=options.chunk_tokens, max_wait=options.max_wait)
            self._batch = BatchRunner(Batch(self.cache, timing, limits), self._clock)
        self._ready = False
        self._crash = Crash()
        self.running = 0

    async def start(self) -> None:
        """Nothing to load. After a crash the cache is empty: it was lost with the process."""
        if self._crash.happened:
            self._crash.happened = False
            self.cache.clear()
        self._ready = True

    async def close(self) -> None:
        """Refuses later jobs and ends those in the batch."""
        self._ready = False
        self._stop()

    def ready(self) -> bool:
        """True between start and close, but for crashes."""
        return self._ready and not self._crash.happened

    def generate(self, job: Job) -> AsyncGenerator[Chunk, None]:
        """Streams the scripted answer; cut at `max_tokens` like a real engine's. Raises WorkerError."""
        chunks = self._at_once(job) if self._batch is None else self._in_batch(job, self._batch)
        fault = self._options.fault
        if fault is None:
            return chunks
        return troubled(fault, chunks, crash=self._crash, vocab_size=self._tokenizer.vocab_size, on_crash=self._stop)

    async def _at_once(self, job: Job) -> AsyncGenerator[Chunk, None]:
        """Every job for itself; only delays take time."""
        request = self._request(job, ())
        prompt = request.prompt_ids
        # The last token is always computed: its logits are what the first answer token is sampled from.
        pages = self.cache.open(prompt[:-1], salt=job.cache_salt, priority=SPARE_PRIORITY if job.prefill_only else job.priority)
        cached: int | None = pages.held_tokens
        room = pages.add(prompt[pages.held_tokens :]) == len(prompt) - (cached or 0)
        ids: list[int] = []
        done = 0
        self.running += 1
        try:
            spoken = self._spoken(job)
            ids, finish, delay = spoken.ids, spoken.finish, self._delay(spoken)
            size, top, sleep = self._options.chunk_tokens, job.sampling.top_logprobs, self._clock.sleep
            queued: float | None = 0.0
            for at in range(0, len(ids), size):
                piece = ids[at : at + size]
                done = at + len(piece)
                await sleep(delay * len(piece))
                logprobs = None if top is None else [self._logprob(token_id, top) for token_id in piece]
                yield Chunk(piece, finish if done == len(ids) else None, cached, logprobs, queued)
                cached = queued = None
            if not ids:
                yield Chunk([], finish, cached, None, queued)
        finally:
            self.running -= 1
            if room:
                pages.add(ids[:done])
            retain(self.cache, request)
            pages.close()

    async def _in_batch(self, job: Job, batch: BatchRunner) -> AsyncGenerator[Chunk, None]:
        """With the others, in steps that take time."""
        self.running += 1
        try:
            spoken = self._spoken(job)
            delay, top = self._delay(spoken), job.sampling.top_logprobs
            async with aclosing(batch.run(self._request(job, spoken.ids))) as arrivals:
                async for sampled, waited in arrivals:
                    if delay:
                        await self._clock.sleep(delay * len(sampled.ids))
                    first = sampled.cached_tokens is not None
                    logprobs = None if top is None else [self._logprob(token_id, top) for token_id in sampled.ids]
                    finish = spoken.finish if sampled.ended else None
                    yield Chunk(list(sampled.ids), finish, sampled.cached_tokens, logprobs, waited if first else None)
        finally:
            self.running -= 1

    def _spoken(self, job: Job) -> Spoken:
        if job.prefill_only:
            return Spoken([], "length")
        if self._seeded is not None:
            return self._seeded.speak(job.prompt_ids, job.max_tokens)
        return self._speak(job.prompt_ids).cut(job.max_tokens)

    def _request(self, job: Job, output_ids: Sequence[int]) -> Request:
        """A job as the simulation knows it."""
        return Request(
            prompt_ids=array("I", job.prompt_ids),
            output_ids=output_ids,
            priority=job.priority,
            salt=job.cache_salt,
            retain_seconds=job.retain_seconds,
            session=job.placement.session or "",
            session_ends=job.placement.session_ends,
            prefill_only=job.prefill_only,
        )

    def _delay(self, spoken: Spoken) -> float:
        """Seconds that each token takes beside the simulated speed."""
        options = self._options
        milliseconds = options.token_delay_ms if spoken.token_delay_ms is None else spoken.token_delay_ms
        return milliseconds / 1000 * (options.fault.slowness if options.fault is not None else 1.0)

    def _stop(self) -> None:
        if self._batch is not None:
            self._batch.stop()

    def _logprob(self, token_id: int, top: int) -> SampledLogprob:
        """Made up from the id, the same every time: the sampled token is the most likely, its neighbours in the vocabulary follow."""
        best = -(token_id % 97 + 1) / 100
        others = ((token_id + step) % self._tokenizer.vocab_size for step in range(top))
        return SampledLogprob(self._one(token_id, best), tuple(self._one(other, best - 0.5 * rank) for rank, other in enumerate(others)))

    def _one(self, token_id: int, logprob: float) -> TokenLogprob:
        return TokenLogprob(self._tokenizer.decode([token_id]), logprob, self._tokenizer.token_bytes(token_id))
