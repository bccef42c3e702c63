"""Responses bodies as clients send them, and as they should not: input items, fields, and what is refused by name."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon_protocols import responses
from antiphon_protocols.responses.history import COMPACTED, UNREADABLE
from antiphon_protocols.responses.ingest import VERBOSITY
from antiphon_turns import (
    AgentHints,
    AssistantMessage,
    CallSegment,
    Message,
    OutputFormat,
    ReasoningSegment,
    ReplayWish,
    Sampling,
    SystemMessage,
    TextSegment,
    Thinking,
    ToolMessage,
    TurnRequest,
    UserMessage,
)
from antiphon_turns.errors import InvalidRequest, NotFound, RequestError, UnsupportedFeature

CARRIER = "antiphon.abcdefghijklmnop.0"


def body(**fields: Any) -> bytes:
    return json.dumps({"model": "m", "input": "hi", **fields}).encode()


def opened(text: str) -> str | None:
    return text.removeprefix("sealed:") if text.startswith("sealed:") else None


def ingest(headers: dict[str, str] | None = None, past: Any = (), stored: Any = None, **fields: Any) -> responses.ResponsesRequest:
    call = responses.read(body(**fields), headers or {}, tag="tag")
    kept = [msgspec.Raw(json.dumps(item).encode()) for item in past]
    found = {key: msgspec.Raw(json.dumps(item).encode()) for key, item in (stored or {}).items()}
    return responses.ingest(call, past=kept, stored=found, open_compaction=opened)


def turn(headers: dict[str, str] | None = None, **fields: Any) -> TurnRequest:
    return ingest(headers, **fields).turn


def history(*items: Any, **fields: Any) -> tuple[Message, ...]:
    return turn(input=list(items), **fields).messages


def said(*segments: Any) -> AssistantMessage:
    return AssistantMessage(tuple(segments))


USER = {"role": "user", "content": "u"}


def call(call_id: str, name: str = "run", arguments: Any = "{}", **extra: Any) -> dict[str, Any]:
    return {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments, **extra}


def result(call_id: str, output: Any, kind: str = "function_call_output", **extra: Any) -> dict[str, Any]:
    return {"type": kind, "call_id": call_id, "output": output, **extra}


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
            {"type": "agent_message", "author": "/root", "recipient": "/root/a", "content": [{"type": "input_text", "text": "go"}]},
            UserMessage("Message from the agent /root:\ngo"),
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
    assert text.startswith("see\n[an image ")
    assert "base64" not in text
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
    already = ingest(past=[stored["msg_1"]], previous_response_id="resp_1", input=[reference, USER]).turn.messages
    assert already == (UserMessage("first"), UserMessage("u"))
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


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, {"stream": False, "store": True, "background": False, "generate": True, "compacts": False}),
        ({"stream": True, "store": False}, {"stream": True, "store": False}),
        ({"background": True}, {"background": True, "store": True}),
        ({"type": "response.create", "generate": False, "input": []}, {"generate": False, "input": ()}),
        ({"input": [USER, {"type": "compaction_trigger"}]}, {"compacts": True}),
        ({"input": [{"type": "compaction_trigger"}, USER]}, {"compacts": False}),
        ({"previous_response_id": "resp_1", "input": []}, {"previous_response_id": "resp_1"}),
        ({"previous_response_id": ""}, {"previous_response_id": None}),
        ({"include": ["reasoning.encrypted_content"]}, {"include": frozenset({"reasoning.encrypted_content"})}),
        ({"prompt_cache_key": "K"}, {"session": "K"}),
        ({"nvext": {"agent_hints": {"priority": 3}}}, {"hints": AgentHints(priority=3)}),
    ],
)
def test_calls(fields: dict[str, Any], expected: dict[str, Any]) -> None:
    call = responses.read(body(**fields), {})
    assert {name: getattr(call, name) for name in expected} == expected


@pytest.mark.parametrize(
    "headers", [{"originator": "codex_exec"}, {"user-agent": "codex_cli_rs/0.171.0 (Linux)"}, {"originator": "Codex Desktop"}]
)
def test_codex_is_known_by_its_headers(headers: dict[str, str]) -> None:
    assert responses.read(body(), headers).is_codex
    assert not responses.read(body(), {"user-agent": "OpenAI/Python 3.57"}).is_codex


def test_sampling_and_other_fields() -> None:
    request = turn(
        {"session-id": "T"},
        max_output_tokens=7,
        temperature=0.5,
        top_p=0.9,
        top_logprobs=3,
        include=["message.output_text.logprobs"],
        chat_template_kwargs={"enable_thinking": False},
        prompt_cache_key="K",
    )
    assert request.sampling == Sampling(max_tokens=7, temperature=0.5, top_p=0.9, top_logprobs=3)
    assert (request.surface, request.session, request.template_kwargs) == ("responses", "T", {"enable_thinking": False})
    assert turn(include=["message.output_text.logprobs"]).sampling.top_logprobs == 0
    assert turn(top_logprobs=3).sampling.top_logprobs is None


@pytest.mark.parametrize(
    ("reasoning", "thinking", "replay"),
    [
        (None, Thinking(), ReplayWish()),
        ({"effort": "high", "summary": "auto"}, Thinking(effort="high"), ReplayWish()),
        ({"effort": "none"}, Thinking(mode="off"), ReplayWish()),
        ({"effort": None, "context": "all_turns"}, Thinking(), ReplayWish(turns="all")),
    ],
)
def test_reasoning(reasoning: Any, thinking: Thinking, replay: ReplayWish) -> None:
    request = turn(reasoning=reasoning)
    assert (request.thinking, request.replay) == (thinking, replay)


def test_reasoning_of_the_current_turn_alone() -> None:
    thought = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "r"}]}
    items = [
        USER,
        thought,
        call("a"),
        result("a", "1"),
        thought,
        {"role": "assistant", "content": "t"},
        USER,
        thought,
        call("b"),
        result("b", "2"),
    ]
    kept = [message for message in history(*items, reasoning={"context": "current_turn"}) if isinstance(message, AssistantMessage)]
    assert kept == [
        said(CallSegment("run", "{}", "a")),
        said(TextSegment("t")),
        said(ReasoningSegment("r"), CallSegment("run", "{}", "b")),
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, None),
        ({"format": {"type": "text"}}, None),
        ({"format": {"type": "json_object"}}, OutputFormat()),
        ({"format": {"type": "json_schema", "name": "n", "strict": True, "schema": {"z": 1}}}, OutputFormat(schema='{"z": 1}', name="n")),
    ],
)
def test_text_format(text: Any, expected: OutputFormat | None) -> None:
    assert turn(text=text).output == expected


@pytest.mark.parametrize(("verbosity", "note"), [("low", VERBOSITY["low"]), ("high", VERBOSITY["high"]), ("medium", None), (None, None)])
def test_verbosity_is_a_sentence_behind_the_system_text(verbosity: str | None, note: str | None) -> None:
    messages = history({"role": "developer", "content": "base"}, USER, text={"verbosity": verbosity})
    added = (SystemMessage(note),) if note else ()
    assert messages == (SystemMessage("base"), *added, UserMessage("u"))


def test_what_clients_send_unasked_is_accepted_and_unknown_fields_are_named() -> None:
    request = turn(
        client_metadata={"session_id": "s"},
        service_tier="auto",
        safety_identifier="s",
        user="u",
        metadata={"a": "b"},
        stream_options={"include_obfuscation": False},
        prompt_cache_retention="24h",
        truncation="disabled",
        max_tool_calls=3,
        conversation=None,
        prompt=None,
        made_up=1,
        context_management=[{"type": "compaction", "compact_threshold": 1000}],
    )
    assert request.ignored == ("made_up", "context_management")


@pytest.mark.parametrize(
    ("fields", "kind", "param"),
    [
        ({"model": ""}, InvalidRequest, "model"),
        ({"model": None}, InvalidRequest, "model"),
        ({"input": []}, InvalidRequest, "input"),
        ({"input": ""}, InvalidRequest, "input"),
        ({"input": [3]}, InvalidRequest, "input.0"),
        ({"input": [{}]}, InvalidRequest, "input.0.type"),
        ({"input": [{"type": 3}]}, InvalidRequest, "input.0.type"),
        ({"input": [USER, {"role": "robot", "content": "x"}]}, InvalidRequest, "input.1.role"),
        ({"input": [{"role": "user", "content": 3}]}, InvalidRequest, "input.0.content"),
        ({"input": [{"role": "user", "content": [{"type": "input_text"}]}]}, InvalidRequest, "input.0.content.0.text"),
        ({"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}]}, UnsupportedFeature, "input.0.content.0"),
        ({"input": [{"role": "user", "content": [{"text": "a"}, {"type": "input_file"}]}]}, UnsupportedFeature, "input.0.content.1"),
        ({"input": [{"type": "function_call", "arguments": "{}"}]}, InvalidRequest, "input.0.name"),
        ({"conversation": "conv_1"}, UnsupportedFeature, "conversation"),
        ({"prompt": {"id": "p"}}, UnsupportedFeature, "prompt"),
        ({"moderation": {"model": "m"}}, UnsupportedFeature, "moderation"),
        ({"background": True, "store": False}, InvalidRequest, "background"),
        ({"max_output_tokens": 0}, InvalidRequest, "max_output_tokens"),
        ({"temperature": 3}, InvalidRequest, "temperature"),
        ({"top_p": -1}, InvalidRequest, "top_p"),
        ({"top_logprobs": 21}, InvalidRequest, "top_logprobs"),
        ({"truncation": "some"}, InvalidRequest, "truncation"),
        ({"text": {"format": {"type": "grammar"}}}, UnsupportedFeature, "text.format"),
        ({"text": {"format": {"type": "json_schema", "name": "n"}}}, InvalidRequest, "text.format.schema"),
        ({"metadata": {"a": 1}}, InvalidRequest, "metadata"),
        ({"instructions": [{"role": "user", "content": [{"type": "input_image"}]}]}, UnsupportedFeature, "instructions.0.content.0"),
    ],
)
def test_refusals_name_the_field(fields: dict[str, Any], kind: type[RequestError], param: str) -> None:
    with pytest.raises(kind) as refused:
        turn(**fields)
    assert type(refused.value) is kind
    assert refused.value.param == param
    assert refused.value.message


@pytest.mark.parametrize("raw", [b"", b"[]", b"{", b'{"model":"m","input":"\xff"}', b'{"model":"m","input":[' + b"[" * 9000])
def test_bodies_that_are_no_request(raw: bytes) -> None:
    with pytest.raises(InvalidRequest):
        responses.read(raw, {})
    with pytest.raises(InvalidRequest):
        responses.read(body(), {"content-type": "text/plain"})


def test_bytes_that_are_only_repeated_must_be_text_too() -> None:
    with pytest.raises(InvalidRequest):
        responses.read(b'{"model":"m","input":"x","tools":[{"type":"web_search","x":"\xff"}]}', {})


def test_half_an_emoji_is_replaced_in_items_as_well() -> None:
    raw = b'{"model":"m","input":[{"role":"user","content":"a\\ud83d"},{"role":"user","content":"\\ud83d\\ude00"}]}'
    call = responses.read(raw, {})
    assert responses.ingest(call, open_compaction=opened).turn.messages == (UserMessage("a\ufffd"), UserMessage("😀"))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
VALID: dict[str, Any] = {
    "model": "m",
    "instructions": "i",
    "input": [USER, call("c"), result("c", [{"type": "input_text", "text": "o"}]), {"type": "reasoning", "summary": []}],
    "tools": [
        {"type": "function", "name": "run", "parameters": {}},
        {"type": "namespace", "name": "n", "tools": [{"type": "custom", "name": "x"}]},
    ],
    "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "run"}]},
    "reasoning": {"effort": "low"},
    "text": {"format": {"type": "json_object"}},
    "metadata": {},
    "nvext": {},
}


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, child in inner for place in places(child, (*path, key)))]


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(places(VALID)[1:]), json_values, st.sampled_from(["replace", "remove"]))
def test_any_change_to_a_body_is_read_or_refused(place: tuple[Any, ...], value: Any, how: str) -> None:
    changed = json.loads(json.dumps(VALID))
    holder = changed
    for key in place[:-1]:
        holder = holder[key]
    if how == "replace":
        holder[place[-1]] = value
    else:
        del holder[place[-1]]
    try:
        call = responses.read(json.dumps(changed).encode(), {})
        request = responses.ingest(call, open_compaction=opened)
    except RequestError:
        return
    assert json.loads(responses.Projector(request.options(response_id="resp_1", created=1)).snapshot("queued"))["status"] == "queued"
    assert request.turn.messages
