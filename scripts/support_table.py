"""Writes docs/parsers.md: what each parser has, and how it fares on the committed cases. usage: python scripts/support_table.py [--check]

Everything in the table is read off the code or comes from running the cases in packages/parsers/tests/cases, each whole and character by
character. The handed cases and field reports are committed there too, so the table needs nothing from outside the repository.
"""

import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
TESTS = ROOT / "packages" / "parsers" / "tests"
TARGET = ROOT / "docs" / "parsers.md"
sys.path.insert(0, str(TESTS))

import parser_cases as handed  # noqa: E402 - the tests' own readers and checks, so that the two cannot differ
import test_own_cases as own  # noqa: E402
from parser_harness import codes, joined, run, segments_of  # noqa: E402

from antiphon_parsers import opening_of, resolve  # noqa: E402
from antiphon_parsers.catalog import FormatRow, format_rows  # noqa: E402
from antiphon_parsers.registry import REASONING_PARTS, TOOL_PARTS  # noqa: E402
from antiphon_turns import DetectionRule, Opening  # noqa: E402

GROUPS = {
    "A": "whole calls",
    "B": "spellings",
    "C": "typing",
    "D": "damage",
    "E": "confusables",
    "F": "tool names",
    "G": "reasoning",
    "R": "field reports",
}
# Where the last word of a handed case's name does not begin with its group's letter.
HANDED_GROUPS = {
    "A": "single parallel parallel_text typed noargs multiline tight spaces noargs_token newlines plain",
    "B": "args_first inline no_wrapper singular_section bare llama4 recipient_first analysis_channel_call missing_string_attr json_body",
    "C": "nullable",
    "D": "missing_end missing_section_end missing_block_end cut garbage",
    "G": "think_call closed prefilled append final two_analysis none empty stray_close tool_inside channels preamble",
}
# Own cases whose tag is a word.
OWN_GROUPS = (
    (r"tail_|fr17|mid_reason|I11", "G"),
    (r"cut|len|resync|end$|missing|dup|surplus|junk|chain|badpar|34a|crlf_missing|textin", "D"),
    (r"pref|ignored|ltlt|tagsnames|namespace", "E"),
    (r"35|oddkeys|pyquotes|inline|mixq|several|two_in_one|emptyargs|norp|39|scratch", "B"),
    (r"", "A"),
)
NO_REASONING = "no reasoning of its own; any reasoning parser goes with it"
NO_SPELLING = "one spelling"
# Checked by reading: transformers 5.24.0 (T), vLLM 0.33.0 (V) and the gguf package (G) list these names.
ARCHITECTURES = {
    "T": "DeepseekV32ForCausalLM DeepseekV4ForCausalLM GptOssForCausalLM Gemma4ForConditionalGeneration Gemma4ForCausalLM HYV3ForCausalLM "
    "Glm4MoeLiteForCausalLM GlmMoeDsaForCausalLM Kimi_K25ForConditionalGeneration Lfm2ForCausalLM Lfm2MoeForCausalLM Llama4ForCausalLM "
    "Llama4ForConditionalGeneration MiMoV2FlashForCausalLM MiniMaxM2ForCausalLM MiniMaxM3SparseForConditionalGeneration SeedOssForCausalLM "
    "Step3p7ForConditionalGeneration",
    "V": "DeepseekV32ForCausalLM DeepseekV4ForCausalLM DeepseekV4ForConditionalGeneration DeepseekV41ForCausalLM GptOssForCausalLM "
    "Gemma4ForConditionalGeneration Gemma4ForCausalLM HYV3ForCausalLM Glm4MoeLiteForCausalLM GlmMoeDsaForCausalLM Glm5NextForCausalLM "
    "KimiK25ForConditionalGeneration KimiK3ForConditionalGeneration Lfm2ForCausalLM Lfm2MoeForCausalLM Llama4ForCausalLM "
    "Llama4ForConditionalGeneration MiMoV2FlashForCausalLM MiMoV2ForCausalLM MiMoV2OmniForCausalLM MiniMaxM2ForCausalLM "
    "MiniMaxM3SparseForCausalLM MiniMaxM3SparseForConditionalGeneration SeedOssForCausalLM Step3p5ForCausalLM "
    "Step3p7ForConditionalGeneration",
    "G": "gpt-oss gemma4 glm-dsa lfm2 lfm2moe llama4 mimo2 minimax-m2 seed_oss step35",
}
# What prompts are made with in the tests beside the surrogate that every family has.
PROMPTS = {
    "hermes": "real (SmolLM2: ChatML, renders no tools) and surrogate",
    "qwen3_coder": "surrogate, and a session",
    "nemotron_deci": "surrogate, and a session with `qwen3_coder`",
    "qwen3": "surrogate, and a template of Qwen3's kind",
    **dict.fromkeys(("glm47", "glm45", "minimax_m2"), "surrogate, and a template with reasoning"),
    **dict.fromkeys(("granite", "kimi", "minimax_append_think", "nemotron_v3", "step3p5"), "none: text alone"),
}
SURROGATE = "surrogate"
# Header, end of turn and call tags were compared by eye with the chat templates that llama.cpp publishes (models/templates).
COMPARED = "gemma4 glm45 hy_v3 kimi_k2 kimi_k3 lfm2 minimax_m2 nemotron_deci phi4 seed_oss step3p5"
UNVERIFIED_FRAMES = {
    "hy_v3": "the frame is that of the Hunyuan dense models; that Hy3 has the same is unconfirmed",
    "nemotron_deci": "Nemotron Nano v2 writes the same calls in another frame, which is not followed; Super v1.5 sets calls directly "
    "behind text, where the writer puts a line feed",
    "step3p5": "the template sets calls directly behind text, where the writer puts a line feed",
    "lfm2": "LFM2.5 sets no line feeds round its reasoning, the writer of `qwen3` does",
    "granite_thinking_parser": "known from the documentation; the template was not seen",
    "olmo3": "known from the documentation; that the prompt opens the reasoning is unconfirmed",
    "minimax_m3": "replay after the last user message is unconfirmed",
}


