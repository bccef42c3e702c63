"""Why the cache missed, through a running server: each cause that a client can bring about, two at once, and who is told."""

import json

import pytest
from starlette.requests import Request

from antiphon.explain_route import is_local

HEADER = "x-anthropic-billing-header: cc_version=2.1.{}.abc; cc_entrypoint=cli;\n"
SYSTEM = "You are an agent.\nToday's date: 2026-11-{}\nBe brief."
TOOLS = [{"name": name, "description": f"It can {name}.", "input_schema": {"type": "object", "properties": {}}} for name in ("read", "run")]
SAY = [{"when": "", "say": "Hm.\n</think>\n\nHi."}]
CALL = '<tool_call>\n{"name": "run", "arguments": {"cmd": "ls"}}\n</tool_call>'


def ask(server, *, key=None, headers=None, path="/v1/messages", **body):
    sent = {**({"x-api-key": key} if key else {}), **(headers or {})}
    body = {"model": "antiphon-mock", "max_tokens": 100, **body}
    answer = server.http.post(path, json=body, headers=sent)
    assert answer.status_code == 200, answer.text
    return answer


def first(**changes):
    return {
        "system": SYSTEM.format(29),
        "thinking": {"type": "adaptive"},
        "tools": TOOLS,
        "messages": [{"role": "user", "content": "hello\nthere"}],
        **changes,
    }


def then(answer, before, **changes):
    """The next request of a session that changes nothing but `changes`."""
    messages = [*before["messages"], {"role": "assistant", "content": answer.json()["content"]}, {"role": "user", "content": "go on"}]
    return {**before, "messages": messages, **changes}


def edited(body):
    return [{"role": "user", "content": "hello\nyou"}, *body["messages"][1:]]


def told(server, *, key=None, **query):
    answer = server.http.get("/antiphon/explain", params=query, headers={"x-api-key": key} if key else {})
    assert answer.status_code == 200, answer.text
    return answer.json()["requests"]


