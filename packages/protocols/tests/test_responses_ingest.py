"""Input items of Responses bodies as clients send them: the messages they become."""

import json
from typing import Any

import pytest
from packages.protocols.tests.responses_requests import USER, body, call, history, ingest, result, said, turn

from antiphon_protocols import responses
from antiphon_protocols.responses.history import COMPACTED, UNREADABLE
from antiphon_turns import (
    CallSegment,
    Message,
    ReasoningSegment,
    SystemMessage,
    TextSegment,
    ToolMessage,
    UserMessage,
)
from antiphon_turns.errors import NotFound

CARRIER = "antiphon.abcdefghijklmnop.0"


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        ({"role": "user", "content": "a"}, UserMessage("a")),
        ({"type": "message", "role": "user", "content": [{"type": "input_text", "text": "a"}]}, UserMessage("a")),
        ({"role": "user", "content": [{"type": "input_text", "text": "a"}, {"text": "b"}]}, UserMessage("a\nb")),
        ({"role": "developer", "content": "d", "id": "msg_1"}, SystemMessage("d")),
        ({"role": "system", "content": [{"type": "input_text", "text": "s"}]}, SystemMessage("s")),
        ({"role": "assistant", "content": "x"}, said(TextSegment("x"))),
        ({"role": "assistant", "content": [{"type": "output_text", "text": "x", "annotations": []}]}, said(TextSegment("x"))),
        (
            {
                "type": "message",
                "role": "assistant",
                "status": "completed",
                "phase": "commentary",
                "content": [{"type": "refusal", "refusal": "no"}],
            },
            said(TextSegment("no")),
        ),
        ({"type": "reasoning", "summary": [{"type": "summary_text", "text": "s"}]}, said(ReasoningSegment("s"))),
        (
            {
                "type": "reasoning",
                "id": "rs_1",
                "summary": [],
                "content": [{"type": "reasoning_text", "text": "r"}],
                "encrypted_content": CARRIER,
            },
            said(ReasoningSegment("r", CARRIER)),
        ),
        ({"type": "reasoning", "summary": [], "content": None, "encrypted_content": CARRIER}, said(ReasoningSegment("", CARRIER))),
        (
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": "s"}], "content": None, "encrypted_content": "gAAA"},
            said(ReasoningSegment("s", "gAAA")),
        ),
        (call("c", arguments='{"b": 1, "a":2.50}'), said(CallSegment("run", '{"b": 1, "a":2.50}', "c"))),
        (call("c", arguments={"a": 1}), said(CallSegment("run", '{"a": 1}', "c"))),
        (
            {"type": "custom_tool_call", "call_id": "c", "name": "p", "input": 'a\n"b"'},
            said(CallSegment("p", '{"input": "a\\n\\"b\\""}', "c")),
        ),
        (
            {"type": "local_shell_call", "call_id": "c", "action": {"type": "exec", "command": ["ls", "-l"], "env": {}, "timeout_ms": 5}},
            said(CallSegment("local_shell", '{"command": ["ls", "-l"], "timeout_ms": 5}', "c")),
        ),
        (
            {"type": "shell_call", "call_id": "c", "action": {"commands": ["ls"], "timeout_ms": None}},
            said(CallSegment("shell", '{"commands": ["ls"]}', "c")),
        ),
        (
            {"type": "apply_patch_call", "call_id": "c", "operation": {"type": "delete_file", "path": "a"}},
            said(CallSegment("apply_patch", '{"type": "delete_file", "path": "a"}', "c")),
        ),
        (
            {"type": "tool_search_call", "call_id": "c", "execution": "client", "arguments": {"query": "q"}},
            said(CallSegment("tool_search", '{"query": "q"}', "c")),
        ),
        (result("c", "o"), ToolMessage("c", "o")),
        (result("c", None), ToolMessage("c", "")),
        (result("c", {"a": 1}), ToolMessage("c", '{"a": 1}')),
        (result("c", [{"type": "input_text", "text": "a"}, {"type": "output_text", "text": "b"}]), ToolMessage("c", "a\nb")),
        (result("c", "o", "custom_tool_call_output"), ToolMessage("c", "o")),
        ({"type": "function_call_output", "name": "run", "output": "o"}, ToolMessage("run", "o", "run")),
        (
            result(
                "c",
                [
                    {"stdout": "a\n", "stderr": "e", "outcome": {"type": "exit", "exit_code": 2}},
                    {"stdout": "b", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}},
                    {"stdout": "", "stderr": "", "outcome": {"type": "timeout"}},
                ],
                "shell_call_output",
            ),
            ToolMessage("c", "a\n\ne\n[exit code 2]\nb\n[timed out]"),
        ),
        ({"type": "apply_patch_call_output", "call_id": "c", "status": "failed", "output": "no"}, ToolMessage("c", "no", is_error=True)),
        ({"type": "apply_patch_call_output", "call_id": "c", "status": "completed"}, ToolMessage("c", "Done.")),
        ({"type": "compaction", "id": "cmp_1", "encrypted_content": "sealed:all of it"}, UserMessage(COMPACTED + "all of it")),
        ({"type": "compaction_summary", "encrypted_content": "gAAA"}, UserMessage(UNREADABLE)),
        (
            {"type": "agent_message", "author": "/main", "recipient": "/main/a", "content": [{"type": "input_text", "text": "go"}]},
            UserMessage("Message from the agent /main:\ngo"),
        ),
    ],
)
def test_items(item: dict[str, Any], expected: Message) -> None:
    assert history(item) == (expected,)


