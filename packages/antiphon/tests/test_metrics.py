"""`/metrics` after turns that really ran."""

import pytest
from prometheus_client.parser import text_string_to_metric_families

from antiphon.client_family import FAMILIES, family_of
from antiphon.metrics.meter import TOKEN_SECONDS, TurnMeter
from antiphon_turns import CallReady

TOOLS = [{"name": "run", "description": "Runs.", "input_schema": {"type": "object", "properties": {"cmd": {"type": "string"}}}}]
CALL = "<tool_call>\n<function=run>\n<parameter=cmd>\nls\n</parameter>\n</function>\n</tool_call>"
RULES = [{"when": "act", "say": f"Hm, hm.\n</think>\n\n{CALL}"}, {"when": "", "say": "Hm, hm.\n</think>\n\nHi there, all."}]
CLIENT = {"user-agent": "claude-cli/2.1.332 (external, cli)", "x-session-id": "secret-session"}


@pytest.fixture
def server(serve_mock):
    return serve_mock(RULES)


def ask(server, text="hello", **body):
    body = {"model": "antiphon-mock", "max_tokens": 100, "thinking": {"type": "adaptive"}, "tools": TOOLS, **body}
    body.setdefault("messages", [{"role": "user", "content": text}])
    answer = server.http.post("/v1/messages", json=body, headers=CLIENT)
    assert answer.status_code == 200, answer.text
    return answer.json(), body


def go_on(server, body, answer, **changes):
    messages = [*body["messages"], {"role": "assistant", "content": answer["content"]}, {"role": "user", "content": "go on"}]
    return ask(server, **{**body, "messages": messages, **changes})


def samples(server):
    """{name: [(labels, value)]} of everything that is told."""
    answer = server.http.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    found = {}
    for family in text_string_to_metric_families(answer.text):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


def value(found, name, **labels):
    """The sum of the samples that have these labels."""
    return sum(number for has, number in found.get(f"antiphon_{name}", ()) if labels.items() <= has.items())


def test_a_turn_is_counted_with_its_tokens_and_times(server):
    answer, _ = ask(server)
    found = samples(server)
    who = {"model": "antiphon-mock", "surface": "messages", "client": "claude-code"}
    usage = answer["usage"]
    assert found["antiphon_turns_total"] == [({**who, "stop_reason": "end_turn"}, 1)]
    assert value(found, "prompt_tokens_total", **who) == usage["input_tokens"]
    assert value(found, "output_tokens_total", **who) == usage["output_tokens"]
    assert 0 < value(found, "reasoning_tokens_total", **who) < usage["output_tokens"]
    assert value(found, "time_to_first_token_seconds_count", **who) == 1
    assert value(found, "time_to_first_token_seconds_sum", **who) > 0
    assert value(found, "queue_seconds_count", **who) == 1
    assert value(found, "inter_token_seconds_count", **who) == usage["output_tokens"] - 1
    assert value(found, "inter_token_seconds_bucket", **who, le="+Inf") == usage["output_tokens"] - 1
    assert value(found, "inter_token_seconds_sum", **who) > 0
    assert value(found, "running_turns") == 0


def test_a_call_is_counted_with_its_lead(server):
    answer, _ = ask(server, "act")
    assert answer["stop_reason"] == "tool_use"
    found = samples(server)
    assert value(found, "calls_total", client="claude-code") == value(found, "call_lead_seconds_count") == 1
    assert value(found, "turns_total", stop_reason="tool_use") == 1


def test_the_cache_is_counted_against_what_was_expected(server):
    answer, body = ask(server, "hello " * 100)
    answer, _ = go_on(server, body, answer)
    found = samples(server)
    expected, hit = value(found, "cache_expected_tokens_total"), value(found, "cache_hit_tokens_total")
    assert hit == answer["usage"]["cache_read_input_tokens"] > 0
    assert 0 <= expected - hit < 64
    assert (value(found, "followed_turns_total"), value(found, "exact_turns_total"), value(found, "replay_lost_tokens_total")) == (1, 1, 0)
    assert "antiphon_cache_miss_causes_total" not in found


def test_lost_replay_is_counted_by_cause(server):
    answer, body = ask(server)
    go_on(server, body, answer, system="New.")
    found = samples(server)
    assert (value(found, "followed_turns_total"), value(found, "exact_turns_total")) == (1, 0)
    assert value(found, "replay_lost_tokens_total") > 0
    who = {"model": "antiphon-mock", "surface": "messages", "client": "claude-code"}
    assert found["antiphon_cache_miss_causes_total"] == [({**who, "cause": "system_edited"}, 1)]


