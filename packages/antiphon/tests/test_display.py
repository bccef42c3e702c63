"""`thinking.display`, and pings while nothing else can be sent."""

import json

import pytest

from antiphon.surfaces import messages_surface
from antiphon_turns import SegmentDelta, SegmentEnd, SegmentStart, TurnEnd, TurnStart, Usage

ASK = {"model": "antiphon-mock", "max_tokens": 400, "messages": [{"role": "user", "content": "x"}], "stream": True}
TURN = [
    TurnStart("tag", "m", 5),
    SegmentStart(0, "reasoning"),
    SegmentDelta(0, "secret"),
    SegmentEnd(0, carrier="seal"),
    TurnEnd("end_turn", Usage(prompt_tokens=5)),
]


@pytest.mark.parametrize(
    ("display", "sealed", "thinking", "ignored"),
    [
        ("omitted", True, "\u200b", ()),
        ("omitted", False, "secret", ("thinking.display",)),
        ("summarized", True, "secret", ()),
        ("updates", True, "secret", ()),
        (None, True, "secret", ()),
    ],
)
def test_thinking_is_withheld_only_where_a_carrier_holds_it(display, sealed, thinking, ignored):
    wish = {"type": "adaptive", **({"display": display} if display else {})}
    call = messages_surface(carriers=lambda: sealed).ingest(json.dumps({**ASK, "thinking": wish}).encode(), {})
    projector = call.projector("req_1", 1)
    stream = b"".join(map(projector.push, TURN)).decode()
    block = json.loads(projector.body())["content"][0]
    assert (block["thinking"], block["signature"]) == (thinking, "seal")
    assert ("secret" in stream) == (thinking == "secret")
    assert stream.count("signature_delta") == 1
    assert call.turn.ignored == ignored


HELD = f"</think><tool_call>\n<function=f>\n<parameter=a>\n{'w ' * 12}\n</parameter>\n</function>\n</tool_call>"


@pytest.mark.parametrize(
    ("say", "delay", "until"),
    [
        ("</think>fine", 800, "content_block_start"),
        (HELD, 25, "content_block_start"),
    ],
    ids=["prefill", "held call"],
)
def test_pings_by_wall_clock(serve_mock, say, delay, until):
    server = serve_mock([{"when": "", "say": say}], mock_token_delay_ms=delay, keepalive_seconds=0.1)
    tools = [{"name": "f", "input_schema": {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}}]
    lines = server.http.post("/v1/messages", json={**ASK, "tools": tools, "thinking": {"type": "disabled"}}).text.splitlines()
    names = [line[7:] for line in lines if line.startswith("event: ")]
    assert names[0] == "message_start"
    assert names[: names.index(until)].count("ping") >= (1 if delay == 800 else 3)
