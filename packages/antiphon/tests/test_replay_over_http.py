"""Exact replay through the server: the next prompt of a session begins with what the engine holds, on every surface, after a restart
too; another tenant's seals and ids change nothing; what is lost is explained."""

import itertools
import json

import httpx
import pytest

CALL = "<tool_call>\n<function=run>\n<parameter=cmd>\n{}\n</parameter>\n</function>\n</tool_call>"
# Interleaved, with white space that the writer would not write.
FIRST = f"  Look\n first.</think>\n\n\nI look. \n{CALL.format('ls  -l')}\n<think>\n\nAnd then?\n</think>\n{CALL.format('pwd')}"
RULES = [
    {"when": r"tool_response.*tool_response.*assistant\n(?:<think>\n)?$", "say": "Done thinking.\n</think>\n\nAll done."},
    {"when": r"hello again", "say": "Yes?\n</think>\n\nAgain."},
    {"when": r"hello", "say": FIRST},
]
SCHEMA = {"type": "object", "properties": {"cmd": {"type": "string"}}, "required": ["cmd"]}


def ask(server, path, body, *, key="k1", stream=False):
    headers = {"x-api-key": key}
    answer = server.http.post(path, json={"model": "antiphon-mock", **body}, headers=headers)
    assert answer.status_code == 200, answer.text
    return answer


class Messages:
    """A session on Messages: blocks come back reordered and with compact arguments, as Claude Code does."""

    path = "/v1/messages"

    def __init__(self, **extra):
        self.extra = {"max_tokens": 500, "tools": [{"name": "run", "input_schema": SCHEMA}], "thinking": {"type": "adaptive"}, **extra}
        self.messages = [{"role": "user", "content": "hello"}]

    def body(self):
        return {**self.extra, "messages": self.messages}

    def take(self, answer, *, edit=lambda blocks: blocks):
        blocks = sorted(answer.json()["content"], key=lambda block: block["type"] == "tool_use")
        blocks = edit(blocks)
        results = [{"type": "tool_result", "tool_use_id": b["id"], "content": "ok"} for b in blocks if b["type"] == "tool_use"]
        self.messages += [{"role": "assistant", "content": blocks}, {"role": "user", "content": results or "hello again"}]


class Chat:
    """A session on Chat: one reasoning, one text, arguments spelled anew."""

    path = "/v1/chat/completions"

    def __init__(self, *, reasoning=True):
        self.reasoning = reasoning
        self.messages = [{"role": "user", "content": "hello"}]

    def body(self):
        return {"messages": self.messages, "tools": [{"type": "function", "function": {"name": "run", "parameters": SCHEMA}}]}

    def take(self, answer):
        message = answer.json()["choices"][0]["message"]
        calls = message.get("tool_calls") or []
        for call in calls:
            call["id"] = call["id"].replace("_", "")
            call["function"]["arguments"] = json.dumps(json.loads(call["function"]["arguments"]), separators=(",", ":"))
        if not self.reasoning:
            message.pop("reasoning_content", None)
        results = [{"role": "tool", "tool_call_id": call["id"], "content": "ok"} for call in calls]
        self.messages += [message, *(results or [{"role": "user", "content": "hello again"}])]


class Responses:
    """A session on Responses, every item sent back, ids left out."""

    path = "/v1/responses"

    def __init__(self):
        self.items = [{"role": "user", "content": "hello"}]

    def body(self):
        tools = [{"type": "function", "name": "run", "parameters": SCHEMA}]
        return {"input": self.items, "tools": tools, "store": False, "include": ["reasoning.encrypted_content"]}

    def take(self, answer):
        items = [{k: v for k, v in item.items() if k != "id"} for item in answer.json()["output"]]
        results = [{"type": "function_call_output", "call_id": i["call_id"], "output": "ok"} for i in items if i["type"] == "function_call"]
        self.items += [*items, *(results or [{"role": "user", "content": "hello again"}])]


SESSIONS = {
    "messages": Messages,
    "messages, thinking withheld": lambda: Messages(thinking={"type": "adaptive", "display": "omitted"}),
    "chat": Chat,
    "chat without reasoning": lambda: Chat(reasoning=False),
    "responses": Responses,
}


def extends(before, after):
    """Tokens of what the engine held after `before` that `after` does not begin with."""
    held = [*before["prompt_ids"], *before["output_ids"]]
    prompt = after["prompt_ids"]
    shared = next((i for i, (a, b) in enumerate(zip(held, prompt, strict=False)) if a != b), min(len(held), len(prompt)))
    return len(held) - shared


@pytest.mark.parametrize("name", SESSIONS)
def test_no_token_is_lost(serve_mock, name):
    server = serve_mock(RULES)
    session = SESSIONS[name]()
    for _ in range(3):
        answer = ask(server, session.path, session.body())
        session.take(answer)
    turns = server.traced()
    assert [extends(one, other) for one, other in itertools.pairwise(turns)] == [0, 0]
    assert "cause=" not in answer.headers["x-antiphon-cache"]


@pytest.mark.parametrize("name", ["messages", "messages, thinking withheld", "responses"])
def test_a_restart_loses_nothing_up_to_the_last_reasoning(serve_mock, name):
    server = serve_mock(RULES)
    session = SESSIONS[name]()
    session.take(ask(server, session.path, session.body()))
    server.pipeline.ledger.__init__(0)  # what a restart leaves of the memory; the keys stay
    server.pipeline.watch.sent.__init__(0)
    ask(server, session.path, session.body())
    first, second = server.traced()
    lost = extends(first, second)
    text = server.pipeline.model.tokenizer.decode(first["output_ids"])
    behind = text[text.rindex("</think>") + len("</think>") :]
    assert 0 < lost <= len(server.pipeline.model.tokenizer.encode(behind, added=True))


def test_another_tenant_gets_nothing_of_it(serve_mock):
    server = serve_mock(RULES)
    session = Messages()
    session.take(ask(server, session.path, session.body(), key="owner"))
    mine = ask(server, session.path, session.body(), key="owner")
    other = ask(server, session.path, session.body(), key="thief")
    first, owner, thief = server.traced()
    assert mine.status_code == other.status_code == 200
    assert extends(first, owner) == 0 and extends(first, thief) > 0


def test_what_is_lost_is_explained(serve_mock):
    server = serve_mock(RULES)
    session = Messages()
    session.take(
        ask(server, session.path, session.body()),
        edit=lambda blocks: [{**b, "text": "Edited."} if b["type"] == "text" else b for b in blocks],
    )
    answer = ask(server, session.path, {**session.body(), "system": "New."})
    note = answer.headers["x-antiphon-cache"]
    assert "lost=" in note and "cause=" in note and "hello" not in note and "Edited" not in note
    found = server.pipeline.watch.recent[-1].explanation
    assert [cause.code for cause in found.causes] == ["system_edited", "history_edited"] and found.lost_tokens > 0


def test_a_withheld_thinking_whose_seal_is_gone_is_named(serve_mock, caplog):
    server = serve_mock(RULES)
    session = SESSIONS["messages, thinking withheld"]()
    session.take(ask(server, session.path, session.body()))
    for block in session.messages[1]["content"]:
        if block["type"] == "thinking":
            block["signature"] = block["signature"][:-4] + "AAAA"
    server.pipeline.ledger.__init__(0)
    answer = ask(server, session.path, session.body())
    assert isinstance(answer, httpx.Response)
    assert any("replay_lost" in record.getMessage() for record in caplog.records)