def test_anomalies_are_counted_by_kind(server):
    answer, _ = ask(server, "act", tools=[])
    found = samples(server)
    assert value(found, "anomalies_total", kind="call_not_allowed") == 1
    assert value(found, "turns_total", stop_reason=answer["stop_reason"]) == 1


def test_memories_are_told_in_bytes_and_entries(server):
    before = samples(server)
    ask(server)
    found = samples(server)
    for what in ("ledger", "compared", "runs"):
        assert value(found, "memory_bytes", what=what) > value(before, "memory_bytes", what=what) or what == "runs"
        assert value(found, "memory_entries", what=what) > 0
    assert value(found, "memory_entries", what="ledger") == 1
    assert 0 == value(found, "memory_hits_total", what="ledger") < value(found, "memory_misses_total", what="runs")


def test_look_ups_in_memories_are_counted(server):
    answer, body = ask(server)
    before = samples(server)
    go_on(server, body, answer)
    go_on(server, body, answer, system="New.")
    found = samples(server)
    for what, hits in (("ledger", 2), ("runs", 1)):
        assert value(found, "memory_hits_total", what=what) >= value(before, "memory_hits_total", what=what) + hits


def test_turns_of_every_surface_are_counted(server):
    ask(server)
    user = [{"role": "user", "content": "hello"}]
    for path, body in (
        ("/v1/chat/completions", {"messages": user}),
        ("/v1/responses", {"input": "hello"}),
        ("/v1/completions", {"prompt": "hello"}),
    ):
        assert server.http.post(path, json={"model": "antiphon-mock", "max_tokens": 20, **body}).status_code == 200
    found = samples(server)
    assert {labels["surface"] for labels, _ in found["antiphon_turns_total"]} == {"messages", "chat", "responses", "completions"}


def test_a_client_that_leaves_is_counted(serve_mock):
    server = serve_mock([{"when": "", "say": "</think>\n\n" + "word " * 500}], mock_token_delay_ms=5)
    body = {"model": "antiphon-mock", "max_tokens": 400, "stream": True, "messages": [{"role": "user", "content": "x"}]}
    with server.http.stream("POST", "/v1/messages", json=body) as answer:
        next(answer.iter_raw())
    for _ in range(1000):
        found = samples(server)
        if value(found, "turns_total"):
            break
    assert value(found, "turns_total", stop_reason="cancelled") == 1
    assert value(found, "output_tokens_total") < 400


def test_labels_hold_nothing_of_a_request(server):
    ask(server, "confidential")
    text = server.http.get("/metrics").text
    assert "secret-session" not in text and "confidential" not in text and "req_" not in text
    names = {name for has in samples(server).values() for labels, _ in has for name in labels}
    assert names <= {"model", "surface", "client", "stop_reason", "cause", "kind", "what", "status", "le"}


def test_it_can_be_switched_off_and_needs_the_key(serve_mock):
    assert serve_mock(enable_metrics=False).http.get("/metrics").status_code == 404
    server = serve_mock(api_key="k")
    assert server.http.get("/metrics").status_code == 401
    assert server.http.get("/metrics", headers={"authorization": "Bearer k"}).status_code == 200


@pytest.mark.parametrize(
    ("agent", "family"),
    [
        ("claude-cli/2.1.332 (external, cli)", "claude-code"),
        ("codex_exec/0.171.0 (Linux)", "codex"),
        ("Anthropic/Python 0.99", "anthropic-sdk"),
        ("AsyncOpenAI/Python 2.1", "openai-sdk"),
        ("curl/8.5.0", "curl"),
        ("Mozilla/5.0 claude-cli/1", "other"),
        ("", "other"),
    ],
)
def test_client_families(agent, family):
    assert family_of({"user-agent": agent}) == family
    assert family in FAMILIES


def test_a_meter_shares_time_among_tokens_that_come_together():
    now = 100.0
    meter = TurnMeter(surface="chat", client="other", since=99.0, clock=lambda: now)
    ready = CallReady(0, "call_1", "run", "{}")
    assert meter.note(0, []) == [] and meter.ttft is None
    meter.note(3, [])
    now = 100.04
    meter.note(5, [ready])
    now = 100.06
    meter.note(5, [])
    assert meter.ttft == 1.0
    assert meter.gaps[TOKEN_SECONDS.index(0.02)] + meter.gaps[TOKEN_SECONDS.index(0.03)] == sum(meter.gaps) == 2
    assert meter.gap_seconds == pytest.approx(0.04)
    assert meter.leads() == [pytest.approx(0.02)]
