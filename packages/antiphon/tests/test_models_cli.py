"""`antiphon models`: what is found out about a model, and what there is to choose from."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from tokenizers import AddedToken, models
from tokenizers import Tokenizer as FastTokenizer
from typer.testing import CliRunner

from antiphon.banner import show_banner
from antiphon.cli import app
from antiphon.engines.default_model import default_model_path
from antiphon.model import ModelChoice, load_model
from antiphon.models_cli import AMBIGUOUS, FOUND, UNKNOWN, show_list
from antiphon_parsers.registry import REASONING_PARTS, TOOL_PARTS
from antiphon_turns.errors import ConfigError

CHATML = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}<|im_start|>assistant\n"
XML = CHATML + "<tool_call>\n<function=f>\n<parameter=p>\nv\n</parameter>\n</function>\n</tool_call>"
JSON_CALLS = '<tool_call>\n{"name": f, "arguments": {}}\n</tool_call>'
DECLARED = {
    "start_anchor": "<|im_start|>assistant\n",
    "fields": {
        "thinking": {"open": "<plan>", "close": "</plan>"},
        "tool_calls": {"open": "<act>", "close": "</act>", "repeats": True, "content": "json", "transform": {"function": "{content}"}},
        "content": {"close": "<|im_end|>"},
    },
}
SAME = json.loads(json.dumps(DECLARED).replace("<plan>", "<think>").replace("</plan>", "</think>").replace("act>", "tool_call>"))


def folder(path: Path, template: str, *, architectures: tuple[str, ...] = (), **settings: Any) -> Path:
    """A model folder: a tokenizer of single characters, a template, and settings."""
    characters = {chr(code): code for code in range(33, 127)}
    tokenizer = FastTokenizer(models.BPE(vocab=characters, merges=[]))
    tokenizer.add_special_tokens([AddedToken("<|im_start|>", special=True), AddedToken("<|im_end|>", special=True)])
    path.mkdir(exist_ok=True)
    tokenizer.save(str(path / "tokenizer.json"))
    (path / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<|im_end|>", "chat_template": template, **settings}))
    (path / "config.json").write_text(json.dumps({"architectures": architectures, "max_position_embeddings": 4096}))
    return path


def detected(path: Path) -> tuple[int, dict[str, Any]]:
    done = CliRunner().invoke(app, ["models", "detect", str(path), "--json"])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, json.loads(done.output)


def test_a_bare_template(tmp_path: Path) -> None:
    path = tmp_path / "chat_template.jinja"
    path.write_text(XML + "<think>")
    status, found = detected(path)
    assert status == FOUND and (found["tool_parser"], found["reasoning_parser"]) == ("qwen3_coder", "qwen3")
    assert found["flags"] == ["--tool-call-parser", "qwen3_coder", "--reasoning-parser", "qwen3"]
    assert not found["ambiguous"] and found["others"] == []


def test_the_default_model() -> None:
    status, found = detected(default_model_path())
    assert status == FOUND and found["tool_parser"] == "hermes" and found["confidence"] < 0.5


def test_two_readings_are_both_named(tmp_path: Path) -> None:
    path = tmp_path / "both.jinja"
    path.write_text(XML + JSON_CALLS)
    status, found = detected(path)
    assert status == AMBIGUOUS and found["ambiguous"] and found["confidence"] <= 0.5
    assert [(other["kind"], other["name"]) for other in found["others"]] == [("tool", "hermes")]
    assert found["others"][0]["reason"] and "qwen3_coder" in found["reason"]
    shown = CliRunner().invoke(app, ["models", "detect", str(path)])
    assert shown.exit_code == AMBIGUOUS and "Ambiguous" in shown.output and "hermes" in shown.output


def test_nothing_known(tmp_path: Path) -> None:
    path = tmp_path / "plain.jinja"
    path.write_text("{{ messages[0].content }}")
    status, found = detected(path)
    assert status == UNKNOWN and found["tool_parser"] is None and found["flags"] == []


@pytest.mark.parametrize("name", ["missing", "missing.jinja", "notes.txt"])
def test_what_is_no_model_is_an_error(tmp_path: Path, name: str) -> None:
    (tmp_path / "notes.txt").write_text("x")
    done = CliRunner().invoke(app, ["models", "detect", str(tmp_path / name)])
    assert isinstance(done.exception, ConfigError)


def test_the_architecture_counts(tmp_path: Path) -> None:
    assert detected(folder(tmp_path / "a", XML + "<think>"))[1]["tool_parser"] == "qwen3_coder"
    status, found = detected(folder(tmp_path / "b", XML + "<think>", architectures=("MiMoV2FlashForCausalLM",)))
    assert (status, found["tool_parser"], found["reasoning_parser"]) == (FOUND, "mimo", "mimo")


def test_a_model_that_declares_its_format(tmp_path: Path) -> None:
    status, found = detected(folder(tmp_path / "model", CHATML, response_template=DECLARED))
    assert (status, found["tool_parser"], found["reasoning_parser"]) == (FOUND, "hf", "hf")
    assert "declares" in found["reason"] and found["confidence"] > 0.9
    model = load_model(ModelChoice(path=tmp_path / "model"))
    assert model.label == "hf + hf" and model.family.frame.end_of_turn == "<|im_end|>"
    assert model.format.grammar.calls is not None and model.format.grammar.calls.openers == ("<act>",)


def test_a_declaration_that_a_family_reads_confirms_it(tmp_path: Path) -> None:
    status, found = detected(folder(tmp_path / "model", CHATML + JSON_CALLS + "<think>", response_template=SAME))
    assert (status, found["tool_parser"], found["reasoning_parser"]) == (FOUND, "hermes", "qwen3")
    assert "declares the same" in found["reason"]
    # It decides between two families that fit.
    status, found = detected(folder(tmp_path / "model", XML + JSON_CALLS + "<think>", response_template=SAME))
    assert (status, found["tool_parser"]) == (FOUND, "hermes")


def test_a_declaration_that_no_sure_family_reads_is_taken_and_told(tmp_path: Path) -> None:
    status, found = detected(folder(tmp_path / "model", XML + "<think>", response_template=DECLARED))
    assert (status, found["tool_parser"], found["reasoning_parser"]) == (AMBIGUOUS, "hf", "hf")
    assert {other["name"] for other in found["others"]} == {"qwen3_coder", "qwen3"}


def test_a_declaration_that_is_not_read_is_told(tmp_path: Path) -> None:
    broken = {**DECLARED, "start_anchor_pattern": "x+"}
    path = folder(tmp_path / "model", XML, response_template=broken)
    status, found = detected(path)
    assert (status, found["tool_parser"]) == (FOUND, "qwen3_coder") and "start_anchor_pattern" in found["reason"]
    with pytest.raises(ConfigError, match="start_anchor_pattern"):
        load_model(ModelChoice(path=path, tool_call_parser="hf"))
    assert load_model(ModelChoice(path=path, tool_call_parser="hermes")).label == "hermes"


def test_the_older_form_is_refused_by_name(tmp_path: Path) -> None:
    path = folder(tmp_path / "model", XML, response_schema={"x-regex": "(.*)"})
    with pytest.raises(ConfigError, match="response_schema"):
        load_model(ModelChoice(path=path, reasoning_parser="response_template"))


def test_start_up_says_what_else_would_fit(tmp_path: Path) -> None:
    path = folder(tmp_path / "model", XML + JSON_CALLS)
    for choice, said in ((ModelChoice(path=path), True), (ModelChoice(path=path, tool_call_parser="hermes"), False)):
        out = io.StringIO()
        show_banner(Console(file=out, width=200), url="http://x", model=load_model(choice), engine="mock engine", load_seconds=1)
        assert ("Unsure" in out.getvalue()) == said == ("--tool-call-parser hermes" in out.getvalue())


def test_the_list_names_every_format() -> None:
    done = CliRunner().invoke(app, ["models", "list", "--json"])
    rows = {(row["kind"], row["name"]): row for row in json.loads(done.output)}
    assert set(rows) == {*(("tool", name) for name in TOOL_PARTS), *(("reasoning", name) for name in REASONING_PARTS)}
    assert rows["tool", "hermes"]["call_grammar"] and rows["tool", "hermes"]["frame"] == "ChatML"
    assert rows["tool", "mistral"]["frame"] == "[/INST]" and "qwen25" in rows["tool", "hermes"]["aliases"]
    assert rows["reasoning", "glm47"]["replay"] == "after last user (all with clear_thinking=false)"
    assert rows["tool", "deepseek_v4"]["detection"] == "template, vocabulary, architecture"
    assert rows["reasoning", "qwen3"]["thinking"] == "enable_thinking, effort low/medium/xhigh"


def test_the_list_can_be_read_on_any_terminal() -> None:
    for width in (60, 80, 200):
        out = io.StringIO()
        show_list(Console(file=out, width=width))
        lines = out.getvalue().splitlines()
        assert all(name in out.getvalue() for name in ("hermes", "kimi_k3", "[/INST]"))
        assert max(len(line) for line in lines if "response_template" not in line and "Names may" not in line) <= width
