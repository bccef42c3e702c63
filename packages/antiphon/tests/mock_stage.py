"""The mock engine on a virtual clock, for tests of its time and its failures."""

import asyncio

from antiphon.engines.base import Job
from antiphon.engines.mock import MockEngine, MockOptions
from antiphon.simulation.clock import VirtualClock
from antiphon_turns import Sampling

ORDER = "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"


class Stage:
    """An engine on a virtual clock, and jobs with prompts of a given size."""

    def __init__(self, model, rules=(), **options):
        self.model = model
        self.clock = VirtualClock()
        self.engine = MockEngine(model.tokenizer, model.family.frame, rules=rules, options=MockOptions(**options), clock=self.clock)

    def job(self, *, tokens=0, words=1, seed=0, text=None, **fields):
        head = [(seed * 1000 + number * 7919) % 40000 + 1000 for number in range(tokens)]
        tail = self.model.tokenizer.encode(ORDER.format(text or f"@@REPEAT:{words}@@"), added=True)
        return Job(request_id="r", prompt_ids=head + tail, max_tokens=100_000, sampling=Sampling(), stop_ids=self.model.stop_ids, **fields)

    async def played(self, job, *, after=0.0):
        """Chunks, and the time of each, counted from the submission `after` so many seconds."""
        if after:
            await self.clock.sleep(after)
        begun = self.clock.now()
        return [(self.clock.now() - begun, chunk) async for chunk in self.engine.generate(job)]

    def run(self, *works):
        async def all_of_them():
            await self.engine.start()
            return await asyncio.gather(*works)

        return asyncio.run(self.clock.run(all_of_them()))
