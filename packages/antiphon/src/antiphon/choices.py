"""Several turns for one request: `n` over one prompt, or one each over several prompts (legacy Completions)."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

import msgspec

from antiphon.pipeline import Pipeline, Prepared
from antiphon_protocols.choices import ChoiceEvent
from antiphon_turns import ArgumentStreaming, Event, StopReason, TurnEnd, Usage
from antiphon_turns.errors import InternalError

Turn = AsyncGenerator[list[Event], None]
Arrivals = asyncio.Queue[tuple[int, list[Event] | None]]
Merged = AsyncGenerator[list[ChoiceEvent | TurnEnd], None]


def run_choices(
    pipeline: Pipeline,
    prepared: Sequence[Prepared],
    n: int,
    *,
    turn_tag: str,
    request_id: str,
    argument_streaming: ArgumentStreaming | None,
) -> Merged:
    """Batches of events of all turns as they come, each with the index of its choice: `n` for every prompt, in order. First one batch
    with all TurnStarts; last a bare TurnEnd with the usage of all (each prompt counted once). Raises what `Pipeline.run` raises, and
    then ends the other turns; closing it frees the engine."""
    turns = []
    for number in range(len(prepared) * n):
        one = prepared[number // n]
        turns.append(
            pipeline.run(
                _with_seed(one, number % n),
                turn_tag=turn_tag if number == 0 else pipeline.new_tag(),
                request_id=request_id if number == 0 else f"{request_id}-{number}",
                argument_streaming=argument_streaming,
            )
        )
    return _merged(turns, n)


def _with_seed(prepared: Prepared, place: int) -> Prepared:
    """The same seed n times would give the same turn n times."""
    sampling = prepared.prompt.request.sampling
    if place == 0 or sampling.seed is None:
        return prepared
    request = msgspec.structs.replace(prepared.prompt.request, sampling=msgspec.structs.replace(sampling, seed=sampling.seed + place))
    return msgspec.structs.replace(prepared, prompt=msgspec.structs.replace(prepared.prompt, request=request))


async def _merged(turns: Sequence[Turn], n: int) -> Merged:
    openings = [ChoiceEvent(choice, event) for choice, turn in enumerate(turns) for event in await anext(turn)]
    arrived: Arrivals = asyncio.Queue()
    tasks = [asyncio.create_task(_pump(choice, turn, arrived)) for choice, turn in enumerate(turns)]
    ends: dict[int, TurnEnd] = {}
    try:
        yield list(openings)
        running = len(tasks)
        while running:
            choice, batch = await arrived.get()
            if batch is None:
                running -= 1
                await tasks[choice]  # is at its end, and has the error if there was one
                continue
            if batch and isinstance(batch[-1], TurnEnd):
                ends[choice] = batch[-1]
            yield [ChoiceEvent(choice, event) for event in batch]
        if len(ends) < len(turns):
            raise InternalError("a choice has not ended")
        yield [_end([ends[choice] for choice in range(len(turns))], n)]
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for turn in turns:
            await turn.aclose()


async def _pump(choice: int, turn: Turn, arrived: Arrivals) -> None:
    """Moves one turn's batches into the queue, and None behind the last, whatever ends it."""
    try:
        async with aclosing(turn):
            async for batch in turn:
                arrived.put_nowait((choice, batch))
    finally:
        arrived.put_nowait((choice, None))


def _end(ends: Sequence[TurnEnd], n: int) -> TurnEnd:
    first_of_prompt = ends[::n]
    cached = [end.usage.cached_tokens for end in first_of_prompt]
    usage = Usage(
        prompt_tokens=sum(end.usage.prompt_tokens for end in first_of_prompt),
        cached_tokens=None if None in cached else sum(count or 0 for count in cached),
        output_tokens=sum(end.usage.output_tokens for end in ends),
        reasoning_tokens=sum(end.usage.reasoning_tokens for end in ends),
    )
    reason: StopReason = ends[0].stop_reason
    return TurnEnd(reason, usage)
