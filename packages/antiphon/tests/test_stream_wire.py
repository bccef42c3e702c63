"""The frames of the token stream: what goes in comes out, however the bytes arrive."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.engines.base import Chunk, Job, Placement
from antiphon.engines.chunks import joined
from antiphon.workers.stream_wire import (
    MAX_FRAME_BYTES,
    Cancel,
    Failed,
    FrameReader,
    FromWorker,
    Hello,
    Sampled,
    Submit,
    error_of,
    failure,
    frame_of,
    read_frontend,
    read_worker,
    sampled,
)
from antiphon_turns import RoutingWish, SampledLogprob, Sampling, TokenLogprob
from antiphon_turns.errors import StreamInterrupted, WorkerProtocolError, WorkerRefusal, WorkerUnavailable

LOGPROB = SampledLogprob(TokenLogprob("a", -0.5, b"a"), (TokenLogprob("b", -1.0, b"b"),))
JOB = Job(
    request_id="r",
    prompt_ids=[1, 2, 3],
    max_tokens=5,
    sampling=Sampling(temperature=0.5, stop=("x",), top_logprobs=1),
    stop_ids=frozenset({7}),
    grammar="start: /a/",
    priority=-3,
    cache_salt="tenant",
    placement=Placement(session="s", wish=RoutingWish(mode="kv", rank=1)),
)


def read_all(reader: FrameReader, data: bytes, cuts: list[int]) -> list:
    places = sorted({min(cut, len(data)) for cut in cuts})
    found = []
    for start, end in zip([0, *places], [*places, len(data)], strict=True):
        if end > start:
            found += reader.feed(data[start:end])
    return found


@given(st.lists(st.integers(0, 600), max_size=12))
def test_frames_survive_any_cut(cuts):
    messages = [Hello(key="k"), Submit(1, JOB), Cancel(1), Submit(2, JOB)]
    data = b"".join(map(frame_of, messages))
    assert read_all(FrameReader(read_frontend), data, cuts) == messages


def test_a_jobs_ids_stand_in_one_place_and_keep_their_order():
    pending = {4: Chunk([1, 2]), 9: Chunk([3], "stop", 8, [LOGPROB], 0.5), 5: Chunk([6])}
    (frame,) = FrameReader(read_worker).feed(frame_of(sampled(pending)))
    assert isinstance(frame, Sampled)
    assert list(zip(frame.numbers, frame.ids, strict=True)) == [(4, 1), (4, 2), (5, 6)]
    (told,) = frame.told
    assert (told.number, told.ids, told.finish, told.cached_tokens, told.queue_seconds) == (9, [3], "stop", 8, 0.5)
    assert told.logprobs == [LOGPROB]


def test_joined_chunks_say_what_both_said():
    first, then = Chunk([1], None, 7, None, 0.25), Chunk([2], "length", 9, [LOGPROB], 3.0)
    assert joined(first, then) == Chunk([1, 2], "length", 7, [None, LOGPROB], 0.25)
    assert joined(Chunk([1]), Chunk([2])) == Chunk([1, 2])


@pytest.mark.parametrize("kind", [WorkerUnavailable, WorkerRefusal, StreamInterrupted, WorkerProtocolError])
def test_errors_keep_their_class(kind):
    (frame,) = FrameReader(read_worker).feed(frame_of(failure(3, kind("why"))))
    assert isinstance(frame, Failed)
    found = error_of(frame)
    assert (type(found), found.message) == (kind, "why")


@pytest.mark.parametrize("data", [b"GET / HTTP/1.1\r\n\r\n", b"\x00\x00\x00\x01\xc1", frame_of(Cancel(1))])
def test_what_is_no_frame_is_a_protocol_error(data):
    reader: FrameReader[FromWorker] = FrameReader(read_worker)
    with pytest.raises(WorkerProtocolError):
        reader.feed(data)


def test_a_frame_that_nobody_would_read_is_not_written():
    job = msgspec.structs.replace(JOB, grammar="x" * (MAX_FRAME_BYTES + 1))
    with pytest.raises(WorkerRefusal, match="longer"):
        frame_of(Submit(1, job))
