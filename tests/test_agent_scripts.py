"""The scripts that real clients are run with say what they mean to, and the table of cut calls has one answer to every session."""

import importlib.util
import json
import re
from fnmatch import fnmatchcase
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from antiphon_parsers import Parser, resolve
from antiphon_turns import Opening, SegmentDelta, SegmentEnd, SegmentStart, Tool

ROOT = Path(__file__).resolve().parent.parent
AGENTS = ROOT / "tests" / "agents"
MODES = ("honest", "recover", "incremental-honest", "incremental-recover")
CUTS = ("opener", "name", "value", "silent", "parameter", "function", "second", "nothing", "always")
OUTCOMES = {"goes-on", "quiet", "error", "ran"}
WIRES = ("openai-completions", "anthropic-messages", "openai-responses")
CLIENTS = (
    *("claude", "claude-old", "codex/plain", "codex/patch", "codex/auth", "codex/builtin"),
    *(f"opencode/{wire}" for wire in ("chat", "anthropic", "responses")),
    *(f"{name}/{wire}" for name, wire in product(("pi", "openclaw"), WIRES)),
)


def module(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, AGENTS / f"{name}.py")
    assert spec is not None and spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


@pytest.fixture(scope="module")
def long() -> ModuleType:
    return module("long_session")


def calls(say: str, tools: list[Tool]) -> list[tuple[str, dict[str, Any]]]:
    """(name, arguments) of the calls in what a rule says, as the server reads them."""
    found = resolve("qwen3_coder", "qwen3")
    parser = Parser(found.grammar, tools=tools, opening=Opening("<|im_start|>assistant\n<think>\n"), turn_tag="t" * 16)
    names: list[str] = []
    texts: list[str] = []
    inside = False
    for event in [*parser.feed(say), *parser.finish("stop")]:
        match event:
            case SegmentStart(kind="tool_call"):
                inside = True
                names.append(event.name or "")
                texts.append("")
            case SegmentDelta() if inside:
                texts[-1] += event.text
            case SegmentEnd():
                inside = False
            case _:
                pass
    return [(name, json.loads(text)) for name, text in zip(names, texts, strict=True)]


@pytest.mark.parametrize("name", ["claude", "codex", "openclaw", "openclaw-chat"])
def test_markup_reaches_the_tools_whole(long: ModuleType, name: str) -> None:
    client = long.CLIENTS[name]
    schemas = {
        tool: {"type": "object", "properties": {key: {"type": "string"} for key in keys}} for tool, keys in (client.write, client.edit)
    }
    tools = [Tool(name=tool, parameters=json.dumps(schema)) for tool, schema in schemas.items()]
    said = [call for rule in long.rules(client) for call in calls(rule["say"], tools)]
    assert client.write in said
    assert client.edit in said


@pytest.mark.parametrize("name", ["claude", "codex", "openclaw", "openclaw-chat"])
def test_a_summary_is_asked_for_once(long: ModuleType, name: str) -> None:
    rules = [(re.compile(rule["when"], re.DOTALL), rule["say"]) for rule in long.rules(long.CLIENTS[name])]

    def spoken(prompt: str) -> str:
        return next(say for when, say in rules if when.search(prompt))

    head = "<|im_start|>system\nTools<|im_end|>\n<|im_start|>user\n"
    tail = "<|im_end|>\n<|im_start|>assistant\n<think>\n"
    assert "LONG_SUMMARY" in spoken(f"{head}Write a summary, please.{tail}")
    assert "LONG_SUMMARY" in spoken(f"{head}Write the notes, please.<|im_end|>\n<|im_start|>system\nAside{tail}")
    assert "AFTER_" in spoken(f"{head}The summary: {long.SUMMARY}<|im_end|>\n<|im_start|>user\n{long.prompt('again', '/w')}{tail}")
    assert "AFTER_" not in spoken(f"{head}{long.prompt('work', '/w')}{tail}")


def outcomes() -> list[list[str]]:
    lines = (AGENTS / "cut_outcomes.txt").read_text(encoding="utf-8").splitlines()
    return [line.split() for line in lines if line and not line.startswith("#")]


def fitting(table: list[list[str]], session: tuple[str, ...]) -> int:
    """The number of the first line that fits."""
    return next(number for number, line in enumerate(table) if all(fnmatchcase(*pair) for pair in zip(session, line[:3], strict=True)))


def sdk_sessions() -> list[str]:
    source = (AGENTS / "sdk_cut_sessions.py").read_text(encoding="utf-8")
    return re.findall(r'^    "(\w+)": ', source.partition("SESSIONS:")[2], re.MULTILINE)


def test_every_cut_session_has_its_outcome_and_every_line_a_session() -> None:
    table = outcomes()
    used = set()
    for session in product(MODES, CUTS, (*CLIENTS, *(f"sdks/{name}" for name in sdk_sessions()))):
        line = fitting(table, session)
        used.add(line)
        if table[line][3] == "honest":
            used.add(fitting(table, ("honest", *session[1:])))
    assert [table[line] for line in range(len(table)) if line not in used] == []
    assert {outcome for line in table for outcome in line[3].split(",")} <= OUTCOMES | {"honest"}


@pytest.mark.parametrize("cut", [cut for cut in CUTS if cut not in ("second", "nothing", "always")])
@pytest.mark.parametrize("tool", ["bash", "Bash", "exec", "exec_command"])
def test_a_cut_call_is_made_again_also_where_no_word_of_it_came_back(tool: str, cut: str) -> None:
    rules = [json.loads(line) for line in (AGENTS / "cut_calls.jsonl").read_text(encoding="utf-8").splitlines()]

    def spoken(prompt: str) -> dict[str, str]:
        return next(rule for rule in rules if re.search(rule["when"], prompt, re.DOTALL))

    asked = f'{{"name": "{tool}"}}<|im_end|>\n<|im_start|>user\n<<cmd>>date<<end>> ((cut:{cut}))<|im_end|>\n<|im_start|>assistant\n'
    refused = "<tool_call>\n</tool_call><|im_end|>\n<|im_start|>user\n<tool_response>\nMissing key</tool_response><|im_end|>\n"
    assert spoken(asked)["finish"] == "length"
    again = spoken(f"{asked}{refused}<|im_start|>assistant\n")
    assert again.get("finish", "stop") == "stop"
    assert "make it again" in again["say"]