@pytest.mark.parametrize(
    "item",
    [
        {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "q"}},
        {"type": "file_search_call", "id": "fs_1", "queries": [], "status": "completed"},
        {"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": None},
        {"type": "mcp_list_tools", "id": "l", "server_label": "s", "tools": []},
        {"type": "made_up_next_year", "content": {"a": 1}},
    ],
)
def test_items_that_say_nothing_here_are_accepted_and_named(item: dict[str, Any]) -> None:
    request = turn(input=[USER, item, USER])
    assert request.messages == (UserMessage("u"), UserMessage("u"))
    assert request.ignored == (f"input.1.{item['type']}",)


@pytest.mark.parametrize(
    "item",
    [
        {"type": "reasoning", "summary": [], "encrypted_content": None},
        {"type": "reasoning", "summary": [], "encrypted_content": "gAAA-foreign"},
        {"type": "message", "role": "assistant", "content": []},
        {"type": "compaction_trigger"},
    ],
)
def test_items_without_content_leave_no_trace(item: dict[str, Any]) -> None:
    assert history(USER, item, USER) == (UserMessage("u"), UserMessage("u"))


def test_the_pieces_of_a_turn_keep_their_order() -> None:
    items = [
        {"role": "developer", "content": "base"},
        {"role": "developer", "content": "rules"},
        USER,
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [],
            "content": [{"type": "reasoning_text", "text": "r1"}],
            "encrypted_content": None,
        },
        {"role": "assistant", "content": [{"type": "output_text", "text": "t1"}]},
        call("call_a-1", arguments='{"a":1}'),
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "r2"}]},
        call("call_2", "now"),
        result("calla1", "1"),
        result("call_2", "2"),
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "r3"}]},
        {"role": "assistant", "content": "t2"},
        {"role": "assistant", "content": "t3"},
        {"role": "developer", "content": "rules v2"},
        USER,
    ]
    assert history(*items) == (
        SystemMessage("base"),
        SystemMessage("rules"),
        UserMessage("u"),
        said(
            ReasoningSegment("r1"),
            TextSegment("t1"),
            CallSegment("run", '{"a":1}', "call_a-1"),
            ReasoningSegment("r2"),
            CallSegment("now", "{}", "call_2"),
        ),
        ToolMessage("calla1", "1", "run"),
        ToolMessage("call_2", "2", "now"),
        said(ReasoningSegment("r3"), TextSegment("t2\nt3")),
        SystemMessage("rules v2"),
        UserMessage("u"),
    )


