"""No report of these kinds is without a test. A number maps to the module and the test that checks its right value."""

import importlib.util
import re
from pathlib import Path

import pytest
from report_harness import handed

KINDS = {"msgs-events", "msgs-request", "usage", "stop-finish", "toolchoice-schema", "history-poison", "lifecycle", "reasoning-route"}
KINDS |= {"reasoning-replay", "resp-tools", "resp-stream", "resp-state", "catalog-auth-setup"}

MESSAGES, CHAT, SERVER = (f"test_field_reports_{name}" for name in ("messages", "chat", "server"))
ROUTER = "test_field_reports_router"
COVERED = {
    **dict.fromkeys((55, 58, 62, 63, 66, 68, 71, 76, 77, 78, 80, 128, 129, 149, 153, 154), MESSAGES),
    **dict.fromkeys((46, 49, 53, 56, 67, 74, 98, 99, 126, 130, 131, 141, 143, 145, 147, 148), CHAT),
    **dict.fromkeys((119, 120, 155), SERVER),
    **dict.fromkeys((111, 113, 115, 117, 122), ROUTER),
    69: MESSAGES,
    70: MESSAGES,
}
RESPONSES = "protocols/tests/test_responses_field_reports.py"
ELSEWHERE = {
    118: "antiphon/tests/test_kv_index.py",
    47: "parsers/tests/test_parser_cases.py",
    50: "parsers/tests/test_parser_cases.py",
    51: "parsers/tests/test_parser_cases.py",
    60: "antiphon/tests/test_family_prompts.py",
    **dict.fromkeys((82, 83, 84, 86, 87, 88, 89, 91, 94, 95, 96), RESPONSES),
    **dict.fromkeys((159, 160), "antiphon/tests/test_field_reports_hints.py"),
    **dict.fromkeys((151, 157), "antiphon/tests/test_catalog.py"),
}
"""Reports of these kinds that are about a parser or a prompt, or that the tests of their own part check."""


def names_in(module):
    spec = importlib.util.spec_from_file_location(f"{module}_names", Path(__file__).with_name(f"{module}.py"))
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return [name for name in dir(loaded) if name.startswith("test_")]


@pytest.mark.parametrize("module", [MESSAGES, CHAT, SERVER, ROUTER])
def test_every_number_of_the_map_has_its_test(module):
    named = {number for name in names_in(module) for number in map(int, filter(str.isdecimal, name.split("_")))}
    wanted = {number for number, place in COVERED.items() if place == module}
    assert wanted <= named


def test_no_handed_report_is_missing():
    rows = handed()
    if not rows:
        pytest.skip("ANTIPHON_SHARED names no folder with cases/field_reports.jsonl")
    ours = {number for number, row in rows.items() if row["kind"] in KINDS}
    assert ours <= set(COVERED) | set(ELSEWHERE)


def test_what_is_checked_elsewhere_is_there():
    packages = Path(__file__).resolve().parents[2]
    assert all((packages / place).is_file() for place in ELSEWHERE.values())
    numbers = re.findall(r"_(\d+)(?=_)", " ".join(re.findall(r"^def (test_\w+)", (packages / RESPONSES).read_text("utf-8"), re.MULTILINE)))
    assert {number for number, place in ELSEWHERE.items() if place == RESPONSES} <= set(map(int, numbers))
