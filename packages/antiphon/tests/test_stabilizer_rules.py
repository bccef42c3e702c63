"""The operator's own rules: lines of system texts and tool descriptions, from a file that is checked before anything is served."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.config import Settings
from antiphon.line_pattern import LinePattern
from antiphon.serve import options_of
from antiphon.stabilize import ANTHROPIC_PREAMBLE, LineRule, edited, stabilize
from antiphon.stabilizer_rules import read_rules, rules_of
from antiphon_turns import AssistantMessage, CallSegment, SystemMessage, TextSegment, Tool, ToolMessage, TurnRequest, UserMessage
from antiphon_turns.errors import ConfigError

HEADER = "x-anthropic-billing-header: cc_version=2.1.332.c08; cc_entrypoint=cli;"
FILE = r"""
[[rule]]
name = "date"
where = "system"
line = "Today's date: .*"
action = "replace"
replacement = "Today's date: see the clock"

[[rule]]
name = "request-id"
where = "developer"
line = 'request: [0-9a-f]{8}'
action = "drop"

[[rule]]
name = "build"
where = "tool_description"
line = '\(build \d+\)'
action = "drop"
"""


@pytest.fixture
def rules(tmp_path):
    path = tmp_path / "rules.toml"
    path.write_text(FILE)
    return rules_of(strip_anthropic_preamble=True, file=path)


def ask(*messages, tools=()):
    return TurnRequest(surface="messages", model="m", messages=messages, tools=tools)


def test_each_rule_acts_where_it_may_and_says_so(rules):
    system = f"{HEADER}\nYou are an agent.\nToday's date: 2026-11-29\nrequest: 0123abcd\nBe brief."
    tools = (Tool(name="run", description="Runs.\n(build 17)"), Tool(name="look"))
    found, acted = stabilize(ask(SystemMessage(system), UserMessage("u"), SystemMessage("request: 99999999"), tools=tools), rules)
    assert found.messages == (SystemMessage("You are an agent.\nToday's date: see the clock\nBe brief."), UserMessage("u"))
    assert found.tools == (Tool(name="run", description="Runs.\n"), Tool(name="look"))
    assert acted == ("strip-anthropic-preamble", "date", "request-id", "build")


def test_what_no_rule_fits_is_the_same_request(rules):
    request = ask(SystemMessage("Today's date is unknown.\nrequest: 1"), UserMessage("u"), tools=(Tool(name="run", description="d"),))
    found, acted = stabilize(request, rules)
    assert found is request and acted == ()


def test_a_rule_that_changes_nothing_did_not_act(rules):
    request = ask(SystemMessage("Today's date: see the clock"))
    assert stabilize(request, rules) == (request, ())


def test_nobody_elses_words_are_touched(rules):
    lines = f"{HEADER}\nToday's date: 2026-11-29\nrequest: 0123abcd\n(build 17)"
    messages = (
        UserMessage(lines),
        AssistantMessage((TextSegment(lines), CallSegment("run", '{"a": "request: 0123abcd"}', "c"))),
        ToolMessage("c", lines),
        UserMessage(lines),
    )
    request = ask(*messages, tools=(Tool(name="run", parameters='{"description": "(build 17)"}'),))
    assert stabilize(request, rules) == (request, ())


@pytest.mark.parametrize(
    ("text", "replacement", "expected"),
    [
        ("a\nX\nb", None, "a\nb"),
        ("X", None, ""),
        ("X\n", None, ""),
        ("a\r\nX\r\nb", None, "a\r\nb"),
        ("a\r\nX\r\nb", "Y", "a\r\nY\r\nb"),
        ("a\nX", None, "a\n"),
        ("X\nX", "Y", "Y\nY"),
        ("\n\nX\n\n", None, "\n\n\n"),
        (" X\nXX\n", None, " X\nXX\n"),
        ("a\u2028X\x0bX", None, "a\u2028X\x0bX"),
        ("", None, ""),
    ],
)
def test_lines(text, replacement, expected):
    assert edited(text, LineRule(name="r", where="system", pattern=LinePattern("X"), replacement=replacement)) == expected


@given(st.text("aX\n\r"))
def test_lines_that_do_not_match_keep_every_byte(text):
    rule = LineRule(name="r", where="system", pattern=LinePattern("X"))
    assert edited(text.replace("X", "x"), rule) == text.replace("X", "x")
    assert "X" not in [line.rstrip("\r") for line in edited(text, rule).split("\n")]


ENTRY = {"name": '"r"', "where": '"system"', "line": '"a"', "action": '"drop"'}


def text_of(**changes):
    entry = {key: value for key, value in (ENTRY | changes).items() if value is not None}
    return "[[rule]]\n" + "\n".join(f"{key} = {value}" for key, value in entry.items())


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("[[rule", "cannot read the stabilizer rules"),
        ("", "[[rule]]"),
        ("rule = 1", "[[rule]]"),
        ("[[rules]]\nname = 'a'", "not rules"),
        ("rule = [1]", "rule 1: "),
        (text_of(name=None), "name"),
        (text_of(name='"Upper"'), "rule 1 (Upper): the name must be"),
        (text_of(name='"strip-anthropic-preamble"'), "already"),
        (text_of() + "\n" + text_of(), "rule 2 (r): there is a rule called 'r' already"),
        (text_of(where='"user"'), "where"),
        (text_of(action='"cut"'), "action"),
        (text_of(action='"replace"'), "needs a replacement"),
        (text_of(replacement='"x"'), "'drop' has none"),
        (text_of(action='"replace"', replacement='"x\\ny"'), "one line"),
        (text_of(line='"("'), "rule 1 (r): pattern '(', character 2: a ( without its )"),
        (text_of(line='"(a+)+?"'), "count of a count"),
        (text_of(pattern='"a"'), "pattern"),
        ("\n".join(text_of(name=f'"r{number}"') for number in range(65)), "more than 64"),
    ],
)
def test_a_file_that_is_wrong_says_where_and_why(tmp_path, text, what):
    path = tmp_path / "rules.toml"
    path.write_text(text)
    with pytest.raises(ConfigError) as refused:
        read_rules(path)
    assert what in refused.value.message and str(path) in refused.value.message


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(ConfigError, match="cannot read the stabilizer rules"):
        options_of(Settings(stabilizer_rules=tmp_path / "none.toml"))


def test_every_rule_can_be_switched_off(tmp_path):
    path = tmp_path / "rules.toml"
    path.write_text(text_of())
    assert options_of(Settings()).prompts.rules == (ANTHROPIC_PREAMBLE,)
    assert options_of(Settings(strip_anthropic_preamble=False)).prompts.rules == ()
    assert [rule.name for rule in options_of(Settings(stabilizer_rules=path, strip_anthropic_preamble=False)).prompts.rules] == ["r"]


def test_the_answer_names_the_rules_that_acted(serve_mock, tmp_path):
    path = tmp_path / "rules.toml"
    path.write_text(FILE)
    server = serve_mock(stabilizer_rules=path)
    messages = [{"role": "system", "content": f"{HEADER}\nrequest: 0123abcd\nS"}, {"role": "user", "content": "request: 0123abcd"}]
    answer = server.http.post("/v1/chat/completions", json={"model": "antiphon-mock", "messages": messages})
    assert answer.headers["x-antiphon-stabilized"] == "strip-anthropic-preamble, request-id"
    prompt = server.pipeline.model.tokenizer.decode(server.traced()[-1]["prompt_ids"])
    assert prompt.count("request: 0123abcd") == 1 and "billing" not in prompt