def test_a_local_shell_s_result_names_its_call_by_the_item() -> None:
    shell = {"type": "local_shell_call", "id": "lsh_1", "call_id": "call_1", "action": {"type": "exec", "command": ["ls"]}}
    wire = history(shell, {"type": "local_shell_call_output", "id": "lsh_1", "output": "out"})
    assert wire[1] == ToolMessage("call_1", "out", "local_shell")


@pytest.mark.parametrize("arguments", ["", "null", "[]", None])
def test_arguments_that_say_nothing_are_an_empty_object(arguments: Any) -> None:
    assert history(call("c", arguments=arguments)) == (said(CallSegment("run", "{}", "c")),)


def test_what_a_tool_shows_as_a_picture_is_a_placeholder_and_named() -> None:
    picture = {"type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgo="}
    request = turn(input=[call("c"), result("c", [{"type": "input_text", "text": "see"}, picture])])
    text = request.messages[1].text  # type: ignore[union-attr]
    assert text == "see\n[image not shown: this model reads text only]"
    assert request.ignored == ("input.1.output.1.input_image",)


def test_instructions_come_first_and_are_not_carried_over() -> None:
    past = [{"type": "message", "role": "user", "content": "before"}, {"type": "message", "role": "assistant", "content": "yes"}]
    request = ingest(past=past, previous_response_id="resp_1", instructions="now", input="after")
    assert request.turn.messages == (SystemMessage("now"), UserMessage("before"), said(TextSegment("yes")), UserMessage("after"))
    listed = turn(instructions=[{"role": "developer", "content": "a"}, {"role": "user", "content": "b"}])
    assert listed.messages == (SystemMessage("a"), UserMessage("b"), UserMessage("hi"))


def test_references_lead_to_stored_items() -> None:
    reference = {"type": "item_reference", "id": "msg_1"}
    call = responses.read(body(input=[reference, {"id": "msg_2"}, USER]), {})
    assert responses.references(call) == ("msg_1", "msg_2")
    stored = {
        "msg_1": {"type": "message", "id": "msg_1", "role": "user", "content": "first"},
        "msg_2": {"role": "user", "content": "second"},
    }
    assert ingest(stored=stored, input=[reference, {"id": "msg_2"}]).turn.messages == (UserMessage("first"), UserMessage("second"))
    kept = ingest(stored=stored, input=[reference, USER]).input
    assert [json.loads(bytes(item))["content"] for item in kept] == ["first", "u"]
    again = ingest(past=[stored["msg_1"]], previous_response_id="resp_1", input=[reference, USER])
    assert again.turn.messages == (UserMessage("first"), UserMessage("u"))
    assert [json.loads(bytes(item))["content"] for item in again.input] == ["u"]
    with pytest.raises(NotFound, match=r"input\.0: no item 'msg_1'"):
        ingest(input=[reference])


def test_items_are_labelled_for_the_store_and_otherwise_untouched() -> None:
    message = b'{"role":"user","content":"a"}'
    function = b'{"id":null,"type":"function_call","name":"f","arguments":"{\\"n\\": 1.50}","call_id":"c"}'
    reasoning = b'{"id":"rs_9","type":"reasoning","summary":[]}'
    raw = b'{"model":"m","input":[ %b, %b,%b]}' % (message, function, reasoning)
    items = responses.read(raw, {}, tag="tag").input
    assert bytes(items[2]) == reasoning
    assert [json.loads(bytes(item)) for item in items[:2]] == [
        {"type": "message", "id": "msg_tagin0", "role": "user", "content": "a"},
        {"type": "function_call", "id": "fc_tagin1", "name": "f", "arguments": '{"n": 1.50}', "call_id": "c"},
    ]
    text = responses.read(body(input="hi"), {}, tag="t").input
    assert json.loads(bytes(text[0])) == {
        "type": "message",
        "id": "msg_tin0",
        "role": "user",
        "content": [{"type": "input_text", "text": "hi"}],
    }
