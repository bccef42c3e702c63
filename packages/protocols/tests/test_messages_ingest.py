"""Messages bodies as clients send them, and as they should not."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon_protocols import messages
from antiphon_turns import (
    AgentHints,
    AssistantMessage,
    CallSegment,
    Message,
    OutputFormat,
    ReasoningSegment,
    ReplayWish,
    SystemMessage,
    TextSegment,
    Thinking,
    ToolChoice,
    ToolMessage,
    TurnRequest,
    UserMessage,
)
from antiphon_turns.errors import InvalidRequest, RequestError, UnsupportedFeature
from antiphon_turns.ids import carrier

HI = {"role": "user", "content": "hi"}
RUN = {"name": "run", "description": "runs", "input_schema": {"type": "object", "properties": {"command": {"type": "string"}}}}
WEB = {"type": "web_search_20250305", "name": "web_search", "max_uses": 5}


def text(value: str, **extra: Any) -> dict[str, Any]:
    return {"type": "text", "text": value, **extra}


def use(call_id: str, value: Any = None, name: str = "run") -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": name, "input": {} if value is None else value}


def result(call_id: str, *content: Any, **extra: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, **({"content": content[0]} if content else {}), **extra}


def body(**fields: Any) -> bytes:
    return json.dumps({"model": "m", "max_tokens": 10, "messages": [HI], **fields}).encode()


def turn(headers: dict[str, str] | None = None, **fields: Any) -> TurnRequest:
    return messages.ingest(body(**fields), headers or {}).turn


def history(*wire: Any, **fields: Any) -> tuple[Message, ...]:
    return turn(messages=list(wire), **fields).messages


@pytest.mark.parametrize(
    ("wire", "messages_out"),
    [
        ([HI], (UserMessage("hi"),)),
        ([{"role": "user", "content": [text("a", cache_control={"type": "ephemeral"}), text("b")]}], (UserMessage("a\nb"),)),
        ([HI, {"role": "system", "content": "late"}], (UserMessage("hi"), SystemMessage("late"))),
        ([{"role": "developer", "content": [text("d")]}, HI], (SystemMessage("d"), UserMessage("hi"))),
        ([HI, {"role": "assistant", "content": "pre"}], (UserMessage("hi"), AssistantMessage((TextSegment("pre"),)))),
        ([HI, {"role": "assistant", "content": []}, HI], (UserMessage("hi"), AssistantMessage(()), UserMessage("hi"))),
        ([{"role": "user", "content": []}], (UserMessage(""),)),
    ],
    ids=["string", "blocks", "late system", "developer", "prefill", "empty assistant", "empty user"],
)
def test_messages(wire: list[Any], messages_out: tuple[Message, ...]) -> None:
    assert history(*wire) == messages_out


def test_an_agent_history_keeps_its_order() -> None:
    assistant = [
        {"type": "thinking", "thinking": "T1", "signature": "s1"},
        {"type": "redacted_thinking", "data": "xyz"},
        text("X1"),
        text("X2"),
        use("call_1", {"command": "ls"}),
        {"type": "thinking", "thinking": "T2", "signature": ""},
        use("call_2"),
    ]
    user = [text("before"), result("call_1", "out", is_error=True), result("call_2", [text("l1"), text("l2")]), text("after")]
    assert history(HI, {"role": "assistant", "content": assistant}, {"role": "user", "content": user}) == (
        UserMessage("hi"),
        AssistantMessage(
            (
                ReasoningSegment("T1", "s1"),
                TextSegment("X1\nX2"),
                CallSegment("run", '{"command": "ls"}', "call_1"),
                ReasoningSegment("T2"),
                CallSegment("run", "{}", "call_2"),
            )
        ),
        UserMessage("before"),
        ToolMessage("call_1", "out", "run", is_error=True),
        ToolMessage("call_2", "l1\nl2", "run"),
        UserMessage("after"),
    )


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), st.sampled_from(["user", "assistant", "system"]))
def test_a_string_and_a_list_of_one_block_are_the_same_request(value: str, role: str) -> None:
    as_string = turn(system=value, messages=[HI, {"role": role, "content": value}])
    as_list = turn(system=[text(value)], messages=[HI, {"role": role, "content": [text(value)]}])
    assert as_string == as_list


def test_results_find_their_call_after_a_client_rewrote_the_ids() -> None:
    wire = [HI, {"role": "assistant", "content": [use("call_a-1")]}, {"role": "user", "content": [result("calla1"), result("other")]}]
    assert history(*wire)[2:] == (ToolMessage("calla1", "", "run"), ToolMessage("other", "", None))


def test_withheld_thinking_is_kept_only_with_a_carrier_of_ours() -> None:
    ours = carrier("abcdefghijklmnop", 0)
    blocks = [{"type": "thinking", "thinking": "\u200b", "signature": ours}, {"type": "thinking", "thinking": "", "signature": "theirs"}]
    assert history(HI, {"role": "assistant", "content": blocks})[1] == AssistantMessage((ReasoningSegment("", ours),))


@pytest.mark.parametrize(
    ("value", "arguments"),
    [
        ({"b": 1, "a": [1.50]}, '{"b": 1, "a": [1.5]}'),
        ({"__unparsedToolInput": {"raw": "{", "len": 1}}, '{"__unparsedToolInput": {"raw": "{", "len": 1}}'),
        ("null", "{}"),
        ("", "{}"),
        ([], "{}"),
        ('{"a": 1}', '{"a": 1}'),
        ('{"command": "ls', '{"raw_arguments":"{\\"command\\": \\"ls"}'),
        ([1], '{"raw_arguments": "[1]"}'),
        (3, '{"raw_arguments": "3"}'),
    ],
)
def test_broken_arguments_in_the_history_never_end_a_session(value: Any, arguments: str) -> None:
    segments = history(HI, {"role": "assistant", "content": [use("c", value)]})[1]
    assert segments == AssistantMessage((CallSegment("run", arguments, "c"),))


def test_null_input_is_no_arguments() -> None:
    block = {"type": "tool_use", "id": "c", "name": "run", "input": None}
    assert history(HI, {"role": "assistant", "content": [block]})[1] == AssistantMessage((CallSegment("run", "{}", "c"),))


def test_tools_are_taken_verbatim_and_server_tools_are_not_offered() -> None:
    raw = (
        b'{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"x"}],"tools":[{"name":"t","input_schema":{"z": 1.50,\n"a":2}}]}'
    )
    assert messages.ingest(raw, {}).turn.tools[0].parameters == '{"z": 1.50,\n"a":2}'
    request = turn(tools=[WEB, {**RUN, "type": "custom", "eager_input_streaming": True, "cache_control": {"type": "ephemeral"}}])
    assert [tool.name for tool in request.tools] == ["run"]
    assert request.ignored == ("tools.0.web_search_20250305",)
    assert turn(tools=[]).tools == ()


def test_a_deferred_tool_is_shown_where_it_was_loaded() -> None:
    tools = [{**RUN, "defer_loading": True}]
    reference = [{"type": "tool_reference", "tool_name": "run"}, {"type": "tool_reference", "tool_name": "gone"}]
    wire = [HI, {"role": "assistant", "content": [use("c", name="ToolSearch")]}, {"role": "user", "content": [result("c", reference)]}]
    request = turn(messages=wire, tools=tools)
    assert request.tools[0].deferred
    shown = request.messages[2]
    assert isinstance(shown, ToolMessage)
    definition, gone = shown.text.split("\n")
    assert json.loads(definition) == {"name": "run", "description": "runs", "parameters": RUN["input_schema"]}
    assert gone == "gone"


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ({"type": "auto"}, ToolChoice()),
        ({"type": "auto", "disable_parallel_tool_use": True}, ToolChoice(parallel=False)),
        ({"type": "any"}, ToolChoice(mode="any")),
        ({"type": "none"}, ToolChoice(mode="none")),
        ({"type": "tool", "name": "run"}, ToolChoice(mode="named", name="run")),
        (None, ToolChoice()),
    ],
)
def test_tool_choice(choice: Any, expected: ToolChoice) -> None:
    assert turn(tools=[RUN], tool_choice=choice).tool_choice == expected


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, Thinking(mode="off")),
        ({"thinking": {"type": "disabled"}, "output_config": {"effort": "high"}}, Thinking(mode="off", effort="none")),
        ({"output_config": {"effort": "high"}}, Thinking(mode="off", effort="high")),
        ({"thinking": {"type": "between_tools"}, "nvext": {"max_thinking_tokens": 9}}, Thinking(mode="on", budget_tokens=9)),
        ({"thinking": {"type": "enabled", "budget_tokens": 4000}}, Thinking(mode="on", budget_tokens=4000)),
        ({"thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}}, Thinking(mode="adaptive", effort="high")),
    ],
)
def test_thinking(fields: dict[str, Any], expected: Thinking) -> None:
    assert turn(**fields).thinking == expected


def test_what_clients_send_unasked_is_accepted() -> None:
    request = messages.ingest(
        body(
            thinking={"type": "adaptive", "display": "omitted"},
            output_config={"effort": "low", "format": {"type": "json_schema", "schema": {}}},
            context_management={"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
            metadata={"user_id": json.dumps({"device_id": "d", "account_uuid": "", "session_id": "S"})},
            betas=["x"],
            service_tier="auto",
            cache_control={"type": "ephemeral"},
            container=None,
            mcp_servers=[],
            made_up=1,
            **{"bad\r\nname": 1},
        ),
        {"anthropic-beta": "a-1, b-2", "content-type": "application/json; charset=utf-8"},
    )
    assert request.display == "omitted"
    assert request.betas == ("a-1", "b-2")
    assert request.turn.session == "S"
    assert request.manages_context
    assert request.turn.replay == ReplayWish(turns="all")
    assert request.turn.output == OutputFormat(schema="{}")
    assert request.turn.ignored == ("made_up", "bad??name")


def test_sampling_and_stream() -> None:
    request = turn(temperature=1, top_p=0.5, top_k=40, stop_sequences=["END", "\n"], stream=True)
    assert (request.sampling.temperature, request.sampling.top_p, request.sampling.top_k) == (1.0, 0.5, 40)
    assert request.sampling.stop == ("END", "\n")
    assert (request.sampling.max_tokens, request.stream, request.surface) == (10, True, "messages")


def test_hints_come_from_the_body_and_headers_win() -> None:
    nvext = {"agent_hints": {"priority": 3, "osl": 9, "latency_sensitivity": 0.5, "speculative_prefill": True, "more": 1}}
    assert turn(nvext=nvext).hints == AgentHints(priority=3, osl=9, latency_sensitivity=0.5, speculative_prefill=True)
    headers = {"x-dynamo-request-priority": "-7", "x-dynamo-request-strict-priority": "2"}
    assert turn(headers, nvext=nvext).hints.priority == -7
    assert turn(headers, nvext=nvext).hints.strict_priority == 2
    request = messages.ingest(body(nvext={"argument_streaming": "incremental"}), {})
    assert request.argument_streaming == "incremental"


def test_half_an_emoji_does_not_end_a_session() -> None:
    raw = rb'{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"a\ud83d b\ude00 \ud83d\ude00 \\ud83d"}]}'
    assert messages.ingest(raw, {}).turn.messages == (UserMessage("a\ufffd b\ufffd \U0001f600 \\ud83d"),)


def test_counting_needs_no_max_tokens() -> None:
    raw = json.dumps({"model": "m", "messages": [HI], "tools": [RUN], "system": "s"}).encode()
    counted = messages.ingest_count(raw, {})
    assert counted.messages == turn(system="s", tools=[RUN]).messages
    assert messages.count_body(12) == b'{"input_tokens":12}'


BAD: list[tuple[str, dict[str, Any], str, str]] = [
    ("no max_tokens", {"max_tokens": None}, "max_tokens", "Field required"),
    ("zero max_tokens", {"max_tokens": 0}, "max_tokens", "greater than 0"),
    ("negative max_tokens", {"max_tokens": -1}, "max_tokens", "greater than 0"),
    ("fractional max_tokens", {"max_tokens": 1.5}, "max_tokens", "int"),
    ("boolean max_tokens", {"max_tokens": True}, "max_tokens", "int"),
    ("model number", {"model": 4}, "model", "Expected str, got int"),
    ("model empty", {"model": ""}, "model", "empty"),
    ("messages string", {"messages": "hi"}, "messages", "Expected array"),
    ("no messages", {"messages": []}, "messages", "at least one"),
    ("unknown role", {"messages": [{"role": "robot", "content": "x"}]}, "messages.0.role", "'robot'"),
    ("no role", {"messages": [{"content": "x"}]}, "messages.0.role", "Field required"),
    ("no content", {"messages": [HI, {"role": "user"}]}, "messages.1.content", "Field required"),
    ("content number", {"messages": [{"role": "user", "content": 7}]}, "messages.0.content", "got int"),
    ("block number", {"messages": [{"role": "user", "content": [7]}]}, "messages.0.content.0", "got int"),
    ("block without type", {"messages": [{"role": "user", "content": [{"text": "x"}]}]}, "messages.0.content.0.type", "Field required"),
    ("text null", {"messages": [{"role": "user", "content": [text("a"), text(None)]}]}, "messages.0.content.1.text", "null"),  # type: ignore[arg-type]
    ("call in user", {"messages": [{"role": "user", "content": [use("c")]}]}, "messages.0.content.0", "'tool_use'"),
    ("result in assistant", {"messages": [HI, {"role": "assistant", "content": [result("c")]}]}, "messages.1.content.0", "'tool_result'"),
    ("result in system", {"messages": [{"role": "system", "content": [result("c")]}]}, "messages.0.content.0", "'system'"),
    (
        "result without id",
        {"messages": [{"role": "user", "content": [{"type": "tool_result"}]}]},
        "messages.0.content.0.tool_use_id",
        "req",
    ),
    ("tool without schema", {"tools": [{"name": "t"}]}, "tools.0.input_schema", "Field required"),
    ("tool with schema list", {"tools": [{"name": "t", "input_schema": []}]}, "tools.0.input_schema", "object"),
    ("tool without name", {"tools": [{"input_schema": {}}]}, "tools.0.name", "Field required"),
    ("tool named twice", {"tools": [RUN, RUN]}, "tools.1.name", "unique"),
    ("unknown tool chosen", {"tools": [RUN], "tool_choice": {"type": "tool", "name": "x"}}, "tool_choice.name", "'x'"),
    ("no tool chosen", {"tools": [RUN], "tool_choice": {"type": "tool"}}, "tool_choice.name", "Field required"),
    ("any without tools", {"tool_choice": {"type": "any"}}, "tool_choice", "at least one"),
    ("any with server tools", {"tools": [WEB], "tool_choice": {"type": "any"}}, "tool_choice", "at least one"),
    ("unknown choice", {"tool_choice": {"type": "maybe"}}, "tool_choice", "maybe"),
    ("temperature high", {"temperature": 1.1}, "temperature", "between 0 and 1"),
    ("temperature string", {"temperature": "hot"}, "temperature", "got str"),
    ("top_p high", {"top_p": 2}, "top_p", "between 0 and 1"),
    ("top_k negative", {"top_k": -1}, "top_k", "negative"),
    ("empty stop", {"stop_sequences": ["a", ""]}, "stop_sequences.1", "empty"),
    ("stop string", {"stop_sequences": "END"}, "stop_sequences", "array"),
    ("unknown thinking", {"thinking": {"type": "maybe"}}, "thinking", "maybe"),
    ("zero budget", {"thinking": {"type": "enabled", "budget_tokens": 0}}, "thinking.budget_tokens", "greater"),
    ("system number", {"system": 5}, "system", "got int"),
    ("hint string", {"nvext": {"agent_hints": {"priority": "high"}}}, "nvext.agent_hints.priority", "got str"),
    ("stream string", {"stream": "yes"}, "stream", "got str"),
]


@pytest.mark.parametrize(("fields", "param", "says"), [case[1:] for case in BAD], ids=[case[0] for case in BAD])
def test_bad_input_is_refused_with_its_path(fields: dict[str, Any], param: str, says: str) -> None:
    with pytest.raises(RequestError) as caught:
        turn(**fields)
    error = caught.value
    assert error.param == param
    assert error.message.startswith(f"{param}: ")
    assert says in error.message
    assert messages.error_response(error, "req_1").status == 400


@pytest.mark.parametrize(
    ("kind", "place"),
    [("image", "message"), ("document", "message"), ("container_upload", "message"), ("container_upload", "result")],
)
def test_a_block_that_cannot_be_honoured_is_refused_by_name_and_path(kind: str, place: str) -> None:
    block = {"type": kind, "source": {"type": "base64", "data": "x"}}
    content = [text("a"), result("c", [block]) if place == "result" else block]
    path = "messages.1.content.1.content.0" if place == "result" else "messages.1.content.1"
    with pytest.raises(UnsupportedFeature) as caught:
        history(HI, {"role": "user", "content": content})
    assert caught.value.param == path
    assert f"'{kind}'" in caught.value.message


@pytest.mark.parametrize("field", ["container", "mcp_servers", "compaction", "fallbacks", "inference_geo"])
def test_a_field_that_cannot_be_honoured_is_refused_by_name(field: str) -> None:
    with pytest.raises(UnsupportedFeature) as caught:
        messages.ingest(body(**{field: [{"x": 1}]}), {})
    assert caught.value.param == field


@pytest.mark.parametrize(
    ("thread", "details"),
    [
        ({"type": "create"}, {"error_code": "thread_unsupported_request", "unsupported": ["thread"]}),
        ({"type": "continue", "previous_message_id": "msg_1"}, {"error_code": "thread_not_found"}),
    ],
)
def test_threads_are_refused_with_the_details_the_sdk_acts_on(thread: dict[str, str], details: dict[str, Any]) -> None:
    with pytest.raises(UnsupportedFeature) as caught:
        turn(thread=thread)
    response = messages.error_response(caught.value, "req_1")
    assert response.status == 400
    assert json.loads(response.body)["error"]["details"] == details


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b'"x"',
        b"\xff\xfe",
        b'{"model":"\xff"}',
        b"[" * 1_000_000,
        b'{"model":"m","max_tokens":1,"messages":[],"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"model":"m","tools":[{"name":"t","input_schema":' + b'{"a":' * 100_000 + b"1" + b"}" * 100_000 + b"}]}",
        b"\x00" * 1_000_000,
    ],
    ids=["empty", "cut", "null", "list", "string", "bytes", "latin", "deep", "deep unknown", "deep schema", "zeros"],
)
def test_garbage_is_a_400(raw: bytes) -> None:
    with pytest.raises(InvalidRequest) as caught:
        messages.ingest(raw, {})
    assert len(caught.value.message) < 400


@settings(max_examples=150)
@given(st.binary(max_size=60) | st.text(max_size=30).map(lambda value: json.dumps(value).encode("utf-8", "surrogatepass")))
def test_no_bytes_raise_anything_else(raw: bytes) -> None:
    for payload in (raw, b'{"model":"m","max_tokens":1,"messages":' + raw + b"}"):
        with pytest.raises(RequestError):
            messages.ingest(payload, {})


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded"])
def test_a_wrong_content_type_is_refused(content_type: str) -> None:
    with pytest.raises(InvalidRequest, match="application/json"):
        messages.ingest(body(), {"content-type": content_type})
