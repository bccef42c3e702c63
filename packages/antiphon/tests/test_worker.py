"""A worker of ours as frontends see it: card, tokens over the stream and over HTTP, refusals, the end."""

import asyncio
import socket
from collections.abc import AsyncGenerator

import httpx
import msgspec
import pytest
import zmq
import zmq.asyncio
from packages.antiphon.tests.engine_fakes import run
from packages.antiphon.tests.worker_stage import Stage, answer, worker

from antiphon.engines.base import Chunk, Job
from antiphon.engines.stream_client import StreamClient
from antiphon.router.kv_events import BlockStored, read_batch
from antiphon.workers.card import KvFeed
from antiphon.workers.cards import at_home, connect, stream_address
from antiphon.workers.kv_publisher import END
from antiphon.workers.stream_server import Connection, StreamServer, admit_within
from antiphon.workers.stream_wire import Hello, Submit, frame_of
from antiphon_turns import Sampling
from antiphon_turns.errors import (
    ConfigError,
    StreamInterrupted,
    WorkerError,
    WorkerProtocolError,
    WorkerRefusal,
    WorkerUnavailable,
)


class Scripted:
    """An engine that does what the test says: `chunks`, then the test's word."""

    constrains = False
    reports_logprobs = False

    def __init__(self, chunks: list[Chunk], error: Exception | None = None) -> None:
        self.chunks = chunks
        self.error = error
        self.go_on = asyncio.Event()
        self.closed = asyncio.Event()
        self.asked = 0

    async def start(self) -> None:
        pass

    async def close(self) -> None:
        pass

    def ready(self) -> bool:
        return True

    async def generate(self, job: Job) -> AsyncGenerator[Chunk, None]:
        try:
            for chunk in self.chunks:
                self.asked += 1
                await asyncio.sleep(0)
                yield chunk
            await self.go_on.wait()
            if self.error is not None:
                raise self.error
        finally:
            self.closed.set()


async def client_of(stage: Stage, **more: object) -> StreamClient:
    _, engine = await connect(stage.address, **more)
    await engine.start()
    assert isinstance(engine, StreamClient)
    return engine


def test_a_job_over_the_stream_is_the_engines_own():
    async def scene():
        async with worker() as stage:
            client = await client_of(stage, tokenizer=stage.model.tokenizer)
            job = stage.job("@@REPEAT:50@@", sampling=msgspec.structs.replace(stage.job("").sampling, top_logprobs=1))
            expected, _ = await answer(stage.engine, job)
            ids, chunks = await answer(client, job)
            assert ids == expected
            assert len(ids) == 51
            assert chunks[-1].finish == "stop"
            assert [chunk.cached_tokens for chunk in chunks if chunk.cached_tokens is not None] == [(len(job.prompt_ids) - 1) // 16 * 16]
            assert sum(len(chunk.logprobs or ()) for chunk in chunks) == 51
            await client.close()

    run(scene)


def test_many_jobs_share_one_connection():
    async def scene():
        async with worker(mock_token_delay_ms=1) as stage:
            client = await client_of(stage)
            answers = await asyncio.gather(*(answer(client, stage.job(f"@@REPEAT:{n}@@")) for n in range(1, 41)))
            assert [len(ids) for ids, _ in answers] == [n + 1 for n in range(1, 41)]
            assert len(stage.service.stream.connections) == 1
            assert stage.service.running == 0
            await client.close()

    run(scene)


def test_the_card_says_what_is_there():
    async def scene():
        async with worker(mock_block_size=32, mock_cache_blocks=100) as stage:
            card, client = await connect(stage.address)
            assert (card.kind, card.model, card.block_tokens, card.cache_blocks) == ("mock", "antiphon-mock", 32, 100)
            assert card.context_length == stage.model.context_length
            assert card.vocabulary == stage.model.tokenizer.fingerprint
            assert (card.constrains, card.reports_logprobs) == (client.constrains, client.reports_logprobs) == (False, True)
            assert card.incarnation

    run(scene)


@pytest.mark.parametrize(
    ("stream", "found"), [("10.0.0.1:5", ("10.0.0.1", 5)), (":5", ("host", 5)), ("[::1]:5", ("::1", 5))], ids=["named", "wild", "v6"]
)
def test_a_stream_without_a_host_is_at_the_urls(stream, found):
    assert stream_address(stream, "http://host:8100") == found


def test_a_closed_generator_ends_the_job_in_the_worker():
    """Field report 119: whoever goes away frees the engine, also where nothing was sampled yet."""

    async def scene():
        for chunks in ([], [Chunk([5])]):
            engine = Scripted(chunks)
            async with worker(engine) as stage:
                client = await client_of(stage)
                stream = client.generate(stage.job("x"))
                first = asyncio.ensure_future(anext(stream))
                while stage.service.running == 0:
                    await asyncio.sleep(0)
                if chunks:
                    await first
                first.cancel()
                await asyncio.wait({first})
                await stream.aclose()
                await engine.closed.wait()
                while stage.service.running:
                    await asyncio.sleep(0)
                await client.close()

    run(scene)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (WorkerUnavailable("gone"), WorkerUnavailable),
        (WorkerRefusal("no"), WorkerRefusal),
        (RuntimeError("a library's"), WorkerProtocolError),
        (None, StreamInterrupted),
    ],
    ids=["unavailable", "refusal", "fault", "no finish"],
)
def test_errors_come_after_what_was_sampled(error, kind):
    async def scene():
        engine = Scripted([Chunk([5]), Chunk([6])], error)
        engine.go_on.set()
        async with worker(engine) as stage:
            client = await client_of(stage)
            ids = []
            with pytest.raises(kind):
                async for chunk in client.generate(stage.job("x")):
                    ids += chunk.ids
            assert ids == [5, 6]
            await client.close()

    run(scene)


