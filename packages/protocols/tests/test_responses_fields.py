"""Fields of Responses bodies: honoured, accepted and named, or refused by name; and bodies that are no request."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from packages.protocols.tests.responses_requests import USER, body, call, history, opened, result, turn

from antiphon_protocols import responses
from antiphon_protocols.advice import Advice
from antiphon_protocols.responses.ingest import VERBOSITY
from antiphon_turns import (
    AgentHints,
    OutputFormat,
    ReplayWish,
    Sampling,
    SystemMessage,
    Thinking,
    UserMessage,
)
from antiphon_turns.errors import InvalidRequest, RequestError, UnsupportedFeature


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
        ({"prompt_cache_key": "K"}, {"advice": Advice(session="K")}),
        ({"nvext": {"agent_hints": {"priority": 3}}}, {"advice": Advice(hints=AgentHints(priority=3))}),
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
        ({"effort": "none"}, Thinking(mode="off", effort="none"), ReplayWish()),
        ({"context": "current_turn"}, Thinking(), ReplayWish(turns="current")),
        ({"context": "auto"}, Thinking(), ReplayWish()),
        ({"effort": None, "context": "all_turns"}, Thinking(), ReplayWish(turns="all")),
    ],
)
def test_reasoning(reasoning: Any, thinking: Thinking, replay: ReplayWish) -> None:
    request = turn(reasoning=reasoning)
    assert (request.thinking, request.replay) == (thinking, replay)


def test_what_the_current_turn_leaves_out_is_the_renderers_choice() -> None:
    thought = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "r"}]}
    items = [USER, thought, {"role": "assistant", "content": "t"}, USER]
    assert history(*items, reasoning={"context": "current_turn"}) == history(*items)


def test_a_thinking_budget() -> None:
    assert turn(nvext={"max_thinking_tokens": 40}, reasoning={"effort": "low"}).thinking == Thinking(effort="low", budget_tokens=40)


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
