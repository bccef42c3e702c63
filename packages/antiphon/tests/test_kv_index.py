"""KV events over real sockets: publisher, listener process, index."""

import asyncio
import gc
import logging
import os
import signal
import socket
from collections.abc import Callable

import msgspec
import pytest
import zmq
from packages.antiphon.tests.kv_world import BLOCK, PATIENCE, Worker, card_of, chain, held_by, ids, in_step, index_of, state, until

from antiphon.router.cost import Overlap
from antiphon.router.kv_source import KvIndex
from antiphon.serve import new_loop
from antiphon.simulation.kv_wire import WireForm, encode_batch
from antiphon.workers.card import KvFeed
from antiphon.workers.kv_publisher import PublishAt
from antiphon_turns.errors import ConfigError


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, new_loop])
def test_two_workers_are_told_apart(loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    async def run() -> None:
        one, other = Worker(), Worker()
        one.fill(ids(40))
        async with index_of() as index:
            index.follow("one", card_of(one.publisher.feed()))
            index.follow("other", card_of(other.publisher.feed()))
            await in_step(index, one, "one")
            other.fill(ids(20))
            await in_step(index, other, "other")
            assert index.overlaps(chain(ids(44))) == {"one": Overlap(device=10), "other": Overlap(device=5)}
            assert index.overlaps([]) == {} and index.overlaps(chain(ids(40), "salt")) == {}
            assert index.is_live("one") and not index.is_live("nobody")
            index.forget("one")
            assert index.overlaps(chain(ids(40))) == {"other": Overlap(device=5)}
            assert [one.target for one in index.states()] == ["other"]
        one.close()
        other.close()

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(run())


def test_the_garbage_collector_does_not_look_through_blocks() -> None:
    async def run() -> None:
        worker = Worker()
        worker.fill(ids(40))
        async with index_of() as index:
            index.follow("w", card_of(worker.publisher.feed()))
            await in_step(index, worker, "w")
            held = index._targets["w"].blocks.device
            assert len(held) == 10 and not any(one is held for one in gc.get_objects())
        worker.close()

    asyncio.run(run())


@pytest.mark.parametrize("form", ["maps", "arrays", "sglang"])
def test_every_wire_form_with_salts_and_evictions(form: WireForm) -> None:
    async def run() -> None:
        worker = Worker(blocks=30, form=form)
        async with index_of() as index:
            index.follow("w", card_of(worker.publisher.feed()))
            for start in range(5):
                worker.fill(ids(40, start=100 * start), salt="tenant" if start % 2 else "")
            await in_step(index, worker)
            assert worker.cache.evicted and index.held("w") == held_by(worker)
            assert index.overlaps(chain(ids(40, start=300), "tenant")) == {"w": Overlap(device=10)}
        worker.close()

    asyncio.run(run())


def test_ranks_are_targets_of_their_own() -> None:
    async def run() -> None:
        ranks = [Worker(where=PublishAt(rank=rank, topic="kv")) for rank in range(2)]
        async with index_of() as index:
            index.follow("w", card_of(*(one.publisher.feed() for one in ranks), ranks=2))
            ranks[1].fill(ids(40))
            await in_step(index, ranks[1], "w/1")
            assert index.overlaps(chain(ids(40))) == {"w/1": Overlap(device=10)}
            index.forget("w")
            assert index.states() == []
        for one in ranks:
            one.close()

    asyncio.run(run())


def test_118_a_lost_message_is_seen_and_replayed() -> None:
    async def run() -> None:
        worker = Worker()
        async with index_of() as index:
            index.follow("w", card_of(worker.publisher.feed()))
            worker.fill(ids(40))
            await in_step(index, worker)
            worker.forget_to_publish(ids(80))
            worker.fill(ids(120))
            await in_step(index, worker)
            found = state(index)
            assert (found.gaps, found.lost, found.state) == (1, 0, "fresh")
            assert index.overlaps(chain(ids(120))) == {"w": Overlap(device=30)}
        worker.close()

    asyncio.run(run())


def test_118_a_loss_in_silence_is_found_without_another_message() -> None:
    async def run() -> None:
        worker = Worker()
        async with index_of() as index:
            index.follow("w", card_of(worker.publisher.feed()))
            worker.fill(ids(40))
            await in_step(index, worker)
            worker.forget_to_publish(ids(80))
            await in_step(index, worker)
            assert index.overlaps(chain(ids(80))) == {"w": Overlap(device=20)}
        worker.close()

    asyncio.run(run())


def test_118_a_stale_index_is_marked_and_not_trusted(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        worker = Worker(ring_messages=1)
        async with index_of() as index:
            index.follow("w", card_of(worker.publisher.feed()))
            worker.fill(ids(40))
            await in_step(index, worker)
            worker.forget_to_publish(ids(40, start=500))
            worker.fill(ids(40, start=900))
            await in_step(index, worker)
            found = state(index)
            assert found.state == "stale" and found.lost >= 1
            assert index.overlaps(chain(ids(40))) == {} and index.overlaps(chain(ids(40, start=900))) == {"w": Overlap(device=10)}
            # A turn that goes on from the old prompt proves that it is still there.
            worker.fill(ids(44))
            await in_step(index, worker)
            assert index.overlaps(chain(ids(44))) == {"w": Overlap(device=11)}
        worker.close()

    with caplog.at_level(logging.WARNING):
        asyncio.run(run())
    assert any("worker w" in record.message and "lost" in record.message for record in caplog.records)


@pytest.mark.parametrize("told", ["by the card", "by its numbers", "by nobody"])
def test_118_a_restarted_worker_is_forgotten_and_learnt_again(told: str) -> None:
    async def run() -> None:
        worker = Worker()
        async with index_of() as index:
            index.follow("w", card_of(worker.publisher.feed(), incarnation="1"))
            for start in range(4):
                worker.fill(ids(40, start=1000 * start))
            await in_step(index, worker)
            assert len(index.held("w")) == 40
            worker.close()
            again = Worker(where=worker.same_ports)
            if told == "by the card":
                again.fill(ids(20))
                index.follow("w", card_of(again.publisher.feed(), incarnation="2"))
            elif told == "by nobody":
                again.fill(ids(20))
            else:
                await until_subscribed(again)
                again.fill(ids(20))
            await until(index, lambda: state(index).restarts > 0 and index.held("w") == held_by(again) and state(index).state == "fresh")
            again.close()

    asyncio.run(run())


async def until_subscribed(worker: Worker) -> None:
    """Waits until somebody listens again, by the publisher's own account of connections."""
    monitor = worker.publisher._pub.get_monitor_socket(zmq.EVENT_HANDSHAKE_SUCCEEDED)
    await asyncio.to_thread(monitor.poll, 1000 * PATIENCE)
    worker.publisher._pub.disable_monitor()
    monitor.close(0)


class Engine:
    """A publisher that sees who subscribes."""

    def __init__(self) -> None:
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self.socket = self._context.socket(zmq.XPUB)

    async def subscribed(self) -> None:
        """Waits for the next subscription."""
        assert await asyncio.to_thread(self.socket.poll, 1000 * PATIENCE)
        assert self.socket.recv() == b"\x01"

    def close(self) -> None:
        self._context.destroy(0)


def test_the_subscriber_binds_where_the_engine_connects() -> None:
    async def run() -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        worker, engine = Worker(), Engine()
        worker.fill(ids(40))
        worker.close()
        async with index_of() as index:
            index.follow("w", card_of(KvFeed(events=f"tcp://127.0.0.1:{port}", bind=True)))
            engine.socket.connect(f"tcp://127.0.0.1:{port}")
            await engine.subscribed()
            engine.socket.send_multipart([b"", bytes(8), worker.publisher._ring[0][1]])
            await until(index, lambda: state(index).state == "fresh")
            assert index.overlaps(chain(ids(40))) == {"w": Overlap(device=10)}
        engine.close()

    asyncio.run(run())


def test_117_numbers_beyond_2_to_the_53_are_kept_exactly() -> None:
    async def run() -> None:
        big = 9007199254740993
        worker, other = Worker(), Worker()
        events = [
            {"type": "BlockStored", "block_hashes": [big], "parent_block_hash": None, "token_ids": ids(4), "block_size": BLOCK},
            {"type": "BlockStored", "block_hashes": [big + 1], "parent_block_hash": big, "token_ids": ids(4, 4), "block_size": BLOCK},
            {"type": "BlockStored", "block_hashes": [2**64 - 1], "parent_block_hash": big + 1, "token_ids": ids(4, 8), "block_size": BLOCK},
            {"type": "BlockRemoved", "block_hashes": [big + 2]},
        ]
        async with index_of() as index:
            index.follow(str(big), card_of(worker.publisher.feed()))
            index.follow(str(big - 1), card_of(other.publisher.feed()))
            worker.publisher._ring.append((0, msgspec.msgpack.encode([1.0, events, 0])))
            worker.publisher.next_seq = 1
            await in_step(index, worker, str(big))
            assert index.overlaps(chain(ids(12))) == {str(big): Overlap(device=3)}
        worker.close()
        other.close()

    asyncio.run(run())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_the_whole_group_leaves_the_listener_to_its_frontend(number: signal.Signals) -> None:
    async def run() -> None:
        worker = Worker()
        worker.fill(ids(40))
        async with index_of() as index:
            index.follow("w", card_of(worker.publisher.feed()))
            await in_step(index, worker)
            assert index.listener_pid is not None
            os.kill(index.listener_pid, number)
            worker.fill(ids(80))
            await in_step(index, worker)
            assert index.listener().deaths == 0
        worker.close()

    asyncio.run(run())


def test_a_dead_listener_is_replaced_and_the_index_rebuilt(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        worker = Worker()
        worker.fill(ids(40))
        async with index_of() as index:
            index.follow("w", card_of(worker.publisher.feed()))
            await in_step(index, worker)
            first = index.listener_pid
            assert first is not None
            os.kill(first, signal.SIGKILL)
            worker.fill(ids(80))
            await in_step(index, worker)
            assert index.listener().deaths == 1 and index.listener_pid not in (None, first)
            assert index.overlaps(chain(ids(80))) == {"w": Overlap(device=20)}
        worker.close()

    with caplog.at_level(logging.WARNING):
        asyncio.run(run())
    assert any("started again" in record.message for record in caplog.records)


def test_the_listener_ends_with_its_frontend() -> None:
    async def run() -> int:
        worker = Worker()
        async with index_of() as index:
            index.follow("w", card_of(worker.publisher.feed()))
            worker.fill(ids(8))
            await in_step(index, worker)
            pid = index.listener_pid
        worker.close()
        assert pid is not None
        return pid

    with pytest.raises(ProcessLookupError):
        os.kill(asyncio.run(run()), 0)


def test_a_sibling_goes_on_from_a_snapshot() -> None:
    async def run() -> None:
        # What the ring no longer has, only the snapshot can tell.
        worker = Worker(ring_messages=2)
        async with index_of() as index, index_of() as sibling:
            index.follow("w", card_of(worker.publisher.feed(), incarnation="1"))
            index.follow("restarted", card_of(worker.publisher.feed(), incarnation="1"))
            for start in range(8):
                worker.fill(ids(40, start=1000 * start))
                await in_step(index, worker)
            snapshot = await index.snapshot()
            worker.fill(ids(48))
            sibling.resume(snapshot)
            sibling.follow("w", card_of(worker.publisher.feed(), incarnation="1"))
            sibling.follow("restarted", card_of(worker.publisher.feed(), incarnation="2"))
            await in_step(sibling, worker)
            assert sibling.held("w") == held_by(worker) and state(sibling).state == "fresh"
            await in_step(sibling, worker, "restarted")
            assert state(sibling, "restarted").state == "stale"
        worker.close()

    asyncio.run(run())


def test_what_is_no_snapshot_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        worker = Worker()
        worker.fill(ids(40))
        async with index_of() as index:
            index.resume(b"<html>not found</html>")
            index.follow("w", card_of(worker.publisher.feed()))
            await in_step(index, worker)
            assert index.overlaps(chain(ids(40))) == {"w": Overlap(device=10)}
        worker.close()

    with caplog.at_level(logging.WARNING):
        asyncio.run(run())
    assert any("snapshot" in record.message for record in caplog.records)


def test_111_workers_without_events_are_named(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        now = [0.0]
        worker = Worker()
        async with index_of(clock=lambda: now[0]) as index:
            index.follow("dumb", card_of())
            index.follow("dumb", card_of())
            # It says where it publishes, and does not.
            index.follow("mute", card_of(worker.publisher.feed()))
            worker.fill(ids(8))
            await in_step(index, worker, "mute")
            index.routed("mute", chain(ids(8)))
            index.routed("dumb", chain(ids(8)))
            now[0] = 60.0
            assert [one.state for one in index.states()] == ["none", "fresh"]
            for _ in range(3):
                index.routed("mute", chain(ids(40)))
            now[0] = 75.0
            assert [one.state for one in index.states()] == ["none", "missing"] and not index.is_live("mute")
            worker.fill(ids(40))
            await in_step(index, worker, "mute")
            assert [one.state for one in index.states()] == ["none", "fresh"]
        worker.close()

    with caplog.at_level(logging.WARNING):
        asyncio.run(run())
    warned = [record.message for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warned) == 2 and "worker dumb publishes no KV events" in warned[0] and "worker mute says" in warned[1]


def test_sizes_unknown_and_wrong(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        worker = Worker()
        worker.fill(ids(40))
        async with index_of() as index:
            index.follow("learnt", card_of(worker.publisher.feed(), block_tokens=None))
            index.follow("wrong", card_of(worker.publisher.feed(), block_tokens=64))
            await in_step(index, worker, "learnt")
            await in_step(index, worker, "wrong")
            assert state(index, "learnt").block_tokens == BLOCK and state(index, "wrong").state == "mismatch"
            assert index.overlaps(chain(ids(40))) == {"learnt": Overlap(device=10)} and not index.is_live("wrong")
        worker.close()

    with caplog.at_level(logging.WARNING):
        asyncio.run(run())
    assert any("worker wrong has blocks of 4 tokens" in record.message for record in caplog.records)


@pytest.mark.parametrize("frames", [[b"", bytes(8), b"\xc1"], [b"", b"short", b"x"], [b"", bytes(8)]])
def test_messages_that_are_no_events_are_counted(frames: list[bytes], caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        engine = Engine()
        port = engine.socket.bind_to_random_port("tcp://127.0.0.1")
        async with index_of() as index:
            index.follow("w", card_of(KvFeed(events=f"tcp://127.0.0.1:{port}")))
            await engine.subscribed()
            engine.socket.send_multipart(frames)
            await until(index, lambda: state(index).unreadable == 1)
        engine.close()

    with caplog.at_level(logging.WARNING):
        asyncio.run(run())
    assert any("no KV event" in record.message for record in caplog.records)


def test_an_address_that_is_none_is_said(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        worker = Worker()
        worker.fill(ids(8))
        async with index_of() as index:
            index.follow("odd", card_of(KvFeed(events="nonsense")))
            index.follow("w", card_of(worker.publisher.feed()))
            await in_step(index, worker)
            assert state(index, "odd").state == "silent"
        worker.close()

    with caplog.at_level(logging.WARNING):
        asyncio.run(run())
    assert any("check the address" in record.message for record in caplog.records)


def test_a_taken_port_is_an_error_at_start() -> None:
    async def run() -> None:
        worker = Worker()
        with pytest.raises(ConfigError, match="choose others"):
            Worker(where=worker.same_ports)
        worker.close()
        worker.close()

    asyncio.run(run())


def test_steps_leave_in_messages_of_bounded_size() -> None:
    async def run() -> None:
        worker = Worker()
        worker.fill(ids(4 * 100))
        assert worker.publisher.next_seq == 4
        assert all(len(payload) < 4000 for _, payload in worker.publisher._ring)
        assert encode_batch([], block_tokens=BLOCK, at=0.0) not in [payload for _, payload in worker.publisher._ring]
        worker.publish()
        assert worker.publisher.next_seq == 4
        worker.close()

    asyncio.run(run())


def test_an_index_that_follows_nobody_starts_no_process() -> None:
    async def run() -> KvIndex:
        async with index_of() as index:
            assert index.listener_pid is None and await index.snapshot()
            return index

    assert asyncio.run(run()).states() == []
