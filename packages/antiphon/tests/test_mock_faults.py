"""Failures on order: each is what it says, and the server turns it into an error the client understands."""

import json

import msgspec
import pytest
from mock_stage import Stage

from antiphon.config import Settings
from antiphon.engines.mock_faults import Fault, parse_fault
from antiphon.serve import build
from antiphon_turns.errors import ConfigError, StreamInterrupted, WorkerUnavailable


@pytest.fixture(scope="module")
def model():
    return build(Settings(engine="mock"))[0]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("crash-after=0", Fault("crash-after", 0)),
        ("hang-after=12", Fault("hang-after", 12)),
        ("cut-after=3", Fault("cut-after", 3)),
        ("slow=2.5", Fault("slow", 2.5)),
        ("wrong-ids", Fault("wrong-ids")),
    ],
)
def test_faults_are_read(text, fault):
    assert parse_fault(text) == fault


BAD = ["", "crash", "crash-after", "crash-after=", "crash-after=-1", "cut-after=1.5", "slow", "wrong-ids=1", "slow=x", "slow=."]


@pytest.mark.parametrize("text", BAD)
def test_what_is_no_fault_is_refused(text):
    with pytest.raises(ConfigError, match="crash-after=N"):
        build(Settings(engine="mock", mock_fault=text))


async def until_it_fails(stage, job, kinds):
    """The ids that came, and the error that ended them (None: the stream just ended)."""
    ids, finish = [], None
    try:
        async for chunk in stage.engine.generate(job):
            ids += chunk.ids
            finish = chunk.finish
    except kinds as error:
        return ids, error
    return ids, finish


@pytest.mark.parametrize("speed", ["none", "b200"])
@pytest.mark.parametrize("size", [1, 4])
@pytest.mark.parametrize("after", [0, 1, 7, 8, 9])
def test_streams_are_cut_after_so_many_tokens(model, speed, size, after):
    whole, cut = (Stage(model, speed=speed, chunk_tokens=size, fault=fault) for fault in (None, Fault("cut-after", after)))
    ((all_ids, _),) = whole.run(until_it_fails(whole, whole.job(words=7), ()))
    ((ids, finish),) = cut.run(until_it_fails(cut, cut.job(words=7), ()))
    assert len(all_ids) == 8
    # A stream that would have ended there loses its end; a shorter one is whole.
    assert ids == all_ids[:after] and finish == ("stop" if after > 8 else None)
    assert cut.engine.running == 0


@pytest.mark.parametrize("speed", ["none", "b200"])
def test_a_crash_takes_every_job_and_the_cache_with_it(model, speed):
    stage = Stage(model, speed=speed, fault=Fault("crash-after", 50), token_delay_ms=1)
    first, second = stage.job(tokens=200, words=100), stage.job(tokens=200, seed=1, words=100)

    async def late():
        await stage.clock.sleep(0.02)
        return await until_it_fails(stage, second, StreamInterrupted)

    (ids, error), (others, other_error) = stage.run(until_it_fails(stage, first, StreamInterrupted), late())
    assert len(ids) == 50 and isinstance(error, StreamInterrupted)
    assert 0 < len(others) < 50 and isinstance(other_error, StreamInterrupted)
    assert not stage.engine.ready() and stage.engine.running == 0

    async def refused():
        return await until_it_fails(stage, first, WorkerUnavailable)

    async def crashed_already():
        stage.engine._crash.happened = True
        return await refused()

    assert isinstance(stage.run(crashed_already())[0][1], WorkerUnavailable)
    # A restart brings it back, empty.
    ((ids, _),) = stage.run(until_it_fails(stage, msgspec.structs.replace(first, max_tokens=1), StreamInterrupted))
    assert len(ids) == 1 and stage.engine.ready()
    assert stage.engine.cache.match(second.prompt_ids) == 0 < stage.engine.cache.match(first.prompt_ids)


@pytest.mark.parametrize("speed", ["none", "b200"])
def test_a_hang_lasts_until_somebody_leaves(model, speed):
    stage = Stage(model, speed=speed, fault=Fault("hang-after", 5))
    with pytest.raises(TimeoutError):
        stage.run(until_it_fails(stage, stage.job(words=20), StreamInterrupted))
    assert stage.engine.running == 0 and stage.engine.ready()


@pytest.mark.parametrize("options", [{"speed": "b200"}, {"token_delay_ms": 20}])
def test_slow_is_slow_in_everything(model, options):
    times = []
    for fault in (None, Fault("slow", 3)):
        stage = Stage(model, fault=fault, **options)
        (made,) = stage.run(stage.played(stage.job(tokens=3000, words=20)))
        times.append([at for at, _ in made])
    assert times[1] == pytest.approx([3 * at for at in times[0]])


def test_wrong_ids_are_beyond_the_vocabulary(model):
    stage = Stage(model, fault=Fault("wrong-ids"))
    ((ids, _),) = stage.run(until_it_fails(stage, stage.job(words=3), ()))
    assert len(ids) == 4 and min(ids) >= model.tokenizer.vocab_size


# -- over HTTP -------------------------------------------------------------------------------------------------------

SAY = [{"when": "", "say": "one two three four five six"}]


def ask(server, *, stream):
    body = {"model": "antiphon-mock", "max_tokens": 50, "stream": stream, "messages": [{"role": "user", "content": "hello"}]}
    return server.http.post("/v1/messages", json=body)


@pytest.mark.parametrize(("fault", "status"), [("cut-after=3", 502), ("crash-after=3", 502), ("crash-after=0", 502), ("wrong-ids", 502)])
def test_a_failed_worker_is_an_error_not_an_answer(serve_mock, fault, status):
    answer = ask(serve_mock(SAY, mock_fault=fault), stream=False)
    assert answer.status_code == status and answer.json()["type"] == "error"


@pytest.mark.parametrize("fault", ["cut-after=3", "crash-after=3"])
def test_a_failed_stream_ends_with_an_error(serve_mock, fault):
    answer = ask(serve_mock(SAY, mock_fault=fault), stream=True)
    events = [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: ")]
    assert events[-1]["type"] == "error"
    said = "".join(event["delta"].get("text", "") for event in events if event["type"] == "content_block_delta")
    assert said == "one two three"


def test_a_crashed_engine_is_unavailable_from_then_on(serve_mock):
    server = serve_mock(SAY, mock_fault="crash-after=3")
    assert [ask(server, stream=False).status_code for _ in range(2)] == [502, 503]


def test_nothing_of_a_failed_turn_reaches_the_next_prompt(serve_mock):
    server = serve_mock(SAY, mock_fault="wrong-ids")
    assert ask(server, stream=True).status_code == 502
    assert all(token_id < server.pipeline.model.tokenizer.vocab_size for line in server.traced() for token_id in line["output_ids"])


def test_a_hung_stream_is_freed_when_its_client_leaves(serve_mock):
    server = serve_mock(SAY, mock_fault="hang-after=2")
    body = {"model": "antiphon-mock", "max_tokens": 50, "stream": True, "messages": [{"role": "user", "content": "hello"}]}
    with server.http.stream("POST", "/v1/messages", json=body) as answer:
        lines = answer.iter_lines()
        assert any("two" in line for line in lines)
        assert server.pipeline.engine.running == 1
    assert any(server.running_turns() == 0 for _ in range(1000)) and server.pipeline.engine.running == 0
