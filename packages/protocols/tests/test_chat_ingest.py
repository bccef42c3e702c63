"""Chat bodies as clients send them, and as they should not."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon_protocols import chat
from antiphon_turns import (
    AssistantMessage,
    CallSegment,
    Message,
    ReasoningSegment,
    Sampling,
    SystemMessage,
    TextSegment,
    Thinking,
    ToolChoice,
    ToolMessage,
    TurnRequest,
    UserMessage,
)
from antiphon_turns.errors import InvalidRequest, RequestError, UnsupportedFeature

HI = {"role": "user", "content": "hi"}
RUN = {"type": "function", "function": {"name": "run", "description": "runs", "parameters": {"type": "object"}, "strict": True}}


def call(call_id: str, arguments: Any, name: str = "run", **extra: Any) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}, **extra}


def body(**fields: Any) -> bytes:
    return json.dumps({"model": "m", "messages": [HI], **fields}).encode()


def turn(headers: dict[str, str] | None = None, **fields: Any) -> TurnRequest:
    return chat.ingest(body(**fields), headers or {}).turn


def history(*wire: Any) -> tuple[Message, ...]:
    return turn(messages=list(wire)).messages


@pytest.mark.parametrize(
    ("wire", "expected"),
    [
        ({"role": "system", "content": "s"}, SystemMessage("s")),
        ({"role": "developer", "content": [{"type": "text", "text": "d"}]}, SystemMessage("d")),
        ({"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "name": "n"}, UserMessage("a\nb")),
        ({"role": "assistant", "content": "x", "refusal": None, "annotations": []}, AssistantMessage((TextSegment("x"),))),
        ({"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]}, AssistantMessage((TextSegment("no"),))),
        ({"role": "assistant", "content": None}, AssistantMessage(())),
        ({"role": "tool", "tool_call_id": "c", "content": "out"}, ToolMessage("c", "out")),
        ({"role": "tool", "tool_call_id": "c", "content": None, "name": "run"}, ToolMessage("c", "", "run")),
        ({"role": "function", "name": "run", "content": "out"}, ToolMessage("run", "out", "run")),
    ],
)
def test_messages(wire: dict[str, Any], expected: Message) -> None:
    assert history(wire) == (expected,)


@pytest.mark.parametrize("key", ["reasoning_content", "reasoning", "thinking"])
def test_an_assistant_message_reasons_then_speaks_then_calls(key: str) -> None:
    calls = [call("call_a-1", '{"b": 1, "a":2.50}', index=0), call("call_2", "{}", "now")]
    wire = {"role": "assistant", "content": "text", "tool_calls": calls, key: "why"}
    results = [{"role": "tool", "tool_call_id": "calla1", "content": "1"}, {"role": "tool", "tool_call_id": "call_2", "content": "2"}]
    assert history(HI, wire, *results)[1:] == (
        AssistantMessage(
            (
                ReasoningSegment("why"),
                TextSegment("text"),
                CallSegment("run", '{"b": 1, "a":2.50}', "call_a-1"),
                CallSegment("now", "{}", "call_2"),
            )
        ),
        ToolMessage("calla1", "1", "run"),
        ToolMessage("call_2", "2", "now"),
    )


def test_reasoning_keys_that_hold_no_text_say_nothing() -> None:
    wire = {"role": "assistant", "content": "x", "reasoning_content": None, "reasoning": {"effort": "low"}, "thinking": ""}
    assert history(wire) == (AssistantMessage((TextSegment("x"),)),)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("null", "{}"),
        ("", "{}"),
        ("[]", "{}"),
        (None, "{}"),
        ({"a": 1}, '{"a": 1}'),
        ("3", '{"raw_arguments":"3"}'),
        ('{"command": "ls', '{"raw_arguments":"{\\"command\\": \\"ls"}'),
    ],
)
def test_broken_arguments_in_the_history_never_end_a_session(arguments: Any, expected: str) -> None:
    wire = {"role": "assistant", "content": None, "tool_calls": [call("x", arguments)]}
    assert history(HI, wire)[1] == AssistantMessage((CallSegment("run", expected, "x"),))


def test_the_older_function_call_of_a_history_is_a_call() -> None:
    wire = {"role": "assistant", "content": None, "function_call": {"name": "run", "arguments": "{}"}}
    assert history(HI, wire, {"role": "function", "name": "run", "content": "o"})[1:] == (
        AssistantMessage((CallSegment("run", "{}", "run"),)),
        ToolMessage("run", "o", "run"),
    )


@given(st.text(st.characters(exclude_categories=["Cs"])), st.sampled_from(["user", "assistant", "system", "tool"]))
def test_a_string_and_a_list_of_one_part_are_the_same_request(value: str, role: str) -> None:
    wire = {"role": role, "tool_call_id": "c"}
    assert history({**wire, "content": value}) == history({**wire, "content": [{"type": "text", "text": value}]})


def test_tools_are_taken_verbatim() -> None:
    tools = b'[{"type":"function","function":{"name":"t","parameters":{"z": 1.50}}}]'
    raw = b'{"model":"m","messages":[{"role":"user","content":"x"}],"tools":' + tools + b"}"
    assert chat.ingest(raw, {}).turn.tools[0].parameters == '{"z": 1.50}'
    assert turn(tools=[{"type": "function", "name": "t", "parameters": {"z": 1}}]).tools[0].parameters == '{"z": 1}'
    bare = turn(tools=[{"function": {"name": "t"}}, {"type": "function", "function": {"name": "u", "parameters": None}}]).tools
    assert [tool.schema for tool in bare] == [{"type": "object", "properties": {}}] * 2


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, ToolChoice()),
        ({"tool_choice": "auto"}, ToolChoice()),
        ({"tool_choice": "none"}, ToolChoice(mode="none")),
        ({"tool_choice": "required", "parallel_tool_calls": False}, ToolChoice(mode="any", parallel=False)),
        ({"tool_choice": {"type": "function", "function": {"name": "run"}}}, ToolChoice(mode="named", name="run")),
        ({"parallel_tool_calls": True}, ToolChoice()),
    ],
)
def test_tool_choice(fields: dict[str, Any], expected: ToolChoice) -> None:
    assert turn(tools=[RUN], **fields).tool_choice == expected


@pytest.mark.parametrize(
    ("effort", "expected"), [(None, Thinking()), ("none", Thinking(mode="off", effort="none")), ("medium", Thinking(effort="medium"))]
)
def test_reasoning_effort(effort: str | None, expected: Thinking) -> None:
    assert turn(reasoning_effort=effort).thinking == expected


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"thinking_budget": 50}, Thinking(budget_tokens=50)),
        ({"thinking_token_budget": 50, "reasoning_effort": "high"}, Thinking(effort="high", budget_tokens=50)),
        ({"nvext": {"max_thinking_tokens": 50}}, Thinking(budget_tokens=50)),
        ({"nvext": {"max_thinking_tokens": 50}, "thinking_budget": 7}, Thinking(budget_tokens=7)),
        ({"thinking_budget": 0}, Thinking(mode="off", effort="none")),
    ],
)
def test_thinking_budget(fields: dict[str, Any], expected: Thinking) -> None:
    assert turn(**fields).thinking == expected


@pytest.mark.parametrize(
    ("fields", "path"),
    [({"thinking_budget": -1}, "thinking_budget"), ({"nvext": {"max_thinking_tokens": -1}}, "nvext.max_thinking_tokens")],
)
def test_a_negative_budget_is_refused(fields: dict[str, Any], path: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        turn(**fields)
    assert refused.value.param == path


def test_sampling() -> None:
    sampling = turn(
        max_tokens=5, max_completion_tokens=7, stop="END", temperature=2, top_p=0.1, top_k=-1, min_p=0.05, seed=7, presence_penalty=-2
    ).sampling
    assert sampling == Sampling(
        max_tokens=7, temperature=2.0, top_p=0.1, top_k=None, min_p=0.05, seed=7, presence_penalty=-2.0, stop=("END",)
    )
    assert turn(max_tokens=5, stop=["a", "b"]).sampling == Sampling(max_tokens=5, stop=("a", "b"))
    assert turn(max_tokens=None, stop=None, temperature=None).sampling == Sampling()


def test_what_clients_send_unasked_is_accepted() -> None:
    request = chat.ingest(
        body(
            stream=True,
            stream_options={"include_usage": True},
            store=False,
            metadata={"a": "b"},
            user="u",
            service_tier="auto",
            prompt_cache_key="K",
            safety_identifier="s",
            verbosity="low",
            n=1,
            logprobs=False,
            top_logprobs=None,
            logit_bias={},
            functions=[],
            modalities=["text"],
            response_format={"type": "text"},
            chat_template_kwargs={"enable_thinking": False},
            made_up=1,
        ),
        {},
    )
    assert request.include_usage
    assert request.turn.stream
    assert request.turn.session == "K"
    assert request.turn.template_kwargs == {"enable_thinking": False}
    assert request.turn.ignored == ("verbosity", "made_up")


def test_a_request_may_ask_for_dispatch_events_and_streamed_arguments() -> None:
    request = chat.ingest(body(nvext={"dispatch": ["tool_call"], "argument_streaming": "whole"}), {})
    assert request.dispatch == {"tool_call"}
    assert request.argument_streaming == "whole"
    assert chat.ingest(body(), {}).dispatch == frozenset()


UNSUPPORTED: list[tuple[str, Any]] = [
    ("functions", [{"name": "f"}]),
    ("function_call", "auto"),
    ("logit_bias", {"5": 1}),
    ("audio", {"voice": "x"}),
    ("moderation", {"model": "x"}),
    ("web_search_options", {"user_location": None}),
    ("chat_template", "{{ x }}"),
    ("modalities", ["text", "audio"]),
]


@pytest.mark.parametrize(("field", "value"), UNSUPPORTED)
def test_a_field_that_cannot_be_honoured_is_refused_by_name(field: str, value: Any) -> None:
    with pytest.raises(UnsupportedFeature) as caught:
        turn(**{field: value})
    assert caught.value.param == field
    assert caught.value.message.startswith(f"{field}: ")


def bad_message(**fields: Any) -> dict[str, Any]:
    return {"messages": [HI, fields]}


IMAGE = [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": "data:..."}}]
BAD: list[tuple[dict[str, Any], str, str]] = [
    ({"messages": []}, "messages", "at least one"),
    ({"messages": {}}, "messages", "Expected array"),
    ({"model": ""}, "model", "empty"),
    ({"model": None}, "model", "null"),
    (bad_message(role="user"), "messages.1.content", "Field required"),
    (bad_message(role="user", content=3), "messages.1.content", "got int"),
    (bad_message(role="robot", content="x"), "messages.1.role", "'robot'"),
    (bad_message(role="tool", content="x"), "messages.1.tool_call_id", "Field required"),
    (bad_message(role="user", content=IMAGE), "messages.1.content.1", "'image_url'"),
    (bad_message(role="tool", tool_call_id="c", content=IMAGE), "messages.1.content.1", "'image_url'"),
    (bad_message(role="assistant", tool_calls=[{"id": "c", "type": "custom", "custom": {}}]), "messages.1.tool_calls.0", "'custom'"),
    (bad_message(role="assistant", tool_calls=[{"function": {}}]), "messages.1.tool_calls.0.function.name", "Field required"),
    ({"response_format": {"type": "grammar"}}, "response_format.type", "'grammar'"),
    ({"response_format": {"type": "json_schema"}}, "response_format.json_schema", "Field required"),
    ({"response_format": {"type": "json_schema", "json_schema": {"schema": []}}}, "response_format.json_schema.schema", "object"),
    ({"n": 0}, "n", "greater than 0"),
    ({"logprobs": True, "top_logprobs": 21}, "top_logprobs", "between 0 and 20"),
    ({"top_logprobs": 2}, "top_logprobs", "logprobs"),
    ({"max_tokens": 0}, "max_tokens", "greater than 0"),
    ({"max_completion_tokens": -5}, "max_completion_tokens", "greater than 0"),
    ({"temperature": 2.5}, "temperature", "between 0 and 2"),
    ({"top_p": -1}, "top_p", "between 0 and 1"),
    ({"frequency_penalty": 3}, "frequency_penalty", "between -2 and 2"),
    ({"seed": 2**70}, "seed", "between"),
    ({"seed": "x"}, "seed", "got str"),
    ({"stop": ["a", ""]}, "stop", "empty"),
    ({"tools": [{"type": "custom", "custom": {"name": "x"}}]}, "tools.0.type", "'custom'"),
    ({"tools": [{"type": "function"}]}, "tools.0.function", "Field required"),
    ({"tools": [{"function": {"name": ""}}]}, "tools.0.function.name", "empty"),
    ({"tools": [RUN, RUN]}, "tools.1.function.name", "unique"),
    ({"tools": [{"function": {"name": "x", "parameters": 4}}]}, "tools.0.function.parameters", "object"),
    ({"tool_choice": "required"}, "tool_choice", "at least one"),
    ({"tool_choice": "maybe"}, "tool_choice", "'maybe'"),
    ({"tools": [RUN], "tool_choice": {"type": "function", "function": {"name": "x"}}}, "tool_choice.function.name", "'x'"),
    ({"tools": [RUN], "tool_choice": {"type": "function"}}, "tool_choice.function", "Field required"),
    ({"tools": [RUN], "tool_choice": {"type": "allowed_tools", "allowed_tools": {}}}, "tool_choice", "'allowed_tools'"),
    ({"stream_options": []}, "stream_options", "got array"),
    ({"nvext": {"agent_hints": {"osl": -1}}}, "nvext.agent_hints.osl", "negative"),
    ({"nvext": {"agent_hints": {"strict_priority": -1}}}, "nvext.agent_hints.strict_priority", "negative"),
]


@pytest.mark.parametrize(("fields", "param", "says"), BAD)
def test_bad_input_is_refused_with_its_path(fields: dict[str, Any], param: str, says: str) -> None:
    with pytest.raises(RequestError) as caught:
        turn(**fields)
    assert caught.value.param == param
    assert caught.value.message.startswith(f"{param}: ")
    assert says in caught.value.message
    response = chat.error_response(caught.value, "req_1")
    assert response.status == 400
    assert json.loads(response.body)["error"]["param"] == param


def test_a_header_that_is_no_number_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="x-dynamo-request-priority: must be an integer"):
        turn({"x-dynamo-request-priority": "soon"})


@settings(max_examples=150)
@given(st.binary(max_size=60) | st.text(max_size=30).map(lambda value: json.dumps(value).encode("utf-8", "surrogatepass")))
def test_no_bytes_raise_anything_else(raw: bytes) -> None:
    for payload in (raw, b'{"model":"m","messages":' + raw + b"}"):
        with pytest.raises(RequestError):
            chat.ingest(payload, {})
