"""A fleet from the settings."""

from collections.abc import Callable
from random import Random

from antiphon.config import Settings
from antiphon.fleet.connector import NetworkConnector
from antiphon.fleet.fleet import Fleet, FleetOptions
from antiphon.fleet.members import WorkerSource
from antiphon.fleet.migration import MigrationLimits
from antiphon.metrics.fleet_metrics import FleetMetrics
from antiphon.model import Model
from antiphon.router.kv_source import KvIndex
from antiphon.router.router import Router, RouterOptions
from antiphon.simulation.clock import RealClock
from antiphon.workers.card import WorkerCard
from antiphon.workers.static import StaticDirectory
from antiphon_turns.errors import ConfigError


def has_workers(settings: Settings) -> bool:
    """Whether turns go to workers, and not to an engine in this process."""
    return bool(settings.worker_urls) or settings.workers is not None


def build_fleet(settings: Settings, model: Model) -> Fleet:
    """The workers of the settings as one engine for the model. Raises ConfigError."""
    clock = RealClock()
    index = KvIndex()
    source = WorkerSource(
        StaticDirectory(settings.worker_urls, settings.workers, clock=clock),
        NetworkConnector(model.tokenizer, key=settings.worker_key),
        accept=accepts(model),
        follower=index,
    )
    router = Router(router_options(settings), clock=clock.now, random=Random(), view=index)
    return Fleet(
        source, router=router, options=fleet_options(settings), clock=clock, vocab_size=model.tokenizer.vocab_size, metrics=FleetMetrics()
    )


def router_options(settings: Settings) -> RouterOptions:
    """The router's part of the settings."""
    return RouterOptions(
        mode=settings.router_mode,
        affinity=settings.router_affinity,
        group_children=settings.router_group_children,
        queue_threshold=settings.router_queue_threshold or None,
        queue_limit=settings.router_queue_limit,
    )


def fleet_options(settings: Settings) -> FleetOptions:
    """The fleet's part of the settings."""
    return FleetOptions(
        first_token_seconds=settings.worker_first_token_seconds,
        token_seconds=settings.worker_token_seconds,
        migration=MigrationLimits(moves=settings.migration_limit, tokens=settings.migration_max_tokens),
    )


def accepts(model: Model) -> Callable[[WorkerCard], None]:
    """Raises ConfigError for the card of a worker that cannot serve the model as this frontend promises it."""

    def accept(card: WorkerCard) -> None:
        if card.context_length < model.context_length:
            raise ConfigError(
                f"its context has {card.context_length} tokens, and this frontend promises {model.context_length}; start the frontend"
                f" with --context-length {card.context_length}, or the worker with more"
            )

    return accept
