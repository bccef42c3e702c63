"""What may be asked now: planned requests in time, as their sessions allow. Sans-IO; a run over HTTP and a simulation drive the same."""

import heapq
from collections.abc import Iterable, Iterator

from antiphon.load.trace import PlannedRequest, Tree


class Schedule:
    """Trees are taken from `trees` as their time comes, so they may be many; those with arrivals in order of these. `places`: how many
    trees without an arrival are under way at once. `limit`: no more requests than that are given out.

    Every request that `due` gives must be reported to `ended`, once, whatever became of it.
    """

    def __init__(self, trees: Iterable[Tree], *, places: int = 1, limit: int | None = None) -> None:
        self._trees = iter(trees)
        self._coming: Tree | None = next(self._trees, None)
        self._places = places
        self._left = limit
        self._order = 0
        self._ready: list[tuple[float, int, PlannedRequest]] = []
        # By what they wait for, a turn of a session or the end of one; and how many things each still waits for.
        self._blocked: dict[str | tuple[str, int], list[PlannedRequest]] = {}
        self._missing: dict[tuple[str, int], int] = {}
        self._open: dict[str, int] = {}
        self._root: dict[str, str] = {}
        self._closed: list[str] = []
        self.running = 0
        self.given = 0

    @property
    def finished(self) -> bool:
        """Nothing is under way, and nothing comes any more."""
        return not self.running and (self._left == 0 or (self._coming is None and not self._ready))

    def next_time(self) -> float | None:
        """When `due` has something next, as far as is known; None: not before something ends, or never."""
        if self._left == 0:
            return None
        times = [self._ready[0][0]] if self._ready else []
        coming = self._coming
        if coming is not None:
            arrival = coming[0].arrival
            if arrival is not None:
                times.append(arrival)
            elif len(self._open) < self._places:
                times.append(0.0)
        return min(times, default=None)

    def due(self, now: float) -> Iterator[PlannedRequest]:
        """What is to be sent by now."""
        self._admit(now)
        while self._ready and self._ready[0][0] <= now and self._left != 0:
            _, _, request = heapq.heappop(self._ready)
            self.running += 1
            self.given += 1
            if self._left is not None:
                self._left -= 1
            yield request

    def ended(self, request: PlannedRequest, now: float, *, failed: bool = False) -> None:
        """The request's answer is there. Behind one that failed its session ends, with all that waits for its next turns."""
        self.running -= 1
        self._close_turn(request, now, failed=failed)
        self._admit(now)

    def take_closed(self) -> list[str]:
        """Root sessions whose trees have ended since the last call; nothing of them is asked any more."""
        closed, self._closed = self._closed, []
        return closed

    def _admit(self, now: float) -> None:
        while self._coming is not None and self._left != 0:
            first = self._coming[0]
            if first.arrival is None and len(self._open) >= self._places:
                return
            if first.arrival is not None and first.arrival > now:
                return
            self._enter(self._coming, now)
            self._coming = next(self._trees, None)

    def _enter(self, tree: Tree, now: float) -> None:
        root = tree[0].session
        self._open[root] = len(tree)
        for request in tree:
            name, turn = request.session, request.turn
            self._root[name] = root
            needs: list[str | tuple[str, int]] = list(request.waits_for)
            if turn:
                needs.append((name, turn - 1))
            elif request.parent is not None:
                needs.append((request.parent, request.parent_turn))
            if not needs:
                self._push(request, max(request.arrival or 0.0, now))
                continue
            self._missing[name, turn] = len(needs)
            for need in needs:
                self._blocked.setdefault(need, []).append(request)

    def _push(self, request: PlannedRequest, at: float) -> None:
        self._order += 1
        heapq.heappush(self._ready, (at, self._order, request))

    def _close_turn(self, request: PlannedRequest, now: float, *, failed: bool) -> None:
        """Closes a turn, and when it failed every later one that could not be asked any more."""
        todo = [(request, failed)]
        while todo:
            one, lost = todo.pop()
            name = one.session
            self._leave(one)
            events: list[str | tuple[str, int]] = [(name, one.turn)]
            if one.final:
                events.append(name)
            for event in events:
                for waiting in self._blocked.pop(event, ()):
                    place = waiting.session, waiting.turn
                    # A parent goes on without children that failed; nobody goes on behind a turn that was never answered.
                    if lost and event != name:
                        del self._missing[place]
                        self._drop(waiting)
                        todo.append((waiting, True))
                        continue
                    self._missing[place] -= 1
                    if not self._missing[place]:
                        del self._missing[place]
                        self._push(waiting, max(now + waiting.pause, waiting.arrival or 0.0))

    def _drop(self, request: PlannedRequest) -> None:
        """Forgets what else a request waits for."""
        for need in request.waits_for:
            if need in self._blocked:
                self._blocked[need] = [one for one in self._blocked[need] if one is not request]

    def _leave(self, request: PlannedRequest) -> None:
        root = self._root[request.session]
        if request.final:
            del self._root[request.session]
        self._open[root] -= 1
        if not self._open[root]:
            del self._open[root]
            self._closed.append(root)
