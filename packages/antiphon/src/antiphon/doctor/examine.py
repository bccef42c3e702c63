"""All examinations in order."""

from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing

import msgspec

from antiphon.config import Settings
from antiphon.config_check import conflicts, notes
from antiphon.doctor.finding import Finding, failed, ok, warning
from antiphon.doctor.machine import examine_clock, examine_engine, examine_port, examine_state
from antiphon.doctor.model import examine_file, examine_model
from antiphon.engines.slot_count import memory_bytes
from antiphon.model import Model
from antiphon.serve import build_model, choice_of
from antiphon.simulation.clock import RealClock
from antiphon.workers.card import WorkerCard
from antiphon.workers.cards import connect
from antiphon.workers.directory import WorkerAddress
from antiphon.workers.static import StaticDirectory, parse_feed
from antiphon_turns.errors import AntiphonError, ConfigError


async def examine(settings: Settings, *, now: float) -> AsyncGenerator[Finding, None]:
    """Looks at everything, and changes nothing. `now`: unix time. Raises nothing."""
    for finding in examine_settings(settings):
        yield finding
    model: Model | None = None
    try:
        choice = choice_of(settings)
        found = examine_file(choice.path)
        yield found
        if found.verdict == "ok":
            model = build_model(settings, choice)
    except ConfigError as error:
        yield failed("model", error.message, "see docs/templates.md, or try `antiphon models detect PATH`")
    if model is not None:
        for finding in examine_model(model, settings, memory=memory_bytes()):
            yield finding
    for finding in (examine_engine(settings), examine_port(settings), examine_state(settings), examine_clock(now)):
        yield finding
    async for finding in examine_workers(settings, model):
        yield finding


def examine_settings(settings: Settings) -> Iterator[Finding]:
    """What is wrong with the settings themselves."""
    problems = [problem for problem in conflicts(settings) if not problem.startswith("model_path:")]
    for problem in problems:
        yield failed("settings", problem, "docs/configuration.md has every setting")
    for note in notes(settings):
        says, _, advice = note.partition(": ")
        yield warning("settings", says, advice)
    if not problems:
        yield ok("settings", "nothing excludes anything else")


async def examine_workers(settings: Settings, model: Model | None) -> AsyncGenerator[Finding, None]:
    """Asks each worker for its card. With a model, whether it means the same tokens."""
    if not settings.worker_urls and settings.workers is None:
        return
    try:
        directory = StaticDirectory(settings.worker_urls, settings.workers, clock=RealClock())
    except ConfigError as error:
        yield failed("workers", error.message, "docs/workers.md shows how workers are named")
        return
    async with aclosing(directory.changes()) as changes:
        addresses = await anext(changes)
    if not addresses:
        yield failed("workers", "there is none", "name some with --worker, or in the file of --workers")
    for address in addresses:
        yield await examine_worker(address, settings, model)


async def examine_worker(address: WorkerAddress, settings: Settings, model: Model | None) -> Finding:
    """One worker."""
    name = f"worker {address.name}"
    try:
        feeds = [parse_feed(feed) for feed in address.feeds]
        card, _ = await connect(address, tokenizer=model.tokenizer if model else None, key=settings.worker_key, feeds=feeds)
    except AntiphonError as error:
        says, _, advice = error.message.partition("; ")
        return failed(name, says, advice or f"start it, or take it out; curl {address.url}/health shows whether it is up")
    says = f"{card.kind}, {card.model}, {card.context_length:,} tokens of context"
    for finding in _shortcomings(name, says, card, model):
        return finding
    return ok(name, says)


def _shortcomings(name: str, says: str, card: WorkerCard, model: Model | None) -> Iterator[Finding]:
    if model is not None and card.context_length < model.context_length:
        advice = f"--context-length {card.context_length} here, or a longer one there"
        yield warning(name, f"{says}, and this server promises {model.context_length:,}", advice)
    if not card.feeds:
        yield warning(name, f"{says}; it publishes no KV events, so its cache is guessed", "switch them on (docs/router.md)")


def encoded(findings: list[Finding]) -> bytes:
    """What `--json` prints."""
    return msgspec.json.encode(findings)
