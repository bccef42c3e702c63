"""The router: which worker gets which job, and which job waits. No sockets, no tasks; time and chance are passed in."""

from collections import OrderedDict
from collections.abc import Callable
from random import Random
from typing import Literal

import msgspec

from antiphon.router.affinity import home_of_place, place_of
from antiphon.router.ask import Answer, Ask, Placed, Queued, Reason, Refused, RefusedBecause, Released, TargetLoad, WorkerInfo
from antiphon.router.cost import CostWeights
from antiphon.router.order import LoadOrders
from antiphon.router.policy import cheapest, cheapest_of_all, least_loaded, lesser_of_two, longest_unchosen
from antiphon.router.sight import KvView, Sight, Sights, credits_of, worths
from antiphon.router.targets import Running, Target, target_name
from antiphon.router.waiting import ANYBODY, Group, WaitingAsks
from antiphon_turns import RouterMode

_BLOCK_OF_WEIGHTS = 16


class RouterOptions(msgspec.Struct, frozen=True, kw_only=True):
    """`affinity`: soft makes a session's worker cheaper in mode kv, strict sends it nowhere else while it is there. `group_children`:
    a session with a parent belongs where its parent does. Asks wait while every worker that could has more than `queue_threshold`
    times its `batch_tokens` to compute (None: nothing waits); at most `queue_limit` of them. After `strict_seconds` a waiting ask goes
    before all strict priorities. Predictions live `live_seconds` where events come, else `predicted_seconds`."""

    mode: RouterMode = "kv"
    weights: CostWeights = CostWeights()
    affinity: Literal["off", "soft", "strict"] = "soft"
    group_children: bool = False
    queue_threshold: float | None = 1.0
    queue_limit: int = 1024
    strict_seconds: float = 60.0
    live_seconds: float = 5.0
    predicted_seconds: float = 120.0


