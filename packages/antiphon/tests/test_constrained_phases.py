"""Structured output and held calls in phases: what each job of the engine is asked for, and what comes out."""

import json

import pytest

from antiphon.engines.base import Chunk

SCHEMA = {"type": "object", "properties": {"k": {"type": "integer"}}, "required": ["k"]}
TOOL = {"type": "function", "function": {"name": "put", "parameters": SCHEMA}}
CALL = "<tool_call>\n<function=put>\n<parameter=k>\n{}\n</parameter>\n</function>\n</tool_call>"
JSON_SCHEMA = {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}


class Played:
    """Makes the server's engine one that obeys grammars: each job speaks the next of `says`, token by token."""

    def __init__(self, server, monkeypatch, says):
        self.jobs, self.says, engine = [], list(says), server.pipeline.engine

        async def generate(job):
            self.jobs.append(job)
            text = self.says.pop(0)
            ids = engine._tokenizer.encode(text.removesuffix("..."), added=True)
            for place, token_id in enumerate(ids):
                last = place == len(ids) - 1 and text.endswith("...")
                yield Chunk([token_id], "length" if last else None, 0 if place == 0 else None)
            if not text.endswith("..."):
                yield Chunk([engine._script.end_id], "stop")

        monkeypatch.setattr(engine, "generate", generate)
        monkeypatch.setattr(engine, "constrains", True)

    @property
    def constrained(self):
        return [job.grammar is not None for job in self.jobs]


def choice(server, **fields):
    request = {"model": "antiphon-mock", "messages": [{"role": "user", "content": "go"}], "max_tokens": 500, **fields}
    answer = server.http.post("/v1/chat/completions", json=request)
    assert answer.status_code == 200, answer.text
    return answer.json()["choices"][0]


CASES = [
    # name, request, what the jobs say, which of them have a grammar, content
    ("reasons first", {"response_format": JSON_SCHEMA}, ["think\n</think>\n\nno matter", '{"k": 1}'], [False, True], '{"k": 1}'),
    ("no reasoning", {"response_format": {"type": "json_object"}, "reasoning_effort": "none"}, ['{"a": 2}'], [True], '{"a": 2}'),
    ("empty tools", {"response_format": JSON_SCHEMA, "tools": [], "reasoning_effort": "none"}, ['{"k": 3}'], [True], '{"k": 3}'),
    (
        "tools, and it speaks",
        {"response_format": JSON_SCHEMA, "tools": [TOOL], "reasoning_effort": "none"},
        ["I would say that", '{"k": 4}'],
        [False, True],
        '{"k": 4}',
    ),
    (
        "tools, and it calls",
        {"response_format": JSON_SCHEMA, "tools": [TOOL], "reasoning_effort": "none"},
        [CALL.format(5)],
        [False],
        None,
    ),
    (
        "no call wanted",
        {"response_format": JSON_SCHEMA, "tools": [TOOL], "tool_choice": "none", "reasoning_effort": "none"},
        ['{"k": 6}'],
        [True],
        '{"k": 6}',
    ),
]


@pytest.mark.parametrize(("fields", "says", "constrained", "content"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_structured_output(serve_mock, monkeypatch, fields, says, constrained, content):
    server = serve_mock([{"when": "", "say": "x"}])
    played = Played(server, monkeypatch, says)
    said = choice(server, **fields)["message"]
    assert played.constrained == constrained
    assert said["content"] == content
    if content is None:
        assert json.loads(said["tool_calls"][0]["function"]["arguments"]) == {"k": 5}


def test_structured_output_on_messages(serve_mock, monkeypatch):
    server = serve_mock([{"when": "", "say": "x"}])
    for place in (
        {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}},
        {"output_format": {"type": "json_schema", "schema": SCHEMA}},
    ):
        played = Played(server, monkeypatch, ["R\n</think>\n\n", '{"k": 7}'])
        body = {
            "model": "antiphon-mock",
            "max_tokens": 200,
            "messages": [{"role": "user", "content": "x"}],
            "thinking": {"type": "adaptive"},
        }
        content = server.http.post("/v1/messages", json={**body, **place}).json()["content"]
        assert [block.get("thinking") or block.get("text") for block in content] == ["R", '{"k": 7}']
        assert played.constrained == [False, True]


def test_a_large_tool_list_can_be_forced(serve_mock, monkeypatch):
    server = serve_mock([{"when": "", "say": "x"}])
    tools = [{"type": "function", "function": {"name": f"tool_{number}", "parameters": SCHEMA}} for number in range(300)]
    call = CALL.replace("put", "tool_299").format(8).removeprefix("<tool_call>\n<function=")
    played = Played(server, monkeypatch, [call])
    called = choice(server, tools=tools, tool_choice="required", reasoning_effort="none")["message"]["tool_calls"]
    assert called[0]["function"]["name"] == "tool_299"
    assert played.constrained == [True]


STRICT = {"type": "function", "function": {**TOOL["function"], "strict": True}}
HEAD = "<tool_call>\n<function=put>\n<parameter=k>\n"


@pytest.mark.parametrize(("tool", "constrained"), [(STRICT, [False, True, False]), (TOOL, [False])], ids=["strict", "free"])
def test_a_call_of_a_strict_tool_is_held_from_its_header_on(serve_mock, monkeypatch, tool, constrained):
    """The grammar is in force from the tool's name to the call's closer, and the turn goes on freely behind it."""
    server = serve_mock([{"when": "", "say": "x"}])
    free = f"Well.\n{CALL.format(9)}\nDone."
    played = Played(server, monkeypatch, [free, CALL.format(9).partition("=k>\n")[2], "\nDone."])
    said = choice(server, tools=[tool], reasoning_effort="none")
    assert played.constrained == constrained
    assert [call["function"]["arguments"] for call in said["message"]["tool_calls"]] == ['{"k":9}'] or [
        json.loads(call["function"]["arguments"]) for call in said["message"]["tool_calls"]
    ] == [{"k": 9}]
    assert said["message"]["content"].replace("\n", "") == "Well.Done."
    if tool is STRICT:
        held = played.jobs[1].prompt_ids[len(played.jobs[0].prompt_ids) :]
        text = server.pipeline.model.tokenizer.decode(held)
        assert text.startswith("Well.\n<tool_call>\n<function=put>") and HEAD.startswith(text[6:])


def test_a_held_call_that_the_limit_cuts_is_cut(serve_mock, monkeypatch):
    server = serve_mock([{"when": "", "say": "x"}])
    Played(server, monkeypatch, [f"{CALL.format(9)}", "12..."])
    said = choice(server, tools=[STRICT], reasoning_effort="none")
    assert (said["finish_reason"], said["message"].get("tool_calls")) == ("length", None)