CHANGES = {
    "date_line": (lambda body: {"system": SYSTEM.format(30)}, [("date_line", "message 0 line 2")]),
    "system_edited": (lambda body: {"system": SYSTEM.format(29) + "\nNew."}, [("system_edited", "message 0 line 4")]),
    "tools_changed": (lambda body: {"tools": TOOLS[:1]}, [("tools_changed", "head")]),
    "tool_order": (lambda body: {"tools": TOOLS[::-1]}, [("tool_order", "head")]),
    "history_edited": (lambda body: {"messages": edited(body)}, [("history_edited", "message 1 line 2")]),
    "two at once": (
        lambda body: {"system": SYSTEM.format(30), "tools": TOOLS[::-1]},
        [("tool_order", "head"), ("date_line", "message 0 line 2")],
    ),
    "nothing": (lambda body: {}, []),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_a_client_changed_is_named(serve_mock, name):
    change, expected = CHANGES[name]
    server = serve_mock(SAY)
    # Edited history begins another conversation; the session's name holds the two together.
    body = first()
    headers = {"x-session-id": "s1"}
    answer = ask(server, headers=headers, **body)
    follows = then(answer, body)
    again = ask(server, headers=headers, **{**follows, **change(follows)})
    row = told(server, session="s1")[-1]
    assert [(cause["code"], cause["place"]) for cause in row["causes"]] == expected
    assert (row["lost_tokens"] > 0) == bool(expected)
    assert f"cause={expected[0][0]}" in again.headers["x-antiphon-cache"] if expected else "cause" not in again.headers["x-antiphon-cache"]
    assert all(cause["sentence"] and cause["advice"] for cause in row["causes"])


def test_a_thinking_mode_that_changed_is_named(serve_mock):
    server = serve_mock(SAY)
    ask(server, **first(thinking={"type": "disabled"}))
    ask(server, **first())
    assert [(cause["code"], cause["place"]) for cause in told(server)[-1]["causes"]] == [("effort_changed", "head")]


def test_a_request_sent_again_misses_nothing(serve_mock):
    server = serve_mock(SAY)
    body = first(system=SYSTEM * 20)
    answer = ask(server, **body)
    ask(server, **then(answer, body))
    again = ask(server, **body)
    row = told(server)[-1]
    assert (row["causes"], row["lost_tokens"]) == ([], 0)
    assert row["expected_tokens"] == row["prompt_tokens"] >= row["cached_tokens"] > row["prompt_tokens"] - 64
    assert "cause" not in again.headers["x-antiphon-cache"]


def test_a_request_beside_the_conversation_misses_nothing(serve_mock):
    """A title, say: its own system text, no tools, the same session."""
    server = serve_mock(SAY)
    headers = {"x-session-id": "s1"}
    ask(server, headers=headers, **first())
    messages = [{"role": "user", "content": "What was said?"}]
    for _ in range(2):
        ask(server, headers=headers, **first(system="Write a title.", tools=[], messages=messages))
    ask(server, headers=headers, **first(system=SYSTEM.format(30), messages=[{"role": "user", "content": "Summary: hello was said."}]))
    *beside, anew = told(server)[-3:]
    assert [(row["causes"], row["lost_tokens"]) for row in beside] == [([], 0)] * 2
    # The conversation itself is still known.
    assert [cause["code"] for cause in anew["causes"]] == ["date_line", "client_compaction"]


def test_more_than_the_newest_prompt_of_a_session_is_expected(serve_mock):
    """One session's two lines, and another session of the tenant."""
    server = serve_mock(SAY)
    line = first(system=SYSTEM * 20)
    answer = ask(server, headers={"x-session-id": "s1"}, **line)
    ask(server, headers={"x-session-id": "s1"}, **first(system="Write a title."))
    for session in ("s1", "s2"):
        ask(server, headers={"x-session-id": session}, **then(answer, line, messages=line["messages"] + line["messages"]))
        row = told(server, session=session)[-1]
        assert row["expected_tokens"] >= row["cached_tokens"] > 300


@pytest.mark.parametrize("strip", [True, False])
def test_a_billing_header_costs_only_where_it_stays(serve_mock, strip):
    server = serve_mock(SAY, strip_anthropic_preamble=strip)
    body = first(system=HEADER.format(1) + SYSTEM)
    answer = ask(server, **body)
    ask(server, **then(answer, body, system=HEADER.format(2) + SYSTEM))
    row = told(server)[-1]
    assert [cause["code"] for cause in row["causes"]] == ([] if strip else ["billing_header"])
    if not strip:
        assert "cc_version=2.1.1.abc" in row["causes"][0]["detail"]


def test_a_compaction_is_named(serve_mock):
    server = serve_mock(SAY)
    headers = {"x-session-id": "s1"}
    body = first()
    answer = ask(server, headers=headers, **body)
    ask(server, headers=headers, **then(answer, body))
    ask(server, headers=headers, **first(messages=[{"role": "user", "content": "Summary: hello was said."}]))
    assert [cause["code"] for cause in told(server)[-1]["causes"]] == ["client_compaction"]


@pytest.mark.parametrize("recorded", [True, False])
def test_arguments_in_another_spelling_cost_only_without_record(serve_mock, recorded):
    server = serve_mock([{"when": "tool_response", "say": "Done."}, {"when": "", "say": f"</think>\n\n{CALL}"}], tool_call_parser="hermes")
    tools = [{"type": "function", "function": {"name": "run", "parameters": TOOLS[0]["input_schema"]}}]
    messages = [{"role": "user", "content": "hello"}]
    answer = ask(server, path="/v1/chat/completions", messages=messages, tools=tools)
    message = answer.json()["choices"][0]["message"]
    call = message["tool_calls"][0]
    call["function"]["arguments"] = json.dumps(json.loads(call["function"]["arguments"]), separators=(",", ":"))
    if not recorded:
        server.pipeline.ledger.__init__(0)
    messages = [*messages, message, {"role": "tool", "tool_call_id": call["id"], "content": "ok"}]
    ask(server, path="/v1/chat/completions", messages=messages, tools=tools)
    row = told(server)[-1]
    assert [(cause["code"], cause["place"]) for cause in row["causes"]] == ([] if recorded else [("arguments_respelled", "message 1.0")])


ACT = [{"when": "tool_response", "say": "Hm.\n</think>\n\nDone."}, {"when": "", "say": f"Hm.\n</think>\n\nI look.\n\n{CALL}"}]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda blocks: blocks, []),
        (lambda blocks: blocks[1:], [("reasoning_dropped", "message 2")]),
        (lambda blocks: [{**blocks[0], "thinking": "Hm?", "signature": ""}, *blocks[1:]], [("history_edited", "message 2")]),
        (lambda blocks: [blocks[0], blocks[2], blocks[1]], [("turn_rewritten", "message 2")]),
        (lambda blocks: [blocks[0], {"type": "text", "text": "I look?"}, blocks[2]], [("history_edited", "message 2.0 line 1")]),
        (lambda blocks: [blocks[2], blocks[1]], [("reasoning_dropped", "message 2"), ("turn_rewritten", "message 2")]),
    ],
    ids=["nothing", "reasoning", "other reasoning", "order", "text", "two at once"],
)
def test_a_turn_that_comes_back_otherwise_without_record(serve_mock, change, expected):
    server = serve_mock(ACT, tool_call_parser="hermes")
    body = first()
    blocks = ask(server, **body).json()["content"]
    server.pipeline.ledger.__init__(0)
    server.pipeline.seals = None
    result = [{"type": "tool_result", "tool_use_id": blocks[-1]["id"], "content": "a.txt"}]
    messages = [*body["messages"], {"role": "assistant", "content": change(blocks)}, {"role": "user", "content": result}]
    ask(server, **{**body, "messages": messages})
    assert [(cause["code"], cause["place"]) for cause in told(server)[-1]["causes"]] == expected


