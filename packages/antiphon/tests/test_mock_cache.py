"""The mock engine's prefix cache as clients see it: cached tokens, and the right reason where they are missing."""

import pytest

RULES = [{"when": "", "say": "Hi."}]
BLOCK = 16


def words(text, count=150):
    return f"{text} one two three " * (count // 4)


class Session:
    """A conversation that goes on turn by turn."""

    def __init__(self, server, name, *, stream=False, system="Be brief.", **extra):
        self.server, self.name, self.stream = server, name, stream
        self.extra = {"system": system, **extra}
        self.messages = []

    def say(self, text):
        """The usage of the turn, and the server's note on the cache."""
        self.messages.append({"role": "user", "content": text})
        body = {"model": "antiphon-mock", "max_tokens": 20, "messages": self.messages, "stream": self.stream, **self.extra}
        headers = {"x-claude-code-session-id": self.name}
        answer = self.server.http.post("/v1/messages", json=body, headers=headers)
        assert answer.status_code == 200, answer.text
        self.messages.append({"role": "assistant", "content": "Hi."})
        numbers, _, cause = answer.headers["x-antiphon-cache"].partition(" cause=")
        self.note = {**dict(part.split("=") for part in numbers.split()), "cause": cause}
        self.causes = [cause.code for cause in self.server.pipeline.watch.recent[-1].explanation.causes]
        found = self.server.traced()[-1]
        return len(found["prompt_ids"]), found["cached_tokens"]


def test_the_next_turn_finds_prompt_and_answer(serve_mock):
    server = serve_mock(RULES)
    session = Session(server, "s")
    assert session.say(words("a"))[1] == 0
    held = len(server.traced()[-1]["prompt_ids"]) + len(server.traced()[-1]["output_ids"])
    _, cached = session.say("b")
    assert cached == held // BLOCK * BLOCK
    assert session.causes == [] and session.note["cause"] == ""


@pytest.mark.parametrize("stream", [False, True])
def test_usage_and_header_tell_what_is_cached(serve_mock, stream):
    server = serve_mock(RULES)
    session = Session(server, "s", stream=stream)
    session.say(words("a"))
    prompt, cached = session.say("b")
    assert int(session.note["cached"]) == cached > 0
    assert int(session.note["prompt"]) == prompt
    assert abs(int(session.note["expected"]) - cached) < 2 * BLOCK


def test_the_partition_of_usage_adds_up(serve_mock):
    server = serve_mock(RULES)
    body = {"model": "antiphon-mock", "max_tokens": 20, "messages": [{"role": "user", "content": words("a")}]}
    first, second = (server.http.post("/v1/messages", json=body).json()["usage"] for _ in range(2))
    assert first["cache_read_input_tokens"] == 0 < second["cache_read_input_tokens"]
    assert first["input_tokens"] == second["input_tokens"] + second["cache_read_input_tokens"]


@pytest.mark.parametrize(("settings", "unit"), [({"mock_block_size": 64}, 64), ({"mock_cache_blocks": 0}, None)])
def test_block_size_and_number_are_settings(serve_mock, settings, unit):
    session = Session(serve_mock(RULES, **settings), "s")
    session.say(words("a"))
    _, cached = session.say("b")
    assert cached == 0 if unit is None else cached > 0 and cached % unit == 0


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("blocks", "evicted"), [(40, True), (400, False)])
def test_eviction_is_named_where_it_happened_and_only_there(serve_mock, blocks, evicted, stream):
    server = serve_mock(RULES, mock_cache_blocks=blocks)
    session = Session(server, "mine", stream=stream)
    session.say(words("mine", 280))
    session.say("and")
    assert session.causes == []
    for number in range(4):
        Session(server, f"o{number}", system=f"{number}").say(words(f"other{number}", 200))
    prompt, cached = session.say("go on")
    assert session.causes == (["evicted"] if evicted else [])
    assert session.note["cause"] == ("evicted (head)" if evicted else "")
    assert cached < 64 if evicted else prompt - cached < 64


def test_an_edited_head_is_not_called_eviction(serve_mock):
    session = Session(serve_mock(RULES), "s")
    session.say(words("a", 280))
    session.extra["system"] = "Be long."
    _, cached = session.say("b")
    assert session.causes == ["system_edited"] and "evicted" not in session.note["cause"]
    assert cached < 64


@pytest.mark.parametrize(("urgent", "kept"), [(0, False), (5, True)])
def test_urgent_prefixes_are_evicted_last(serve_mock, urgent, kept):
    server = serve_mock(RULES, mock_cache_blocks=60)
    session = Session(server, "mine", nvext={"agent_hints": {"priority": urgent}})
    session.say(words("mine", 280))
    for number in range(6):
        Session(server, f"o{number}", system=f"{number}").say(words(f"other{number}", 200))
    _, cached = session.say("go on")
    assert (cached > 200) == kept