class Router:
    """Every method is synchronous, and may be called from one thread only. `view`: what engines have told
    of their caches. What leaves the queue comes out of the call that made room, with the placement already counted."""

    def __init__(self, options: RouterOptions, *, clock: Callable[[], float], random: Random, view: KvView | None = None) -> None:
        self._options = options
        self._clock = clock
        self._random = random
        self._targets: dict[str, list[Target]] = {}
        self._open: list[Target] = []
        self._room: set[str] = set()
        self._eligible: dict[Group, list[Target]] = {}
        self._turns: OrderedDict[str, Target] = OrderedDict()
        self._homes: dict[int, str | None] = {}
        self._running: dict[str, Running] = {}
        self._waiting = WaitingAsks(options.queue_limit, strict_seconds=options.strict_seconds)
        self._sights = Sights(view, clock=clock, live_seconds=options.live_seconds, predicted_seconds=options.predicted_seconds)
        self._orders = LoadOrders(options.weights.prefill_scale, bits=self._sights.bits)
        self._choices = 0

    # -- workers

    def join(self, info: WorkerInfo) -> list[Released]:
        """A worker is there, available. One that was there already has started anew: what was predicted of its cache is forgotten."""
        self._forget(info.name)
        threshold = self._options.queue_threshold
        full_at = float("inf") if threshold is None else threshold * info.batch_tokens
        self._targets[info.name] = [
            Target(name=target_name(info.name, rank, info.ranks), info=info, rank=rank, full_at=full_at) for rank in range(info.ranks)
        ]
        return self._members_changed()

    def leave(self, name: str) -> list[Released]:
        """A worker is gone for good. Its jobs are counted until they are done."""
        self._forget(name)
        self._targets.pop(name, None)
        return self._members_changed()

    def set_available(self, name: str, *, available: bool) -> list[Released]:
        """Whether the worker gets anything new: not while it is unwell or draining."""
        changed = False
        for target in self._targets.get(name, ()):
            changed = changed or target.available != available
            target.available = available
        return self._members_changed() if changed else []

    def lost_cache(self, name: str) -> None:
        """A worker holds nothing any more, as after a restart."""
        self._forget(name)

    # -- jobs

    def ask(self, ask: Ask) -> Answer:
        """Places the job, queues it, or refuses it. Raises ValueError for a key that is in use."""
        if ask.key in self._running or ask.key in self._waiting:
            raise ValueError(f"the key {ask.key!r} is in use")
        group = self._group(ask)
        eligible = self._eligible_for(group)
        if not eligible:
            return self._nobody(ask, group)
        if self._has_room(group, ask.priority):
            return self._place(ask, group, waited=0.0)
        if ask.optional:
            return _refused(ask, "optional", "every worker is busy, and this job does not wait", 1.0)
        ahead = len(self._waiting)
        if self._waiting.push(ask, group):
            return Queued(key=ask.key, ahead=ahead)
        return _refused(ask, "full", f"{ahead} requests wait for a worker already; come back in a moment", 2.0)

    def select(self, ask: Ask) -> Placed | Refused:
        """Where the job would run if it came now and did not have to wait. Changes nothing and counts nothing."""
        group = self._group(ask)
        if not self._eligible_for(group):
            return self._nobody(ask, group)
        target, reason, _, held = self._pick(ask, group)
        return Placed(key=ask.key, worker=target.info.name, rank=target.rank, reason=reason, cached_tokens=held)

    def prefilled(self, key: str) -> list[Released]:
        """The job's first token is there. Unknown keys and second calls change nothing."""
        running = self._running.get(key)
        if running is None or not running.prefill:
            return []
        running.prefilled()
        self._orders.mark(running.target)
        return self._made_room(running.target)

    def progressed(self, key: str, tokens: int) -> None:
        """So many more tokens of the job have come."""
        running = self._running.get(key)
        if running is not None and running.progressed(tokens):
            self._orders.mark(running.target)

    def done(self, key: str) -> list[Released]:
        """The job is over, however it ended, or waits no longer. Unknown keys change nothing."""
        running = self._running.pop(key, None)
        if running is None:
            self._waiting.remove(key)
            return []
        running.end()
        self._orders.mark(running.target)
        return self._made_room(running.target)

    # -- to be read

    def loads(self) -> list[TargetLoad]:
        """Every target's load."""
        return [target.load() for targets in self._targets.values() for target in targets]

    @property
    def queued(self) -> int:
        """How many asks wait."""
        return len(self._waiting)

    @property
    def in_flight(self) -> int:
        """How many placed jobs are not done."""
        return len(self._running)

    def held_tokens(self, ask: Ask) -> dict[str, int]:
        """What each available target is believed to hold of the prompt, in tokens. Decides nothing."""
        seen = {sight.block_tokens: sight for sight in self._sights.of(ask)}
        return {target.name: seen[target.info.block_tokens].held_tokens(target.name) for target in self._open}

    # -- who could

    def _members_changed(self) -> list[Released]:
        self._open = [target for targets in self._targets.values() for target in targets if target.available]
        self._room = {target.name for target in self._open if target.has_room()}
        self._sights.keep_sizes({targets[0].info.block_tokens for targets in self._targets.values()})
        self._orders.fill(self._open)
        self._turns = OrderedDict((target.name, target) for target in sorted(self._open, key=lambda target: target.last_chosen))
        self._eligible.clear()
        self._homes.clear()
        released: list[Released] = []
        for ask in self._waiting.take_all():
            group = self._group(ask)
            if self._eligible_for(group):
                self._waiting.push(ask, group)
            else:
                released.append(self._nobody(ask, group))
        return released + self._release()

    def _forget(self, name: str) -> None:
        for target in self._targets.get(name, ()):
            self._sights.forget(target.name)

    def _group(self, ask: Ask) -> Group:
        wish = ask.placement.wish
        if not (ask.needs_grammar or wish.worker or wish.rank is not None or ask.exclude or self._options.affinity == "strict"):
            return ANYBODY
        known = frozenset(name for name in ask.exclude if name in self._targets)
        group = Group(ask.needs_grammar, wish.worker, wish.rank, known)
        if self._options.affinity != "strict" or wish.worker is not None:
            return group
        home = self._home(ask)
        at_home = group._replace(home=home)
        # A home that is excluded, or cannot do the job, is none.
        return at_home if home is not None and self._eligible_for(at_home) else group

    def _home(self, ask: Ask) -> str | None:
        placement = ask.placement
        session = placement.parent if self._options.group_children and placement.parent else placement.session
        if session is None or self._options.affinity == "off":
            return None
        place = place_of(session)
        if place not in self._homes:
            self._homes[place] = home_of_place(place, (target.name for target in self._open))
        return self._homes[place]

    def _eligible_for(self, group: Group) -> list[Target]:
        if group == ANYBODY:
            return self._open
        found = self._eligible.get(group)
        if found is None:
            found = [target for target in self._open if _fits(target, group)]
            # Wishes are the clients' to invent: of those that nobody fulfils there is no end.
            if found:
                self._eligible[group] = found
        return found

    def _has_room(self, group: Group, priority: int) -> bool:
        if group == ANYBODY and self._room:
            return True
        return any(target.name in self._room or target.has_room(priority) for target in self._eligible_for(group))

    def _nobody(self, ask: Ask, group: Group) -> Refused:
        everybody = [target for targets in self._targets.values() for target in targets]
        if group.worker is not None and group.worker not in self._targets:
            return _refused(ask, "unfit", f"no worker is called {group.worker!r}; leave the wish out", 0.0)
        possible = [target for target in everybody if _fits(target, group._replace(exclude=frozenset()))]
        if everybody and not possible:
            what = "keeps to a grammar" if group.grammar else f"has rank {group.rank}"
            return _refused(ask, "unfit", f"no worker {what} as this request needs", 0.0)
        if group.worker is not None:
            return _refused(ask, "nobody", f"worker {group.worker!r} takes nothing now; leave the wish out, or come back in a moment", 5.0)
        return _refused(ask, "nobody", "no worker can take this request now; come back in a moment", 5.0)

    # -- which of them

    def _release(self) -> list[Released]:
        released: list[Released] = []
        while len(self._waiting):
            now = self._clock()
            found = self._waiting.pop(now, self._has_room)
            if found is None:
                break
            group, ask = found
            released.append(self._place(ask, group, waited=now - ask.arrival))
        return released

    def _place(self, ask: Ask, group: Group, *, waited: float) -> Placed:
        target, reason, sight, held = self._pick(ask, group)
        if sight is not None:
            self._sights.predict(target.name, sight)
        self._choices += 1
        target.last_chosen = self._choices
        self._turns.move_to_end(target.name)
        # An optional job gives way to every other one, so it is nobody's load.
        weight = 0 if ask.optional else ask.prompt_tokens
        prefill = max(weight - held, 0)
        running = Running(target=target, prompt_tokens=weight, prefill=prefill, osl=ask.placement.osl, priority=ask.priority)
        running.begin()
        self._orders.mark(target)
        self._running[ask.key] = running
        self._note_room(target)
        return Placed(key=ask.key, worker=target.info.name, rank=target.rank, reason=reason, cached_tokens=held, waited=waited)

    def _pick(self, ask: Ask, group: Group) -> tuple[Target, Reason, Sight | None, int]:
        """The target, why, what is known of the prompt in its blocks, and how many tokens it holds."""
        mode = ask.placement.wish.mode or self._options.mode
        sights = self._sights.of(ask) if mode == "kv" else []
        target, reason = self._choose(ask, self._eligible_for(group), mode, sights)
        if group.worker is not None or group.rank is not None:
            reason = "wish"
        elif group.home is not None:
            reason = "session"
        sight = next((sight for sight in sights if sight.block_tokens == target.info.block_tokens), None)
        held = min(sight.held_tokens(target.name), ask.prompt_tokens - 1) if sight is not None else 0
        return target, reason, sight, held

    def _choose(self, ask: Ask, eligible: list[Target], mode: RouterMode, sights: list[Sight]) -> tuple[Target, Reason]:
        everybody = eligible is self._open
        if mode == "round-robin":
            return next(iter(self._turns.values())) if everybody else longest_unchosen(eligible), mode
        if mode == "random":
            return self._random.choice(eligible), mode
        weights = self._options.weights
        if mode == "least-loaded":
            return self._orders.of(0).least() if everybody and weights.prefill_scale == 1 else least_loaded(eligible), mode
        if mode == "power-of-two":
            return lesser_of_two(eligible, self._random), mode
        known = worths(sights, weights)
        home = self._home(ask) if self._options.affinity == "soft" else None
        scale = weights.prefill_scale
        bonus = weights.affinity * _BLOCK_OF_WEIGHTS * scale
        # A credit above 1 could be worth more than the prompt, and then the least loaded is not always best.
        if everybody and weights.device_credit <= 1:
            order = self._orders.of(ask.priority)
            chosen = cheapest_of_all(order, ask.prompt_tokens, known, prefill_scale=scale, home=home, bonus=bonus)
            return chosen, "cache" if any(worth and chosen.name in holders for worth, holders in known) else "load"
        credits = credits_of(known)
        chosen = cheapest(eligible, ask.prompt_tokens, credits, prefill_scale=scale, home=home, bonus=bonus, priority=ask.priority)
        return chosen, "cache" if credits.get(chosen.name) else "load"

    def _made_room(self, target: Target) -> list[Released]:
        self._note_room(target)
        return self._release() if len(self._waiting) else []

    def _note_room(self, target: Target) -> None:
        # A target that has left, or was replaced, has its old jobs still and is nobody's to choose.
        if not target.available or target not in self._targets.get(target.info.name, ()):
            return
        if target.has_room():
            self._room.add(target.name)
        else:
            self._room.discard(target.name)


def _fits(target: Target, group: Group) -> bool:
    info = target.info
    return (
        (info.constrains or not group.grammar)
        and (group.worker is None or info.name == group.worker)
        and (group.rank is None or target.rank == group.rank)
        and info.name not in group.exclude
        and (group.home is None or target.name == group.home)
    )


def _refused(ask: Ask, because: RefusedBecause, message: str, retry_after: float) -> Refused:
    return Refused(key=ask.key, because=because, message=message, retry_after=retry_after)
