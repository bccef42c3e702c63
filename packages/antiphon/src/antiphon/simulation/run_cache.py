"""A worker's prefix cache for simulations of many: it counts blocks by runs instead of holding each. What it finds and what it evicts is
what `paged_cache.py` does, but that it knows no pins."""

import heapq
from collections.abc import Sequence
from typing import Protocol

from antiphon.simulation.prompts import Path, Run


class CacheListener(Protocol):
    """Told of blocks that a cache holds, or holds no longer."""

    def stored(self, hashes: Sequence[int]) -> None:
        """Blocks that follow each other."""
        ...

    def removed(self, hashes: Sequence[int]) -> None:
        """Blocks that are gone."""
        ...


class _Node:
    """The beginning of a run, up to block `end` of its prompts. It stays while a sequence ends in it (`refs`), and as far as others go on
    from it."""

    __slots__ = ("children", "end", "parent", "priority", "refs", "run", "used")

    def __init__(self, run: Run, parent: "_Node | None") -> None:
        self.run = run
        self.parent = parent
        self.end = run.start
        self.children: set[_Node] = set()
        self.refs = 0
        self.used = 0
        self.priority = 0

    @property
    def floor(self) -> int:
        """How far down it may be evicted."""
        return max((child.run.start for child in self.children), default=self.run.start)


class HeldPath:
    """A running sequence's hold on its blocks. `blocks` of its path are in the cache."""

    __slots__ = ("blocks", "loose", "node", "path", "priority")

    def __init__(self, path: Path, priority: int) -> None:
        self.path = path
        self.priority = priority
        self.node: _Node | None = None
        self.blocks = 0
        self.loose = 0


class RunCache:
    """`total_blocks` blocks. The least recently used go first, ends before beginnings, of the lowest priority first."""

    def __init__(self, total_blocks: int, listener: CacheListener | None = None) -> None:
        self.total_blocks = total_blocks
        self._listener = listener
        self._nodes: dict[Run, _Node] = {}
        self._evictable: list[tuple[int, int, int, _Node]] = []
        self._order = 0
        self._tick = 0
        self._held = 0
        self._loose = 0
        self.evicted = 0

    @property
    def used_blocks(self) -> int:
        """Findable blocks and partly filled ones of running sequences."""
        return self._held + self._loose

    def match(self, path: Path) -> int:
        """How many blocks of a path are held."""
        return self._find(path)[1]

    def open(self, path: Path, *, most: int, priority: int = 0) -> HeldPath:
        """Holds what is there of a path, at most so many blocks."""
        held = HeldPath(path, priority)
        node, depth = self._find(path)
        held.blocks = min(depth, most)
        # The hold is on the node in which the wanted beginning ends.
        while node is not None and node.run.start >= held.blocks:
            node = node.parent
        self._hold(held, node)
        return held

    def store(self, held: HeldPath, blocks: int, *, loose: int = 0) -> bool:
        """The sequence has computed its first `blocks` blocks, and `loose` (0 or 1) that is partly filled. False: there is no room; what
        found room is stored."""
        self._loose += loose - held.loose
        held.loose = loose
        for run, end in held.path:
            goal = min(end, blocks)
            if goal > held.blocks and not self._store_run(held, run, goal):
                return False
            if end >= blocks:
                break
        return self.used_blocks <= self.total_blocks or self._evict(self.used_blocks - self.total_blocks)

    def close(self, held: HeldPath) -> None:
        """The sequence is gone; its blocks stay until they are evicted."""
        self._loose -= held.loose
        held.loose = 0
        node = held.node
        if node is not None:
            node.refs -= 1
            self._tick += 1
            node.used = self._tick
            self._offer(node)
        held.node, held.blocks = None, 0

    def room(self) -> bool:
        """Whether one more block can be had."""
        return self.used_blocks < self.total_blocks or self._victim() is not None

    def _find(self, path: Path) -> tuple[_Node | None, int]:
        last, depth = None, 0
        for run, end in path:
            node = self._nodes.get(run)
            if node is None:
                break
            if node.end > depth:
                last, depth = node, min(node.end, end)
            if node.end < end:
                break
        return last, depth

    def _hold(self, held: HeldPath, node: _Node | None) -> None:
        if node is held.node:
            return
        if node is not None:
            node.refs += 1
            node.priority = max(node.priority, held.priority)
        if held.node is not None:
            held.node.refs -= 1
            self._offer(held.node)
        held.node = node

    def _store_run(self, held: HeldPath, run: Run, goal: int) -> bool:
        node = self._nodes.get(run)
        if node is None:
            node = self._nodes[run] = _Node(run, held.node)
            node.priority = held.priority
            if held.node is not None:
                held.node.children.add(node)
        self._hold(held, node)
        whole = True
        if node.end < goal:
            missing = goal - node.end - (self.total_blocks - self.used_blocks)
            if missing > 0 and not self._evict(missing):
                goal = min(goal, max(node.end + self.total_blocks - self.used_blocks, node.end))
                whole = False
            self._held += goal - node.end
            if self._listener is not None and goal > node.end:
                self._listener.stored(run.hashes[node.end : goal])
            node.end = goal
            run.reached = max(run.reached, goal)
        held.blocks = max(held.blocks, goal)
        return whole

    def _offer(self, node: _Node) -> None:
        if node.refs == 0 and node.end > node.floor:
            self._order += 1
            heapq.heappush(self._evictable, (node.priority, node.used, self._order, node))
            if len(self._evictable) > 4 * len(self._nodes) + 64:
                self._evictable = [entry for entry in self._evictable if self._is_candidate(entry)]
                heapq.heapify(self._evictable)

    def _is_candidate(self, entry: tuple[int, int, int, _Node]) -> bool:
        node = entry[3]
        return node.refs == 0 and node.used == entry[1] and node.end > node.floor and self._nodes.get(node.run) is node

    def _victim(self) -> _Node | None:
        while self._evictable:
            if self._is_candidate(self._evictable[0]):
                return self._evictable[0][3]
            heapq.heappop(self._evictable)
        return None

    def _evict(self, blocks: int) -> bool:
        """Makes room for so many; False when there is not so much to be had."""
        while blocks > 0:
            node = self._victim()
            if node is None:
                return False
            floor = max(node.floor, node.end - blocks)
            blocks -= node.end - floor
            self._held -= node.end - floor
            self.evicted += node.end - floor
            if self._listener is not None:
                self._listener.removed(node.run.hashes[floor : node.end])
            node.end = floor
            if floor == node.run.start:
                self._drop(node)
        return True

    def _drop(self, node: _Node) -> None:
        del self._nodes[node.run]
        parent = node.parent
        if parent is not None:
            parent.children.discard(node)
            if node.run.start == parent.end:
                parent.used = max(parent.used, node.used)
                parent.priority = max(parent.priority, node.priority)
            self._offer(parent)