def test_a_policy_that_leaves_reasoning_out_is_named(serve_mock):
    server = serve_mock(SAY, replay="after_last_user")
    body = first()
    answer = ask(server, **body)
    ask(server, **then(answer, body))
    assert [(cause["code"], cause["place"]) for cause in told(server)[-1]["causes"]] == [("replay_policy", "message 2")]


def test_an_engine_that_held_nothing_is_named(serve_mock):
    server = serve_mock(SAY, mock_cache_blocks=0)
    body = first()
    answer = ask(server, **body)
    ask(server, **then(answer, body))
    assert [(cause["code"], cause["detail"][:2]) for cause in told(server)[-1]["causes"]] == [("evicted", "0 ")]


def test_only_the_tenant_is_told(serve_mock):
    server = serve_mock(SAY)
    ask(server, key="one", **first())
    ask(server, key="two", **first())
    assert len(told(server, key="one")) == len(told(server, key="two")) == 1
    assert told(server, key="one")[0]["request_id"] != told(server, key="two")[0]["request_id"]
    assert told(server) == told(server, key="three") == []


def test_requests_are_chosen(serve_mock):
    server = serve_mock(SAY)
    names = ["a", "b", "a"]
    ids = [ask(server, headers={"x-session-id": name}, **first()).headers["request-id"] for name in names]
    assert [row["request_id"] for row in told(server)] == ids
    assert [row["request_id"] for row in told(server, session="a")] == [ids[0], ids[2]]
    assert [row["request_id"] for row in told(server, request_id=ids[1])] == [ids[1]]
    assert [row["request_id"] for row in told(server, limit=1)] == [ids[2]]
    for wrong in ("0", "257", "x", "9" * 5000):
        answer = server.http.get("/antiphon/explain", params={"limit": wrong})
        assert answer.status_code == 400
        assert "limit" in answer.json()["error"]["message"]


def test_the_parts_of_the_prompt_add_up(serve_mock):
    server = serve_mock(SAY)
    body = first()
    answer = ask(server, **body)
    ask(server, **then(answer, body))
    old, row = told(server)
    assert old["parts"] == []  # it is not the last prompt of its conversation any more
    assert sum(part["tokens"] for part in row["parts"]) == row["prompt_tokens"]
    assert sum(part["shared"] for part in row["parts"]) == row["shared_tokens"]
    assert sum(part["cached"] for part in row["parts"]) == row["cached_tokens"] > 0
    assert {part["name"] for part in row["parts"]} == {"system", "tools", "user", "assistant", "reasoning", "opening", "other"}


def test_another_machine_is_not_told():
    def request(client, host):
        return Request({"type": "http", "client": (client, 1), "headers": [(b"host", host)], "server": ("x", 80), "path": "/"})

    assert is_local(request("127.0.0.1", b"localhost:8000")) and is_local(request("::1", b"[::1]:8000"))
    assert not is_local(request("10.0.0.2", b"localhost:8000"))
    assert not is_local(request("127.0.0.1", b"rebound.example:8000"))


def test_a_name_that_only_leads_here_is_refused(serve_mock):
    server = serve_mock(SAY)
    answer = server.http.get("/antiphon/explain", headers={"host": "rebound.example"})
    assert answer.status_code == 401
    keyed = serve_mock(SAY, api_key="k")
    assert keyed.http.get("/antiphon/explain").status_code == 401
    assert keyed.http.get("/antiphon/explain", headers={"x-api-key": "k", "host": "public.example"}).status_code == 200


def test_causes_are_bounded(serve_mock):
    server = serve_mock(SAY)
    many = [{**TOOLS[0], "name": f"tool_{number}"} for number in range(100)]
    body = first()
    answer = ask(server, **body)
    ask(server, **then(answer, body, tools=many))
    assert 100 < len(told(server)[-1]["causes"][0]["detail"]) < 520
