"""Ids of text runs, kept across requests."""

from array import array
from collections import OrderedDict
from threading import Lock

_ENTRY_BYTES = 200


class RunCache:
    """Least recently used first out, bounded by bytes. Safe to share between threads.

    An agent's next prompt repeats the runs of its last one, so most of a prompt is encoded once per process.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max = max_bytes
        self._runs: OrderedDict[str, array[int]] = OrderedDict()
        self._lock = Lock()
        self.bytes = 0
        self.hits = 0
        self.misses = 0

    def __len__(self) -> int:
        return len(self._runs)

    def get(self, run: str) -> "array[int] | None":
        """The ids of `run`, or None."""
        with self._lock:
            ids = self._runs.get(run)
            if ids is None:
                self.misses += 1
                return None
            self.hits += 1
            self._runs.move_to_end(run)
            return ids

    def put(self, run: str, ids: "list[int] | array[int]") -> None:
        """Keeps the ids of `run`; a run of more than an eighth of the bound is not kept."""
        entry = array("I", ids)
        size = _size(run, entry)
        if size > self._max // 8:
            return
        with self._lock:
            if run in self._runs:
                return
            self._runs[run] = entry
            self.bytes += size
            while self.bytes > self._max:
                old, gone = self._runs.popitem(last=False)
                self.bytes -= _size(old, gone)


def _size(run: str, ids: "array[int]") -> int:
    # A run is held as one to four bytes a character; two is a fair middle that needs no look at the text.
    return 2 * len(run) + ids.itemsize * len(ids) + _ENTRY_BYTES
