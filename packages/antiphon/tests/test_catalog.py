"""Names a model answers to, the catalog over HTTP, and counts scaled to the context a client believes in."""

import json

import anthropic
import openai
import pytest

from antiphon.aliases import VENDOR_PATTERNS, read_aliases
from antiphon.config import Settings
from antiphon.serve import build
from antiphon.usage_scale import UsageScale
from antiphon_turns.errors import ConfigError

MODEL = "org/served"
RULES = [{"when": "", "say": "</think>\n\nHello."}]


def body(model, **more):
    return {"model": model, "max_tokens": 64, "messages": [{"role": "user", "content": "x"}], **more}


MATCHES = [
    ("claude-haiku-4-5-20251001", True),
    ("claude-opus-4-8", True),
    ("Claude-Opus-4-8", True),
    ("anthropic/claude-sonnet-4-5", True),
    ("gpt-5.5", True),
    ("openai/gpt-5.5", True),
    ("o3", True),
    ("o4-mini", True),
    ("codex-mini-latest", True),
    ("haiku", True),
    ("opus", True),
    ("claude", False),
    ("my-claude-3", False),
    ("other", False),
    ("org/gpt-4", False),
    ("", False),
]


@pytest.mark.parametrize(("name", "answers"), MATCHES)
def test_the_vendors_names_are_known(name, answers):
    assert read_aliases((), served="m", vendors=True).match(name) is answers
    assert not read_aliases((), served="m", vendors=False).match(name)


@pytest.mark.parametrize(
    ("entries", "name", "answers"),
    [
        (["fast"], "fast", True),
        (["fast"], "faster", False),
        (["fast*"], "faster", True),
        (["v?"], "v2", True),
        (["[ab]-*"], "b-1", True),
        (["*"], "anything at all", True),
        (["x*=m"], "xy", True),
        ([" x = m "], "x", True),
        (["a.b"], "aXb", False),
    ],
)
def test_the_operator_s_patterns(entries, name, answers):
    assert read_aliases(entries, served="m", vendors=False).match(name) is answers


@pytest.mark.parametrize("entry", ["", "=m", "x=", "x=other"])
def test_a_bad_alias_is_refused_at_start(entry):
    with pytest.raises(ConfigError, match="alias"):
        read_aliases([entry], served="m", vendors=True)


def test_a_catalog_lists_plain_names_of_the_operator_only():
    found = read_aliases(["fast", "Claude-X", "claude-*", "fast", "m"], served="m", vendors=True)
    assert found.listed == ("fast", "Claude-X")
    assert found.match("claude-x")
    assert set(VENDOR_PATTERNS) <= set(found.patterns)


def test_many_stars_do_not_take_long():
    assert not read_aliases(["*a*a*a*a*a*a*a*a*a*b"], served="m", vendors=False).match("a" * 5000)


@pytest.mark.parametrize("name", [MODEL, "claude-haiku-4-5-20251001", "gpt-5.5", "fast"])
def test_the_answer_names_what_was_asked_for(serve_mock, name):
    server = serve_mock(RULES, model_name=MODEL, aliases=["fast"])
    assert server.http.post("/v1/messages", json=body(name)).json()["model"] == name
    assert server.http.post("/v1/chat/completions", json=body(name)).json()["model"] == name
    stream = server.http.post("/v1/messages", json=body(name, stream=True)).text
    start = next(line for line in stream.splitlines() if line.startswith("data: "))
    assert json.loads(start.removeprefix("data: "))["message"]["model"] == name
    assert server.http.post("/v1/messages/count_tokens", json=body(name)).status_code == 200


def test_other_names_are_refused_in_each_vendor_s_form(serve_mock):
    server = serve_mock(RULES, model_name=MODEL)
    answer = server.http.post("/v1/messages", json=body("other"))
    assert (answer.status_code, answer.json()["error"]["type"]) == (404, "not_found_error")
    assert "--alias" in answer.json()["error"]["message"]
    answer = server.http.post("/v1/chat/completions", json=body("other"))
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "model_not_found")
    strict = serve_mock(RULES, model_name=MODEL, vendor_aliases=False)
    assert strict.http.post("/v1/messages", json=body("claude-haiku-4-5")).status_code == 404
    assert strict.http.get("/v1/models/claude-haiku-4-5").status_code == 404
    anything = serve_mock(RULES, model_name=MODEL, aliases=["*"])
    assert anything.http.post("/v1/messages", json=body("other")).json()["model"] == "other"


def test_the_catalog_shows_the_model_and_plain_aliases(serve_mock):
    server = serve_mock(model_name=MODEL, aliases=["fast", "slow-*"], profile="minimal", context_length=65_536)
    shown = server.http.get("/v1/models").json()
    assert [item["id"] for item in shown["data"]] == [MODEL, "fast"]
    assert [item["slug"] for item in shown["models"]] == [MODEL, "fast"]
    assert [item["support_verbosity"] for item in shown["models"]] == [False, False]
    assert shown["data"][1]["display_name"] == f"fast ({MODEL})"
    for name in (MODEL, "fast", "slow-1", "claude-opus-4-8"):
        one = server.http.get(f"/v1/models/{name}").json()
        assert (one["id"], one["slug"], one["max_input_tokens"]) == (name, name, 65_536)
    first = server.http.get("/v1/models?limit=1", headers={"anthropic-version": "2023-06-01"}).json()
    assert (first["has_more"], first["last_id"]) == (True, MODEL)
    bad = server.http.get("/v1/models?limit=0", headers={"anthropic-version": "2023-06-01"})
    assert (bad.status_code, bad.json()["error"]["type"]) == (400, "invalid_request_error")


