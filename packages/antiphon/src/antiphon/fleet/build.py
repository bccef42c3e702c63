"""A fleet from the settings."""

from collections.abc import Callable
from random import Random

from antiphon.config import Settings
from antiphon.engines.base import Engine
from antiphon.fleet.connector import NetworkConnector
from antiphon.fleet.fleet import Fleet, FleetOptions
from antiphon.fleet.members import WorkerSource
from antiphon.fleet.migration import MigrationLimits
from antiphon.fleet.select_route import SelectRoutes
from antiphon.kv_snapshot_route import snapshot_of
from antiphon.metrics.fleet_metrics import FleetMetrics
from antiphon.model import Model
from antiphon.router.kv_source import KvIndex
from antiphon.router.router import Router, RouterOptions
from antiphon.simulation.clock import RealClock
from antiphon.workers.cache_publisher import HasCache
from antiphon.workers.card import WorkerCard
from antiphon.workers.directory import WorkerDirectory
from antiphon.workers.local import LOCAL, LocalConnector, WithLocal
from antiphon.workers.probe import Connector
from antiphon.workers.static import StaticDirectory
from antiphon_turns.errors import ConfigError


def has_workers(settings: Settings) -> bool:
    """Whether turns go to workers, and not straight to an engine in this process."""
    return has_remote_workers(settings) or settings.local_worker


def has_remote_workers(settings: Settings) -> bool:
    """Whether there are workers in other processes."""
    return bool(settings.worker_urls) or settings.workers is not None


def build_fleet(settings: Settings, model: Model, *, local: Engine | None = None) -> Fleet:
    """The workers of the settings, and an engine of this process beside them, as one engine for the model. Raises ConfigError."""
    clock = RealClock()
    siblings, key = settings.kv_siblings, settings.api_key
    index = KvIndex(sibling=(lambda: snapshot_of(siblings, key=key)) if siblings else None)
    taken = () if local is None else (LOCAL.name,)
    directory: WorkerDirectory = StaticDirectory(settings.worker_urls, settings.workers, clock=clock, taken=taken)
    connector: Connector = NetworkConnector(model.tokenizer, key=settings.worker_key)
    if local is not None:
        directory, connector = WithLocal(directory), LocalConnector(local_card(settings, model, local), local, connector)
    source = WorkerSource(
        directory,
        connector,
        accept=accepts(model),
        # Other modes do not look at caches, and events nobody reads are not worth a process.
        follower=index if settings.router_mode == "kv" else None,
    )
    router = Router(router_options(settings), clock=clock.now, random=Random(), view=index)
    return Fleet(
        source,
        router=router,
        options=fleet_options(settings),
        clock=clock,
        vocab_size=model.tokenizer.vocab_size,
        metrics=FleetMetrics(model.name),
    )


def local_card(settings: Settings, model: Model, engine: Engine) -> WorkerCard:
    """The card of the engine in this process. Its cache is known from what was sent to it."""
    return WorkerCard(
        kind=settings.engine,
        model=model.name,
        family=model.label,
        context_length=model.context_length,
        block_tokens=engine.cache.block_tokens if isinstance(engine, HasCache) else None,
        constrains=engine.constrains,
        reports_logprobs=engine.reports_logprobs,
    )


def build_router_api(settings: Settings, *, new_id: Callable[[], str]) -> SelectRoutes | None:
    """The router for others, where the settings want it."""
    if not settings.enable_router_api:
        return None
    clock, index = RealClock(), KvIndex()
    router = Router(router_options(settings), clock=clock.now, random=Random(), view=index)
    return SelectRoutes(router, index, clock=clock.now, new_id=new_id, body_limit=settings.max_body_bytes)


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
