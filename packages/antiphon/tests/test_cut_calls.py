"""Cut calls over HTTP beyond the single turn: how often in a row a client is asked to go on, and what a mixed turn says."""

import json

import pytest

MODEL = "antiphon-mock"
PARAMETERS = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
TOOL = {"name": "Bash", "input_schema": PARAMETERS}
FUNCTION = {"type": "function", "function": {"name": "Bash", "parameters": PARAMETERS}}
CALL = "<tool_call>\n<function=Bash>\n<parameter=command>\necho one\n</parameter>\n</function>\n</tool_call>"
CUT = CALL[: CALL.index(" one")]


def rule(text, when="", finish="length"):
    return {"when": when, "say": "R\n</think>\n\n" + text, "finish": finish}


def stop_reason(server, text="go", **fields):
    body = {"model": MODEL, "max_tokens": 500, "stream": True, "tools": [TOOL], "messages": [{"role": "user", "content": text}]}
    answer = server.http.post("/v1/messages", json={**body, **fields}).text
    events = [json.loads(line.removeprefix("data: ")) for line in answer.splitlines() if line.startswith("data: ")]
    return next(event["delta"]["stop_reason"] for event in events if event["type"] == "message_delta")


def finish_reason(server, **fields):
    body = {"model": MODEL, "stream": True, "tools": [FUNCTION], "messages": [{"role": "user", "content": "go"}]}
    answer = server.http.post("/v1/chat/completions", json={**body, **fields}).text
    chunks = [json.loads(line.removeprefix("data: ")) for line in answer.splitlines() if line.startswith("data: {")]
    return next(choice["finish_reason"] for chunk in chunks for choice in chunk["choices"] if choice["finish_reason"])


MODES = [
    {"cut_calls": "recover"},
    {"argument_streaming": "incremental"},
    {"argument_streaming": "incremental", "cut_calls": "recover"},
]


@pytest.mark.parametrize("settings", MODES, ids=["recover", "incremental", "incremental, recover"])
def test_a_client_is_asked_to_go_on_twice_in_a_row_at_most(serve_mock, settings):
    server = serve_mock([rule("fine", when="good one", finish="stop"), rule(CUT)], **settings)
    assert [stop_reason(server) for _ in range(4)] == ["tool_use", "tool_use", "max_tokens", "max_tokens"]
    assert stop_reason(server, text="other") == "tool_use", "another conversation has a count of its own"
    again = [{"role": "user", "content": "go"}, {"role": "assistant", "content": "x"}, {"role": "user", "content": "good one"}]
    assert stop_reason(server, messages=again) == "end_turn"
    assert stop_reason(server) == "tool_use", "a turn without a cut call ends the row"


BEHIND = [
    # what the limit cut behind a whole call, and what the turn then says
    ("", "tool_use", "tool_calls"),
    ("\n", "tool_use", "tool_calls"),
    ("\nand so", "max_tokens", "length"),
    ("\n<think>\nand", "max_tokens", "length"),
    ("\n<think>\n", "max_tokens", "length"),
    ("\n" + CUT, "max_tokens", "length"),
    ("\n<tool_call>\n<function=Bash>", "max_tokens", "length"),
    ("\n<tool_call>\n<func", "max_tokens", "length"),
    ("\n<tool_call>", "max_tokens", "length"),
]


@pytest.mark.parametrize(("behind", "on_messages", "on_chat"), BEHIND)
def test_what_the_limit_cut_behind_a_whole_call_decides(serve_mock, behind, on_messages, on_chat):
    server = serve_mock([rule(CALL + behind)])
    assert stop_reason(server) == on_messages
    assert finish_reason(server) == on_chat
    assert server.traced()[-1]["finish"] == ("tool" if on_messages == "tool_use" else "length")