def test_a_profile_of_the_operator_reaches_the_catalog(serve_mock):
    server = serve_mock(profile="house", profiles={"house": {"like": "gpt-5.5", "instructions": "Be quick.", "default_effort": "high"}})
    (entry,) = server.http.get("/v1/models").json()["models"]
    assert (entry["base_instructions"], entry["default_reasoning_level"]) == ("Be quick.", "high")


def test_an_unknown_profile_stops_the_start():
    with pytest.raises(ConfigError, match=r"no metadata profile is called 'gpt-55'; there are gpt-5\.5"):
        build(Settings(engine="mock", profile="gpt-55"))


@pytest.mark.parametrize("key", [{"authorization": "Bearer k"}, {"x-api-key": "k"}, {}])
@pytest.mark.parametrize("path", ["/v1/models", f"/v1/models/{MODEL}"])
def test_either_kind_of_key_is_as_good(serve_mock, key, path):
    server = serve_mock(model_name=MODEL)
    assert server.http.get(path, headers=key).status_code == 200


def test_the_sdks_find_the_models(serve_mock):
    server = serve_mock(model_name=MODEL, aliases=["fast"])
    vendor = anthropic.Anthropic(base_url=server.url, api_key="k")
    assert [model.id for model in vendor.models.list(limit=1)] == [MODEL, "fast"]
    assert vendor.models.retrieve("claude-haiku-4-5").id == "claude-haiku-4-5"
    other = openai.OpenAI(base_url=f"{server.url}/v1", api_key="k")
    assert [model.id for model in other.models.list()] == [MODEL, "fast"]


# Counts for a client that believes in another context


def scaled_and_not(serve_mock, text, **settings):
    plain = serve_mock(RULES, context_length=32_768, **settings)
    scaled = serve_mock(RULES, context_length=32_768, reported_context_length=200_000, **settings)
    asked = body("antiphon-mock", messages=[{"role": "user", "content": text}])
    return plain, scaled, asked


def test_half_of_the_context_is_half_of_the_one_believed_in():
    scale = UsageScale(200_000, 32_768)
    assert [scale.tokens(count) for count in (0, 1, 16_384, 32_768)] == [0, 7, 100_000, 200_000]


def test_scaled_counts_fill_the_context_the_client_believes_in(serve_mock):
    plain, scaled, asked = scaled_and_not(serve_mock, "word " * 500)
    real = plain.http.post("/v1/messages/count_tokens", json=asked)
    shown = scaled.http.post("/v1/messages/count_tokens", json=asked)
    assert "x-antiphon-usage-scale" not in real.headers
    assert shown.headers["x-antiphon-usage-scale"] == "200000/32768"
    count = real.json()["input_tokens"]
    expected = -(-count * 200_000 // 32_768)
    assert shown.json()["input_tokens"] == expected
    answer = scaled.http.post("/v1/messages", json=asked)
    assert answer.headers["x-antiphon-usage-scale"] == "200000/32768"
    usage, real_usage = answer.json()["usage"], plain.http.post("/v1/messages", json=asked).json()["usage"]
    assert usage["input_tokens"] + usage["cache_read_input_tokens"] + usage["cache_creation_input_tokens"] == expected
    assert usage["output_tokens"] == -(-real_usage["output_tokens"] * 200_000 // 32_768)


def test_scaled_counts_on_a_stream_are_those_of_the_body(serve_mock):
    _, scaled, asked = scaled_and_not(serve_mock, "word " * 500)
    unary = scaled.http.post("/v1/messages", json=asked).json()["usage"]
    stream = scaled.http.post("/v1/messages", json={**asked, "stream": True}).text
    events = [json.loads(line.removeprefix("data: ")) for line in stream.splitlines() if line.startswith("data: ")]
    last = next(event for event in events if event["type"] == "message_delta")["usage"]
    for usage in (unary, last):
        assert sum(usage[key] for key in ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")) > 3000
    assert last["output_tokens"] == unary["output_tokens"]


def test_an_overflow_is_told_in_the_same_measure(serve_mock):
    _, scaled, asked = scaled_and_not(serve_mock, "word " * 40_000)
    message = scaled.http.post("/v1/messages", json=asked).json()["error"]["message"]
    tokens, limit = (int(word) for word in message.split() if word.isdigit())
    assert message.startswith("prompt is too long: ")
    assert limit == 200_000
    assert tokens > limit


def test_the_catalog_tells_each_caller_the_context_in_the_measure_of_its_counts(serve_mock):
    _, scaled, _ = scaled_and_not(serve_mock, "x")
    found = scaled.http.get("/v1/models").json()
    assert (found["data"][0]["max_input_tokens"], found["data"][0]["context_length"]) == (200_000, 32_768)
    assert found["models"][0]["context_window"] == 32_768


def test_chat_counts_are_never_scaled(serve_mock):
    plain, scaled, asked = scaled_and_not(serve_mock, "word " * 50)
    answers = [server.http.post("/v1/chat/completions", json=asked) for server in (plain, scaled)]
    assert answers[0].json()["usage"]["prompt_tokens"] == answers[1].json()["usage"]["prompt_tokens"]
    assert "x-antiphon-usage-scale" not in answers[1].headers
