"""The vendor's SDK against the whole Responses surface: background, retrieval, pages, compaction, counting, WebSocket."""

import time

import openai
import pytest

MODEL = "antiphon-mock"
RULES = [
    {"when": "answer with the notes alone", "say": "R\n</think>\n\nNOTES"},
    {"when": "second question", "say": "R\n</think>\n\nSECOND"},
    {"when": "", "say": "R\n</think>\n\nFIRST"},
]


@pytest.fixture
def client(serve_mock):
    server = serve_mock(RULES)
    with openai.OpenAI(api_key="x", base_url=server.url + "/v1", max_retries=0) as opened:
        yield opened


def test_a_stream_helper_s_final_response_is_the_stored_one(client):
    with client.responses.stream(model=MODEL, input="first question") as live:
        final = live.get_final_response()
    assert final.output_text.strip() == "FIRST"
    kept = client.responses.retrieve(final.id)
    assert (kept.status, kept.output_text, kept.usage) == (final.status, final.output_text, final.usage)
    following = client.responses.create(model=MODEL, input="second question", previous_response_id=final.id)
    assert (following.output_text.strip(), following.previous_response_id) == ("SECOND", final.id)


def test_background_is_polled_followed_and_cancelled(client):
    started = client.responses.create(model=MODEL, input="first question", background=True)
    assert started.status == "queued"
    deadline = time.monotonic() + 20
    while (found := client.responses.retrieve(started.id)).status in ("queued", "in_progress"):
        assert time.monotonic() < deadline
    assert (found.status, found.output_text.strip()) == ("completed", "FIRST")
    events = list(client.responses.retrieve(started.id, stream=True, starting_after=0))
    assert [event.sequence_number for event in events] == list(range(1, len(events) + 1))
    assert events[-1].type == "response.completed"
    assert client.responses.cancel(started.id).status == "completed"


def test_input_items_are_paged_by_the_sdk(client):
    items = [{"role": "user", "content": f"number {number}"} for number in range(7)]
    kept = client.responses.create(model=MODEL, input=items)
    paged = [
        item.content[0].text if not isinstance(item.content, str) else item.content
        for item in client.responses.input_items.list(kept.id, limit=2, order="asc")
    ]
    assert paged == [item["content"] for item in items]


def test_delete_and_not_found(client):
    kept = client.responses.create(model=MODEL, input="first question")
    client.responses.delete(kept.id)
    for ask in (client.responses.retrieve, client.responses.delete, client.responses.cancel):
        with pytest.raises(openai.NotFoundError):
            ask(kept.id)
    with pytest.raises(openai.BadRequestError) as refused:
        client.responses.create(model=MODEL, input="x", previous_response_id=kept.id)
    assert refused.value.code == "previous_response_not_found"


def test_compaction_and_counting(client):
    conversation = [{"role": "user", "content": "first question"}]
    compacted = client.responses.compact(model=MODEL, input=conversation)
    assert [item.type for item in compacted.output] == ["compaction"]
    following = [*(item.to_dict() for item in compacted.output), {"role": "user", "content": "second question"}]
    assert client.responses.create(model=MODEL, input=following).output_text.strip() == "SECOND"
    counted = client.responses.input_tokens.count(model=MODEL, input=following)
    assert counted.input_tokens == client.responses.create(model=MODEL, input=following).usage.input_tokens


# The SDK opens its connection in a way that its WebSocket library wants no more.
@pytest.mark.filterwarnings("ignore:connect.. must be used as a context manager:DeprecationWarning")
def test_a_connection(client):
    with client.responses.connect() as connection:
        connection.response.create(model=MODEL, store=False, input="first question")
        first = next(event for event in connection if event.type == "response.completed").response
        connection.response.create(model=MODEL, store=False, input="second question", previous_response_id=first.id)
        second = next(event for event in connection if event.type == "response.completed").response
        assert (first.output_text.strip(), second.output_text.strip()) == ("FIRST", "SECOND")
        connection.response.create(model=MODEL, store=False, input="x", previous_response_id="resp_none")
        error = next(event for event in connection if event.type == "error")
        assert error.code == "previous_response_not_found"