class Result(NamedTuple):
    """One case: the families it counts for, its group, and what went wrong ("": nothing)."""

    identity: str
    tool: str | None
    reasoning: str | None
    group: str
    failure: str


def results() -> list[Result]:
    """Every committed case, run."""
    return [*_own_results(), *_handed_results(), *_report_results()]


def _own_results() -> Iterator[Result]:
    for case in own.CASES:
        model = own.format_of(case)
        opening = Opening(case["opening"])
        if opening.kind == "rendered":
            opening = opening_of(case["prompt_tail"], model.family.frame)

        def check(events: list[Any], case: dict[str, Any] = case) -> None:
            segments = segments_of(events)
            assert [segment["type"] for segment in segments] == [segment["type"] for segment in case["segments"]]
            for got, wanted in zip(segments, case["segments"], strict=True):
                own.check_segment(got, wanted)
            assert "anomalies" not in case or codes(events) == case["anomalies"]

        failure = _run(model.grammar, own.TOOLS[case["tools"]], case["text"], check, opening=opening, finish=case.get("finish", "stop"))
        yield Result(case["id"], *model.names, own_group(case["id"]), failure)


def _handed_results() -> Iterator[Result]:
    for row in handed.rows("parser_cases.jsonl"):
        parsers = (None, row["parser"]) if row["kind"] == "reasoning" else (row["parser"], row.get("reasoning_parser"))
        case = handed.of_case(row)
        yield Result(case.name, *resolve(*parsers).names, handed_group(case.name), _run_handed(case))


def _report_results() -> Iterator[Result]:
    for row in handed.rows("field_reports.jsonl"):
        if row["input"].get("api") == "parser":
            case = handed.of_report(row)
            names = resolve(row["input"]["parser"], row["input"].get("reasoning_parser")).names
            yield Result(case.name, *names, "R", _run_handed(case))


def _run_handed(case: handed.Case) -> str:
    def check(events: list[Any]) -> None:
        handed.check(case.expect, segments_of(events))

    return _run(case.grammar, case.tools, case.text, check, opening=case.opening, finish=case.finish)