def test_a_lost_connection_fails_its_jobs_and_is_made_anew():
    async def scene():
        engine = Scripted([Chunk([5])])
        async with worker(engine) as stage:
            client = await client_of(stage)
            stream = client.generate(stage.job("x"))
            assert (await anext(stream)).ids == [5]
            (connection,) = stage.service.stream.connections
            connection.close()
            with pytest.raises(StreamInterrupted, match="lost"):
                await anext(stream)
            await engine.closed.wait()
            while not client.ready() or not stage.service.stream.connections:
                await asyncio.sleep(0.01)
            assert (await anext(client.generate(stage.job("x")))).ids == [5]
            await client.close()
            assert not client.ready()
            with pytest.raises(WorkerUnavailable):
                await anext(client.generate(stage.job("x")))

    run(scene)


def test_jobs_that_would_break_the_engine_are_refused():
    async def scene():
        async with worker(context_length=128) as stage:
            client = await client_of(stage)
            beyond = stage.model.tokenizer.vocab_size
            for job in (
                stage.job("x", prompt_ids=[]),
                stage.job("x", max_tokens=0),
                stage.job("x", max_tokens=129),
                stage.job("x", prompt_ids=[beyond], max_tokens=1),
                stage.job("x", prompt_ids=[-1], max_tokens=1),
            ):
                with pytest.raises(WorkerRefusal):
                    await answer(client, job)
            await client.close()

    run(scene)


def test_the_key_opens_both_ways():
    async def scene():
        async with worker(worker_key="right") as stage:
            with pytest.raises(ConfigError, match="ANTIPHON_WORKER_KEY"):
                await connect(stage.address, key="wrong")
            with pytest.raises(ConfigError, match="ANTIPHON_WORKER_KEY"):
                await connect(stage.address)
            card, _ = await connect(stage.address, key="right")
            host, port = stream_address(card.stream or "", stage.url)
            with pytest.raises(ConfigError, match="ANTIPHON_WORKER_KEY"):
                await StreamClient(host, port, key="wrong").start()
            client = await client_of(stage, key="right")
            assert (await answer(client, stage.job("@@REPEAT:2@@", max_tokens=5)))[0]
            await client.close()
            async with httpx.AsyncClient(base_url=stage.url) as http:
                assert (await http.get("/health")).status_code == 200
                assert (await http.get("/card")).status_code == 401

    run(scene)


def test_another_version_is_refused():
    async def scene():
        async with worker() as stage:
            host, port = stream_address(stage.service.card.stream or "", stage.url)
            reader, writer = await asyncio.open_connection(host, port)
            writer.write(frame_of(Hello(version=99)))
            assert b"version" in await reader.read()
            writer.close()
            reader, writer = await asyncio.open_connection(host, port)
            writer.write(frame_of(Submit(1, stage.job("x"))))
            assert b"hello" in await reader.read()
            writer.close()

    run(scene)


def test_nobody_there_is_unavailable():
    async def scene():
        async with worker() as stage:
            address = stage.address
        with pytest.raises(WorkerUnavailable, match=": Connection refused"):
            await connect(address)

    run(scene)


def test_another_start_behind_the_same_port_gets_no_jobs():
    async def scene():
        async with worker() as stage:
            client = await client_of(stage)
            server = stage.service.stream
            server.incarnation = "another"
            connection = next(iter(server.connections))
            connection.close()
            while connection in server.connections:
                await asyncio.sleep(0)
            # It is asked, and left alone.
            while not server.connections:
                await asyncio.sleep(0)
            while server.connections:
                await asyncio.sleep(0)
            assert not client.ready()
            with pytest.raises(WorkerUnavailable):
                await answer(client, stage.job("x"))
            await client.close()
            card, late = await connect(stage.address)
            assert card.incarnation != "another"
            with pytest.raises(WorkerUnavailable, match="started anew"):
                await late.start()

    run(scene)


