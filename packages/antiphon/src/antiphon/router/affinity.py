"""Where a session belongs: rendezvous hashing, so that every frontend says the same without asking anybody."""

from collections.abc import Iterable

from xxhash import xxh3_64_intdigest


def home_of(session: str, workers: Iterable[str]) -> str | None:
    """The worker of a session; None without workers. When a worker comes or goes, only its own sessions move."""
    key = session.encode("utf-8", "surrogatepass")
    return max(workers, key=lambda worker: (xxh3_64_intdigest(key + b"\0" + worker.encode()), worker), default=None)
