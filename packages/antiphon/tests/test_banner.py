"""The start-up text: where, what, why, what it is good for, and what to try next."""

import io
import json
import re
import shlex

import pytest
from rich.console import Console

from antiphon.banner import AGENT_CONTEXT, context_advice, show_banner, workers_there
from antiphon.config import Settings
from antiphon.engines.default_model import default_model_path
from antiphon.serve import build


def banner(url="http://127.0.0.1:8123", **settings):
    model, _ = build(Settings(engine="mock", **settings))
    out = io.StringIO()
    show_banner(Console(file=out, width=60), url=url, model=model, engine="mock engine", load_seconds=1.26)
    return out.getvalue()


def test_it_names_everything():
    text = banner()
    for said in ("http://127.0.0.1:8123", "antiphon-mock", "mock engine, loaded in 1.3 s", "qwen3_coder + qwen3", "262,144 tokens"):
        assert said in text
    assert re.search(r"Family +qwen3_coder \+ qwen3: the mock template was written for it\n", text), "family and why, unbroken"


def test_the_family_of_a_real_template_comes_with_its_reason():
    text = banner(model_path=default_model_path())
    assert re.search(r"Family +hermes: \S.*\n", text)
    assert "8,192 tokens" in text
    named = banner(model_path=default_model_path(), tool_call_parser="qwen3_coder")
    assert re.search(r"Family +qwen3_coder.*: named by the operator\n", named)


def test_the_next_command_can_be_pasted():
    text = banner(model_name="org/a-model")
    command = text[text.index("curl ") :].split("\n    antiphon launch", 1)[0]
    words = shlex.split(command.replace("\\\n", " "))
    assert words[:2] == ["curl", "http://127.0.0.1:8123/v1/messages"]
    assert words[2:4] == ["-H", "content-type: application/json"]
    body = json.loads(words[words.index("-d") + 1])
    assert body["model"] == "org/a-model"
    assert body["max_tokens"] > 0
    assert body["messages"]


def test_claude_code_is_offered_only_where_it_fits():
    everybody = "    antiphon launch claude --url http://127.0.0.1:8123   # or codex, opencode, openclaw, pi\n"
    assert banner().endswith(everybody)
    assert banner(context_length=AGENT_CONTEXT).endswith(everybody)
    assert banner(context_length=AGENT_CONTEXT - 1).endswith("    antiphon launch pi --url http://127.0.0.1:8123\n")


def test_it_says_which_names_are_answered():
    assert "  Names    antiphon-mock and the vendors' own (claude-*, gpt-*, ...)\n" in banner()
    assert "  Names    antiphon-mock, fast, team-* and the vendors' own" in banner(aliases=["fast", "team-*"])
    assert "  Names    m, claude-*\n" in banner(model_name="m", aliases=["claude-*"], vendor_aliases=False)


def test_the_default_address_need_not_be_said():
    assert "antiphon launch claude   # or" in banner(url="http://127.0.0.1:8000")


@pytest.mark.parametrize(
    ("context", "said"),
    [
        (4096, "give it a model with 32K or more"),
        (AGENT_CONTEXT - 1, "give it a model with 32K or more"),
        (AGENT_CONTEXT, "long sessions want 64K or more"),
        (2 * AGENT_CONTEXT - 1, "long sessions want 64K or more"),
        (2 * AGENT_CONTEXT, "enough for every coding agent"),
        (1_000_000, "enough for every coding agent"),
    ],
)
def test_context_advice(context, said):
    assert said in context_advice(context)


@pytest.mark.parametrize(
    ("there", "listed", "said"),
    [
        (1, 1, "1 worker"),
        (2, 2, "2 workers"),
        (0, 2, "2 workers, none of them ready"),
        (1, 3, "3 workers, 1 of them ready"),
        (0, 0, "0 workers"),
    ],
)
def test_workers_that_are_not_there_yet_are_told(there, listed, said):
    assert workers_there(there, listed) == said
