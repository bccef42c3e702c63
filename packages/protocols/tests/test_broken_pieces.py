"""What is wrong in a part of a body that is read later, or only passed on, is refused like the rest."""

import json

import pytest

from antiphon_protocols import chat, completions, messages, responses
from antiphon_turns.errors import InvalidRequest, RequestError

SCHEMA = {"type": "object", "properties": {"x": {"type": "@"}}}
HI = [{"role": "user", "content": "hi"}]


@pytest.mark.parametrize("field", ["type", "role", "id"])
@pytest.mark.parametrize("value", [7, 0.5, True, [], {}, ["message"]])
def test_the_head_of_an_item_is_text(field, value):
    item = {"type": "message", "role": "user", "id": "msg_1", "content": "hi", field: value}
    for items in ([item], [*HI, item], [item, *HI]):
        at = items.index(item)
        for read in (responses.read, responses.read_compact):
            with pytest.raises(InvalidRequest, match=f"input.{at}.{field}: Expected"):
                read(json.dumps({"model": "m", "input": items}).encode(), {})


BODIES = [
    ("schema of a Messages tool", messages.ingest, {"max_tokens": 1, "messages": HI, "tools": [{"name": "t", "input_schema": SCHEMA}]}),
    (
        "input of a past Messages call",
        messages.ingest,
        {
            "max_tokens": 1,
            "messages": [{"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "t", "input": {"x": "@"}}]}],
        },
    ),
    (
        "Messages output schema",
        messages.ingest,
        {"max_tokens": 1, "messages": HI, "output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}},
    ),
    (
        "schema of a Chat tool",
        chat.ingest,
        {"messages": HI, "tools": [{"type": "function", "function": {"name": "t", "parameters": SCHEMA}}]},
    ),
    ("Chat output schema", chat.ingest, {"messages": HI, "response_format": {"type": "json_schema", "json_schema": {"schema": SCHEMA}}}),
    ("a field nobody reads, Chat", chat.ingest, {"messages": HI, "frobnicate": {"x": "@"}}),
    ("a field nobody reads, Completions", completions.ingest, {"prompt": "hi", "frobnicate": "@"}),
    ("schema of a Responses tool", responses.read, {"input": "hi", "tools": [{"type": "function", "name": "t", "parameters": SCHEMA}]}),
]


@pytest.mark.parametrize(("ingest", "fields"), [case[1:] for case in BODIES], ids=[case[0] for case in BODIES])
def test_bytes_that_are_no_text_are_refused_wherever_they_stand(ingest, fields):
    body = json.dumps({"model": "m", **fields}).encode()
    ingest(body.replace(b"@", b"string"), {})
    with pytest.raises(InvalidRequest, match=r"^body: invalid JSON: .*utf-8"):
        ingest(body.replace(b"@", b"\xff"), {})


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (None, "messages.0.tool_calls.0.function: Field required"),
        ("function", "function: Field required"),
        ("custom", "type 'custom' is not"),
    ],
)
def test_a_past_chat_call_without_a_function_is_told_what_it_lacks(kind, said):
    past = {"role": "assistant", "tool_calls": [{"id": "a", "type": kind}]}
    with pytest.raises(RequestError, match=said):
        chat.ingest(json.dumps({"model": "m", "messages": [past, *HI]}).encode(), {})
