"""Responses in SQLite: one connection, one thread that alone touches it, write-ahead log.

Requests are answered in the order they were made, so a read sees every write asked for before it. A crash of the machine
may lose the last writes, never the file.
"""

import asyncio
import logging
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from antiphon.store import RUNNING, ChainLimits, StoredResponse, check_link, pack, too_long, unpack
from antiphon_turns.errors import ConfigError

log = logging.getLogger("antiphon")

Result = TypeVar("Result")

MEMORY = ":memory:"
MAX_PENDING = 1024
SWEEP_SECONDS = 600.0

# Step N brings a file from `user_version` N to N + 1.
MIGRATIONS = (
    """
    CREATE TABLE responses (
        id TEXT PRIMARY KEY, tenant TEXT NOT NULL, previous_id TEXT, status TEXT NOT NULL, created INTEGER NOT NULL,
        expires INTEGER NOT NULL, owner INTEGER NOT NULL, size INTEGER NOT NULL, input BLOB NOT NULL, output BLOB NOT NULL,
        body BLOB NOT NULL
    ) WITHOUT ROWID;
    CREATE INDEX responses_by_age ON responses (expires);
    CREATE TABLE items (
        id TEXT NOT NULL, response_id TEXT NOT NULL REFERENCES responses (id) ON DELETE CASCADE, PRIMARY KEY (id, response_id)
    ) WITHOUT ROWID;
    CREATE INDEX items_by_response ON items (response_id);
    """,
)


class StoreLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How long a response stays, in seconds, and how many bytes all may have; the oldest go first."""

    ttl: float = 30 * 86_400.0
    size: int = 1 << 30


LIMITS = StoreLimits()


class SqliteStore:
    """A `ResponseStore` in one file, or in memory. `interrupted` turns the body of a run that its server did not finish into that
    of a failed one. Raises ConfigError for a file that cannot be used."""

    def __init__(
        self,
        path: Path | str,
        *,
        limits: StoreLimits = LIMITS,
        interrupted: Callable[[bytes], bytes] = bytes,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._limits = limits
        self._clock = clock
        try:
            self._db = self._open(path)
            self._migrate(path)
            self._close_abandoned(interrupted)
        except (sqlite3.Error, OSError) as error:
            raise ConfigError(f"cannot use the response store {path}: {error}; choose another with --store") from error
        self._total = int(self._db.execute("SELECT coalesce(sum(size), 0) FROM responses").fetchone()[0])
        self._swept = float("-inf")
        self._room = threading.BoundedSemaphore(MAX_PENDING)
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="antiphon-store")

    def put(self, response: StoredResponse) -> None:
        """See ResponseStore. With too many writes waiting, the disk cannot follow, and the response is not kept."""
        if not self._room.acquire(blocking=False):
            log.error("the response store cannot follow; %s is not kept", response.response_id)
            return
        self._thread.submit(self._put, response).add_done_callback(lambda done: self._written(done, response.response_id))

    async def get(self, tenant: str, response_id: str) -> StoredResponse | None:
        """See ResponseStore."""
        return await self._ask(self._get, tenant, response_id)

    async def delete(self, tenant: str, response_id: str) -> bool:
        """See ResponseStore."""
        return await self._ask(self._delete, tenant, response_id)

    async def chain(self, tenant: str, response_id: str, limits: ChainLimits) -> tuple[msgspec.Raw, ...]:
        """See ResponseStore."""
        return await self._ask(self._chain, tenant, response_id, limits)

    async def items(self, tenant: str, item_ids: Sequence[str]) -> dict[str, msgspec.Raw]:
        """See ResponseStore."""
        return await self._ask(self._items, tenant, item_ids)

    async def close(self) -> None:
        """See ResponseStore."""
        await self._ask(self._db.close)
        self._thread.shutdown()

    async def _ask(self, work: Callable[..., Result], *args: Any) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, *args)

    def _written(self, done: "Future[None]", response_id: str) -> None:
        self._room.release()
        error = done.exception()
        if error is not None:
            log.error("response %s is not kept: %s", response_id, error)

    # -- on the store's thread, but for what the constructor calls -----------------------------------------------

    def _open(self, path: Path | str) -> sqlite3.Connection:
        if str(path) != MEMORY:
            Path(path).parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))  # conversations are for the owner alone
        db = sqlite3.connect(path, check_same_thread=False, isolation_level=None, timeout=10)
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("PRAGMA synchronous=NORMAL")
        db.execute("PRAGMA foreign_keys=ON")
        return db

    def _migrate(self, path: Path | str) -> None:
        version = int(self._db.execute("PRAGMA user_version").fetchone()[0])
        if version > len(MIGRATIONS):
            raise ConfigError(f"the response store {path} was written by a newer version; choose another with --store")
        for number, script in enumerate(MIGRATIONS[version:], version + 1):
            self._db.executescript(f"BEGIN IMMEDIATE; {script}; PRAGMA user_version={number}; COMMIT;")

    def _close_abandoned(self, interrupted: Callable[[bytes], bytes]) -> None:
        """Background runs end with their server. Those of servers that still live are left alone."""
        rows = self._db.execute("SELECT id, owner, body FROM responses WHERE status IN (?, ?)", RUNNING).fetchall()
        for response_id, owner, body in rows:
            if owner == os.getpid() or not is_alive(owner):
                self._db.execute("UPDATE responses SET status='failed', body=? WHERE id=?", (interrupted(body), response_id))

    def _put(self, response: StoredResponse) -> None:
        now = self._clock()
        packed = pack(response.input_items), pack(response.output_items)
        size = len(response.body) + len(packed[0]) + len(packed[1])
        replaced = self._db.execute("SELECT size FROM responses WHERE id=?", (response.response_id,)).fetchone()
        names = {name_of(item) for item in (*response.input_items, *response.output_items)} - {""}
        self._db.execute("BEGIN IMMEDIATE")
        with self._db:  # commits, or takes everything back
            self._write(response, now, size, packed)
            self._db.executemany("INSERT INTO items VALUES (?, ?)", [(name, response.response_id) for name in names])
        self._total += size - (replaced[0] if replaced else 0)
        if self._total > self._limits.size or now - self._swept > SWEEP_SECONDS:
            self._sweep(now)

    def _write(self, response: StoredResponse, now: float, size: int, packed: tuple[bytes, bytes]) -> None:
        self._db.execute(
            "INSERT OR REPLACE INTO responses VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                response.response_id,
                response.tenant,
                response.previous_id,
                response.status,
                response.created,
                int(now + self._limits.ttl),
                os.getpid(),
                size,
                *packed,
                response.body,
            ),
        )

    def _sweep(self, now: float) -> None:
        """Removes what has expired, and the oldest until a tenth of the room is free, so that not every write has to."""
        self._swept = now
        self._db.execute("DELETE FROM responses WHERE expires <= ?", (int(now),))
        self._total = int(self._db.execute("SELECT coalesce(sum(size), 0) FROM responses").fetchone()[0])
        if self._total <= self._limits.size:
            return
        rows = self._db.execute("SELECT id, size FROM responses ORDER BY expires, created").fetchall()
        for response_id, size in rows:
            if self._total <= self._limits.size * 9 // 10:
                break
            self._db.execute("DELETE FROM responses WHERE id=?", (response_id,))
            self._total -= size

    def _get(self, tenant: str, response_id: str) -> StoredResponse | None:
        row = self._db.execute(
            "SELECT status, created, body, previous_id, input, output FROM responses WHERE id=? AND tenant=? AND expires > ?",
            (response_id, tenant, int(self._clock())),
        ).fetchone()
        if row is None:
            return None
        return StoredResponse(
            response_id=response_id,
            tenant=tenant,
            status=row[0],
            created=row[1],
            body=row[2],
            previous_id=row[3],
            input_items=unpack(row[4]),
            output_items=unpack(row[5]),
        )

    def _delete(self, tenant: str, response_id: str) -> bool:
        row = self._db.execute("SELECT size FROM responses WHERE id=? AND tenant=?", (response_id, tenant)).fetchone()
        if row is None:
            return False
        self._db.execute("DELETE FROM responses WHERE id=?", (response_id,))
        self._total -= row[0]
        return True

    def _items(self, tenant: str, item_ids: Sequence[str]) -> dict[str, msgspec.Raw]:
        found: dict[str, msgspec.Raw] = {}
        for item_id in item_ids:
            row = self._db.execute(
                "SELECT r.id FROM items i JOIN responses r ON r.id = i.response_id WHERE i.id=? AND r.tenant=? LIMIT 1", (item_id, tenant)
            ).fetchone()
            response = self._get(tenant, row[0]) if row else None
            for item in (*response.input_items, *response.output_items) if response else ():
                if name_of(item) == item_id:
                    found[item_id] = item
        return found

    def _chain(self, tenant: str, response_id: str, limits: ChainLimits) -> tuple[msgspec.Raw, ...]:
        links: list[StoredResponse] = []
        size = 0
        following: str | None = response_id
        while following is not None:
            link = check_link(self._get(tenant, following), following)
            size += sum(len(bytes(item)) for item in (*link.input_items, *link.output_items))
            links.append(link)
            if len(links) > limits.responses or size > limits.size:
                raise too_long(limits)
            following = link.previous_id
        return tuple(item for link in reversed(links) for item in (*link.input_items, *link.output_items))


class _Named(msgspec.Struct, frozen=True):
    id: str | None = None


def name_of(item: msgspec.Raw) -> str:
    """The id of an item; "" for one without."""
    try:
        return msgspec.json.decode(item, type=_Named).id or ""
    except msgspec.ValidationError:
        return ""


def is_alive(pid: int) -> bool:
    """Whether a process of this number runs on this machine."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
