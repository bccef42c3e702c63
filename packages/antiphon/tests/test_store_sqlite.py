"""The store: tenants, chains and their bounds, time, room, files of other versions, runs whose server is gone."""

import asyncio
import os
import sqlite3
import stat
import subprocess
import sys
import threading

import msgspec
import pytest

from antiphon.store import ChainLimits, PreviousResponseNotFound, StoredResponse
from antiphon.store_sqlite import MEMORY, SqliteStore, StoreLimits
from antiphon_turns.errors import ConfigError, InvalidRequest

LIMITS = ChainLimits()


def response(number, *, previous=None, tenant="t", status="completed", filler=""):
    """Items keep their bytes: odd spacing and big numbers included."""
    item = msgspec.Raw(b'{ "n": %d.0, "filler":"%s"}' % (number, filler.encode()))
    return StoredResponse(
        response_id=f"resp_{number}",
        tenant=tenant,
        status=status,
        created=number,
        body=b'{"id":"resp_%d"}' % number,
        previous_id=None if previous is None else f"resp_{previous}",
        input_items=(item,),
        output_items=(msgspec.Raw(b'"out %d"' % number),),
    )


@pytest.fixture
def using():
    """using(work, store): runs `await work(store)` and closes the store."""

    def run(work, store=None):
        async def main():
            opened = store or SqliteStore(MEMORY)
            try:
                return await work(opened)
            finally:
                await opened.close()

        return asyncio.run(main())

    return run


def test_a_read_sees_the_writes_before_it(using):
    async def work(store):
        for number in range(50):
            store.put(response(number))
            assert await store.get("t", f"resp_{number}") == response(number)
        store.put(response(3, status="failed"))
        assert (await store.get("t", "resp_3")).status == "failed"

    using(work)


def test_another_tenant_s_response_does_not_exist(using):
    async def work(store):
        store.put(response(1))
        assert await store.get("u", "resp_1") is None
        assert await store.delete("u", "resp_1") is False
        with pytest.raises(PreviousResponseNotFound):
            await store.chain("u", "resp_1", LIMITS)
        assert await store.delete("t", "resp_1") is True
        assert await store.delete("t", "resp_1") is False
        assert await store.get("t", "resp_1") is None

    using(work)


def test_a_chain_is_oldest_first_and_verbatim(using):
    async def work(store):
        for number in range(3):
            store.put(response(number, previous=number - 1 if number else None))
        items = [bytes(item) for item in await store.chain("t", "resp_2", LIMITS)]
        assert items == [part for n in range(3) for part in (b'{ "n": %d.0, "filler":""}' % n, b'"out %d"' % n)]

    using(work)


@pytest.mark.parametrize(
    ("links", "limits", "raised"),
    [
        ([response(2, previous=1)], LIMITS, PreviousResponseNotFound),
        ([response(1, tenant="u"), response(2, previous=1)], LIMITS, PreviousResponseNotFound),
        ([response(1, status="in_progress"), response(2, previous=1)], LIMITS, InvalidRequest),
        ([response(2, previous=2)], LIMITS, InvalidRequest),  # a ring, which only a damaged file can hold
        ([response(1), response(2, previous=1)], ChainLimits(responses=1), InvalidRequest),
        ([response(1, filler="x" * 900), response(2, previous=1)], ChainLimits(size=900), InvalidRequest),
    ],
)
def test_chains_that_cannot_be_walked(using, links, limits, raised):
    async def work(store):
        for link in links:
            store.put(link)
        with pytest.raises(raised) as error:
            await store.chain("t", "resp_2", limits)
        assert error.value.param == "previous_response_id"

    using(work)


def test_responses_expire_and_are_swept(using, tmp_path):
    now = [1000.0]
    path = tmp_path / "store.sqlite3"

    async def work(store):
        store.put(response(1))
        now[0] += 99
        assert await store.get("t", "resp_1")
        now[0] += 2
        assert await store.get("t", "resp_1") is None
        now[0] += 1000
        store.put(response(2))

    using(work, SqliteStore(path, limits=StoreLimits(ttl=100), clock=lambda: now[0]))
    rows = sqlite3.connect(path).execute("SELECT id FROM responses").fetchall()
    assert rows == [("resp_2",)]


def test_the_oldest_go_when_the_room_is_full(using):
    now = [1000.0]

    async def work(store):
        for number in range(40):
            now[0] += 1
            store.put(response(number, filler="x" * 1000))
        kept = [number for number in range(40) if await store.get("t", f"resp_{number}")]
        assert kept == list(range(kept[0], 40))
        assert 7 <= len(kept) <= 10

    using(work, SqliteStore(MEMORY, limits=StoreLimits(size=10_000), clock=lambda: now[0]))


def test_the_file_is_for_its_owner_and_outlives_the_process(using, tmp_path):
    path = tmp_path / "state" / "store.sqlite3"

    async def write(store):
        store.put(response(1))

    async def read(store):
        assert await store.get("t", "resp_1") == response(1)

    using(write, SqliteStore(path))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    using(read, SqliteStore(path))


def test_files_that_cannot_be_used_are_errors_of_the_start(tmp_path):
    newer = tmp_path / "newer.sqlite3"
    with sqlite3.connect(newer) as db:
        db.execute("PRAGMA user_version=99")
    db.close()
    (tmp_path / "text").write_text("no database at all, but long enough to be read as one" * 30)
    for path in (newer, tmp_path / "text", tmp_path):
        with pytest.raises(ConfigError, match="--store"):
            SqliteStore(path)


def test_runs_of_a_dead_server_are_closed_and_those_of_a_living_one_left(using, tmp_path):
    path = tmp_path / "store.sqlite3"
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()

    async def write(store):
        for number in (1, 2, 3):
            store.put(response(number, status="in_progress"))

    async def read(store):
        found = [await store.get("t", f"resp_{number}") for number in (1, 2, 3)]
        assert [one.status for one in found] == ["failed", "in_progress", "failed"]
        assert [one.body for one in found] == [b"dead", b'{"id":"resp_2"}', b"dead"]

    using(write, SqliteStore(path))
    with sqlite3.connect(path) as db:
        owners = [(dead.pid, "resp_1"), (os.getppid(), "resp_2"), (os.getpid(), "resp_3")]
        db.executemany("UPDATE responses SET owner=? WHERE id=?", owners)
    db.close()
    using(read, SqliteStore(path, interrupted=lambda body: b"dead"))


def test_a_write_that_fails_is_logged_and_hurts_nobody(using, caplog):
    async def work(store):
        store.put(msgspec.structs.replace(response(1), body=None))
        assert await store.get("t", "resp_1") is None

    using(work)
    assert "resp_1 is not kept" in caplog.text


def test_a_disk_that_cannot_follow_does_not_fill_the_memory(using, caplog, monkeypatch):
    monkeypatch.setattr("antiphon.store_sqlite.MAX_PENDING", 1)

    async def work(store):
        kept = threading.Event()
        store._thread.submit(kept.wait, 10)  # a slow disk
        for number in (1, 2, 3):
            store.put(response(number))
        kept.set()
        assert await store.get("t", "resp_1")
        assert await store.get("t", "resp_3") is None
        store.put(response(4))
        assert await store.get("t", "resp_4")

    using(work)
    assert "resp_2 is not kept" in caplog.text