def _run(grammar: Any, tools: Any, text: str, check: Callable[[list[Any]], None], *, opening: Opening, finish: Any) -> str:
    """What is wrong with the turn, whole or character by character."""
    try:
        whole, _ = run(grammar, tools, [text], opening=opening, finish=finish)
        check(whole)
        pieces, _ = run(grammar, tools, list(text), opening=opening, finish=finish)
        assert joined(pieces) == joined(whole), "the cut changes the turn"
    except AssertionError as error:
        return str(error).splitlines()[0] if str(error) else "other segments than expected"
    return ""


def own_group(identity: str) -> str:
    """The group letter of an own case."""
    tag = identity.split(".")[-1]
    if re.match(r"[A-H]\d|C[a-z]", tag):
        return "G" if tag[0] == "H" else tag[0]
    return next(group for pattern, group in OWN_GROUPS if re.search(pattern, tag))


def handed_group(identity: str) -> str:
    """The group letter of a handed case."""
    word = identity.split(".")[-1]
    if identity.startswith("dev.r."):
        return "G"
    return next(group for group, words in HANDED_GROUPS.items() if word in words.split())


# The document


def render(found: Iterable[Result]) -> str:
    """docs/parsers.md."""
    found = list(found)
    by_tool: dict[str, dict[str, list[Result]]] = defaultdict(lambda: defaultdict(list))
    by_reasoning: dict[str, list[Result]] = defaultdict(list)
    for result in found:
        if result.tool is not None:
            by_tool[result.tool][result.group].append(result)
        if result.reasoning is not None and result.group in ("G", "R"):
            by_reasoning[result.reasoning].append(result)
    rows = format_rows()
    tools, reasoning = ([row for row in rows if row.kind == kind] for kind in ("tool", "reasoning"))
    broken = [result for result in found if result.failure]
    handed_count = sum(not result.identity.startswith("report") and result.identity.startswith("dev.") for result in found)
    reports = sum(result.group == "R" for result in found)
    own_count = len(found) - handed_count - reports
    parts = [
        "# Parsers: what each has, and how it fares\n",
        "Written by `make docs` (`scripts/support_table.py`) from the code and from the cases in `packages/parsers/tests/cases`; a test "
        "checks that it is current. "
        f"Cases: {own_count} of our own, {handed_count} handed ones, {reports} field reports; {len(found) - len(broken)} pass, "
        f"{len(broken)} are known to be broken. A number is how many cases of a group pass; the tests run each case whole, character by "
        "character, at every two-way cut and at random cuts.\n",
        "Groups: " + "; ".join(f"**{letter}** {words}" for letter, words in GROUPS.items()) + ".\n",
        "## Calls\n",
        _table(("tool parser", *GROUPS), ((f"`{row.name}`", *_cells(row.name, by_tool[row.name])) for row in tools)),
        _table(("tool parser", *GROUPS), [("`hf` (declared)", *_cells("hf", by_tool["hf"]))]),
        "\n".join(f"* {note}" for note in _notes(by_tool)) + "\n",
        "## Formats\n",
        "Every one has a grammar and a writer. Frame: what a turn begins behind. Forced: `tool_choice` can force a call. Compared: the "
        "tags and the frame were compared with a published chat template. Prompts: what the tests render with; a surrogate is a template "
        "that shows the family's frame and nothing else, and a byte tokenizer with the family's control tokens.\n",
        _table(
            ("tool parser", "also called", "frame", "compared", "forced", "known by", "prompts"),
            map(_format_row, tools),
        ),
        "## Reasoning\n",
        _table(
            ("reasoning parser", "also called", "cases", "past turns keep it", "thinking on / off", "known by", "prompts"),
            (_reasoning_row(row, by_reasoning[row.name]) for row in reasoning),
        ),
        "## Architecture names\n",
        "T: listed by transformers 5.24.0; V: by vLLM 0.33.0; G: by the gguf package.\n",
        _table(("parser", "architectures"), _architecture_rows()),
        "## Not confirmed\n",
        "No family's own chat template or tokenizer is in the repository, beside the default model's; frames, markers and switches are "
        "from descriptions of the templates (`source` in each family file), and from what was compared. In particular:\n",
        "\n".join(f"* `{name}`: {why}." for name, why in sorted(UNVERIFIED_FRAMES.items())) + "\n",
        "## Known to be broken\n",
        "\n".join(f"* `{result.identity}`: {result.failure}" for result in broken) + "\n" if broken else "None of the cases.\n",
    ]
    return "\n".join(parts)


