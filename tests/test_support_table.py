"""docs/parsers.md is what the code and the committed cases make of it."""

import importlib.util
import os
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parent.parent
CASES = ROOT / "packages" / "parsers" / "tests" / "cases"


@pytest.fixture(scope="module")
def table() -> ModuleType:
    spec = importlib.util.spec_from_file_location("support_table", ROOT / "scripts" / "support_table.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_table_is_current(table: ModuleType) -> None:
    assert table.render(table.results()) == table.TARGET.read_text(encoding="utf-8"), "run `make docs`"


def test_a_case_that_fails_shows_up(table: ModuleType) -> None:
    broken = table.Result("hermes.A1", "hermes", None, "A", "other segments than expected")
    passed = table.Result("hermes.A2", "hermes", None, "A", "")
    text = table.render([broken, passed])
    assert "| `hermes` | 1 of 2 |" in text and "* `hermes.A1`: other segments than expected" in text
    assert "1 pass, 1 are known to be broken" in text


def test_every_case_has_a_group(table: ModuleType) -> None:
    for case in table.own.CASES:
        assert table.own_group(case["id"]) in table.GROUPS
    for row in table.handed.rows("parser_cases.jsonl"):
        assert table.handed_group(row["id"]) in table.GROUPS


def test_every_architecture_of_a_rule_was_looked_up(table: ModuleType) -> None:
    assert [row for row in table._architecture_rows() if "unconfirmed" in row[1]] == []


@pytest.mark.parametrize("name", ["parser_cases.jsonl", "field_reports.jsonl"])
def test_the_committed_cases_are_the_handed_ones(name: str) -> None:
    shared = Path(os.environ.get("ANTIPHON_SHARED", ROOT.parent / "shared")) / "cases" / name
    if not shared.is_file():
        pytest.skip("the handed cases are not here; ANTIPHON_SHARED names the folder that has them")
    assert (CASES / name).read_bytes() == shared.read_bytes()
