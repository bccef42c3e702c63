"""A tool choice that cannot be held to is refused by name, never dropped."""

import pytest

from antiphon.engines.mock import MockEngine

TOOL = {"name": "Bash", "input_schema": {"type": "object", "properties": {}}}
FUNCTION = {"type": "function", "function": {"name": "Bash", "parameters": {"type": "object", "properties": {}}}}
ASK = {"model": "antiphon-mock", "max_tokens": 50, "messages": [{"role": "user", "content": "go"}]}
REQUESTS = {
    "messages any": ("/v1/messages", {"tools": [TOOL], "tool_choice": {"type": "any"}}),
    "messages named": ("/v1/messages", {"tools": [TOOL], "tool_choice": {"type": "tool", "name": "Bash"}, "stream": True}),
    "chat required": ("/v1/chat/completions", {"tools": [FUNCTION], "tool_choice": "required", "stream": True}),
}


@pytest.mark.parametrize("name", REQUESTS)
def test_a_format_without_call_grammar_refuses_a_forced_call(serve_mock, monkeypatch, name):
    monkeypatch.setattr(MockEngine, "constrains", True)
    path, fields = REQUESTS[name]
    answer = serve_mock(tool_call_parser="none", reasoning_parser="none").http.post(path, json={**ASK, **fields})
    assert answer.status_code == 400
    assert "tool_choice" in answer.text and "plain" in answer.text


@pytest.mark.parametrize("choice", [{"type": "auto"}, {"type": "none"}])
def test_a_free_choice_is_served(serve_mock, monkeypatch, choice):
    monkeypatch.setattr(MockEngine, "constrains", True)
    server = serve_mock(tool_call_parser="kimi_k2", reasoning_parser="kimi_k2")
    assert server.http.post("/v1/messages", json={**ASK, "tools": [TOOL], "tool_choice": choice}).status_code == 200


def test_an_engine_that_cannot_constrain_takes_the_choice_as_a_wish(serve_mock):
    server = serve_mock(tool_call_parser="kimi_k2", reasoning_parser="kimi_k2")
    path, fields = REQUESTS["messages any"]
    assert server.http.post(path, json={**ASK, **fields}).status_code == 200