def test_another_tokenizer_is_refused():
    async def scene():
        async with worker() as stage:
            other = stage.model.tokenizer

            class Other:
                control_tokens = other.control_tokens

                def encode(self, text: str, *, added: bool) -> list[int]:
                    return [1, *other.encode(text, added=added)]

            with pytest.raises(ConfigError, match="another tokenizer"):
                await connect(stage.address, tokenizer=Other())

    run(scene)


def test_a_frontend_that_does_not_read_stops_the_engine_and_is_left_alone():
    async def scene():
        engine = Scripted([Chunk(list(range(1000)))] * 100_000)
        server = StreamServer(engine, admit=admit_within(context_length=8192, vocab_size=1 << 20), incarnation="i", stall_seconds=0.2)
        loop = asyncio.get_running_loop()
        listening = await loop.create_server(lambda: Connection(server), "127.0.0.1", 0)
        host, port = listening.sockets[0].getsockname()[:2]
        _, writer = await asyncio.open_connection(host, port, limit=1024)
        job = Job(request_id="r", prompt_ids=[1], max_tokens=5, sampling=Sampling(), stop_ids=frozenset())
        writer.write(frame_of(Hello()) + frame_of(Submit(1, job)))
        await engine.closed.wait()
        assert 0 < engine.asked < 50_000
        while server.connections:
            await asyncio.sleep(0)
        writer.close()
        listening.close()

    run(scene)


def test_a_stop_lets_jobs_end_and_takes_no_more():
    async def scene():
        engine = Scripted([Chunk([5]), Chunk([6], "stop")])
        engine.chunks.pop()
        async with worker(engine, shutdown_grace_seconds=20.0) as stage:
            client = await client_of(stage)
            stream = client.generate(stage.job("x"))
            await anext(stream)
            stage.stop.set()
            while not stage.service._draining:
                await asyncio.sleep(0)
            with pytest.raises(WorkerUnavailable, match="stopping"):
                await anext(client.generate(stage.job("x")))
            engine.chunks = []
            engine.error = WorkerError("the end")
            engine.go_on.set()
            with pytest.raises(WorkerError, match="the end"):
                await anext(stream)
            await client.close()

    run(scene)


def test_the_cache_is_told_to_whoever_listens():
    async def scene():
        async with worker() as stage:
            card, client = await connect(stage.address)
            (feed,) = card.feeds
            context = zmq.asyncio.Context()
            listening = context.socket(zmq.SUB)
            listening.subscribe(b"")
            listening.connect(feed.events)
            asking = context.socket(zmq.DEALER)
            asking.connect(feed.replay)
            await client.start()
            job = stage.job("@@REPEAT:40@@")
            ids, _ = await answer(client, job)
            wanted = (len(job.prompt_ids) + len(ids)) // 16
            hashes: list[int | bytes] = []
            seq = 0
            while len(hashes) < wanted:
                # Subscribing takes its time, so what it missed is asked for.
                await asking.send_multipart([b"", seq.to_bytes(8, "big")])
                while (frames := await asking.recv_multipart())[2] != END:
                    seq = int.from_bytes(frames[2], "big") + 1
                    batch = read_batch(frames[3])
                    hashes += [one for event in batch.events if isinstance(event, BlockStored) for one in event.hashes]
            assert len(hashes) == len(set(hashes)) == wanted
            assert seq >= 1
            context.destroy(0)
            await client.close()

    run(scene)


def test_a_worker_may_keep_its_cache_to_itself():
    async def scene():
        async with worker(enable_kv_events=False) as stage:
            card, _ = await connect(stage.address)
            assert card.feeds == ()
            assert card.block_tokens == 16

    run(scene)


@pytest.mark.parametrize("host", ["0.0.0.0", "[::]", "*"])
def test_a_feed_on_every_address_is_at_the_urls(host):
    feed = KvFeed(events=f"tcp://{host}:5557", replay=f"tcp://{host}:5558", topic="t")
    assert at_home(feed, "http://10.1.2.3:8100") == KvFeed(events="tcp://10.1.2.3:5557", replay="tcp://10.1.2.3:5558", topic="t")
    assert at_home(KvFeed(events="tcp://elsewhere:1"), "http://10.1.2.3:8100") == KvFeed(events="tcp://elsewhere:1")


def test_a_vanished_peer_is_asked_for():
    async def scene():
        async with worker() as stage:
            client = await client_of(stage)
            (connection,) = stage.service.stream.connections
            for transport in (connection._transport, client._wire._transport):
                peer = transport.get_extra_info("socket")
                assert peer.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
                assert peer.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            await client.close()

    run(scene)
