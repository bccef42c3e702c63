"""Where a session belongs: rendezvous hashing, so that every frontend says the same without asking anybody."""

from collections.abc import Iterable

from xxhash import xxh3_64_intdigest

# Sessions share so many places: a place is looked up once for as long as the workers stay, whatever number of sessions there is.
_PLACES = 8192


def place_of(session: str) -> int:
    """Sessions of one place have one home."""
    return xxh3_64_intdigest(session.encode("utf-8", "surrogatepass")) % _PLACES


def home_of(session: str, workers: Iterable[str]) -> str | None:
    """The worker of a session; None without workers. When a worker comes or goes, only its own sessions move."""
    return home_of_place(place_of(session), workers)


def home_of_place(place: int, workers: Iterable[str]) -> str | None:
    """The worker of a place."""
    return max(workers, key=lambda worker: (xxh3_64_intdigest(worker.encode(), seed=place), worker), default=None)
