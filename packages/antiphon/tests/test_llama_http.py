"""Request bodies and event parsing of the llama.cpp protocol, without a server."""

import json

import pytest

from antiphon.engines.base import Job
from antiphon.engines.default_model import default_model_path
from antiphon.engines.llama_http import Event, EventReader, Gaps, Seat, completion_body, error_message, sampling_fields
from antiphon_turns import Sampling
from antiphon_turns.errors import ConfigError, WorkerProtocolError

STREAM = (
    b'data: {"content":"","tokens":[0],"stop":false,"tokens_predicted":0,"prompt_progress":{"total":3,"cache":2,"processed":2}}\n\n'
    b": ping\n\n"
    b'data: {"content":"Hi","tokens":[7],"stop":false,"tokens_predicted":1}\n\n'
    b'data: {"content":"","tokens":[],"stop":true,"stop_type":"limit","tokens_predicted":1,"timings":{"cache_n":2}}\n\n'
)


@pytest.mark.parametrize(
    ("sampling", "fields"),
    [
        (Sampling(), {}),
        (Sampling(temperature=0.0, top_p=0.5, seed=3), {"temperature": 0, "top_k": 1}),
        (Sampling(temperature=0.7, top_p=0.9, top_k=5, min_p=0.1), {"temperature": 0.7, "top_p": 0.9, "top_k": 5, "min_p": 0.1}),
        (Sampling(seed=-1), {"seed": 4294967294}),
        (Sampling(presence_penalty=0.5, frequency_penalty=0.0), {"presence_penalty": 0.5, "frequency_penalty": 0.0}),
    ],
)
def test_sampling_is_mapped_to_the_servers_names(sampling: Sampling, fields: dict[str, float]) -> None:
    assert sampling_fields(sampling) == fields


def test_the_body_asks_for_ids_in_a_stream() -> None:
    job = Job(request_id="r", prompt_ids=[1, 2], max_tokens=5, sampling=Sampling(), stop_ids=frozenset(), grammar="%llguidance {}")
    body = json.loads(completion_body(job, Seat(1, True)))
    assert body["prompt"] == [1, 2]
    assert (body["n_predict"], body["grammar"]) == (5, "%llguidance {}")
    assert body["stream"] and body["return_tokens"] and body["return_progress"] and body["cache_prompt"]


@pytest.mark.parametrize("size", [1, 2, 7, 64, len(STREAM)])
def test_events_are_the_same_however_the_bytes_are_cut(size: int) -> None:
    reader = EventReader()
    events = [event for at in range(0, len(STREAM), size) for event in reader.feed(STREAM[at : at + size])]
    assert [event.tokens for event in events] == [[0], [7], []]
    assert events[0].prompt_progress is not None and events[0].prompt_progress.cache == 2
    assert events[-1].stop and events[-1].stop_type == "limit"


def test_an_unreadable_event_is_a_protocol_error() -> None:
    with pytest.raises(WorkerProtocolError):
        EventReader().feed(b"data: {oops\n\n")


def test_withheld_ids_are_noticed_by_the_count() -> None:
    gaps = Gaps()
    events = [
        Event(tokens=[5], content="a", tokens_predicted=1),
        Event(tokens=[218], content="\N{GRINNING FACE}", tokens_predicted=4),
        Event(tokens=[6], content="b", tokens_predicted=5),
        Event(stop=True, tokens_predicted=6),
    ]
    assert [gaps.before(event) for event in events] == [0, 2, 0, 0]


@pytest.mark.parametrize(
    ("body", "message"), [(b'{"error":{"message":"too long","type":"x"}}', "too long"), (b"<html>no</html>", "<html>no</html>")]
)
def test_error_bodies_give_their_reason(body: bytes, message: str) -> None:
    assert error_message(body) == message


def test_the_default_model_is_found_or_its_absence_says_what_to_run() -> None:
    assert default_model_path().suffix == ".gguf"
    with pytest.raises(ConfigError, match="make install"):
        default_model_path("no-such-distribution-of-a-model")
    with pytest.raises(ConfigError, match=r"no \.gguf"):
        default_model_path("msgspec")