def _cells(name: str, groups: dict[str, list[Result]]) -> list[str]:
    return [_cell(groups[letter]) or ("–" if _why_not(name, letter) else "no case") for letter in GROUPS]


def _cell(found: list[Result]) -> str:
    passed = sum(not result.failure for result in found)
    if not found:
        return ""
    return str(passed) if passed == len(found) else f"{passed} of {len(found)}"


def _why_not(name: str, letter: str) -> str:
    """Why a group has no case: it cannot have one."""
    if letter == "G":
        return NO_REASONING
    if letter == "B":
        return NO_SPELLING
    return "none was reported" if letter == "R" else ""


def _notes(by_tool: dict[str, dict[str, list[Result]]]) -> Iterator[str]:
    """Why a dash stands where it does."""
    for letter, words in GROUPS.items():
        names = [name for name in (*sorted(TOOL_PARTS), "hf") if not by_tool[name][letter]]
        if names and (why := _why_not(names[0], letter)):
            yield f"– under {letter} ({words}): {why}."
    yield "The B cases of a format that has several spellings stand where the variant is; property tests cover the rest."


def _reasoning_row(row: FormatRow, found: list[Result]) -> tuple[str, ...]:
    cases = _cell(found) or "no case"
    return (f"`{row.name}`", _names(row), cases, row.replay, _code(row.thinking), row.detection, _prompt(row.name))


def _format_row(row: FormatRow) -> tuple[str, ...]:
    compared, forced = ("yes" if given else "no" for given in (row.name in COMPARED.split(), row.call_grammar))
    return (f"`{row.name}`", _names(row), _code(row.frame), compared, forced, row.detection, _prompt(row.name))


def _names(row: FormatRow) -> str:
    return ", ".join(row.aliases) or "–"


def _prompt(name: str) -> str:
    return PROMPTS.get(name, SURROGATE)


def _architecture_rows() -> Iterator[tuple[str, str]]:
    for name, rules in sorted(_rules().items()):
        named = list(dict.fromkeys(item for rule in rules for item in rule.architectures))
        if named:
            yield f"`{name}`", ", ".join(f"`{item}` ({_sources(item)})" for item in named)


def _rules() -> dict[str, list[DetectionRule]]:
    """Detection rules by name, of both halves."""
    found: dict[str, list[DetectionRule]] = defaultdict(list)
    for part in (*TOOL_PARTS.values(), *REASONING_PARTS.values()):
        found[part.name] += part.detection
    return found


def _sources(architecture: str) -> str:
    return ", ".join(key for key, names in ARCHITECTURES.items() if architecture in names.split()) or "unconfirmed"


def _table(headings: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    headings = list(headings)
    lines = [headings, ["---"] * len(headings), *map(list, rows)]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def _code(text: str) -> str:
    if text in ("", "none", "ChatML"):
        return text or "–"
    return "`" + text.replace("|", "\\|") + "`"


def main() -> None:
    """Writes the document, or with --check says whether it is current."""
    text = render(results())
    if "--check" in sys.argv[1:]:
        current = TARGET.is_file() and TARGET.read_text(encoding="utf-8") == text
        sys.stdout.write("docs/parsers.md is current.\n" if current else "docs/parsers.md is not current: run `make docs`.\n")
        sys.exit(0 if current else 1)
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_text(text, encoding="utf-8")
    sys.stdout.write(f"{TARGET.relative_to(ROOT)}: {text.count(chr(10))} lines\n")


if __name__ == "__main__":
    main()
