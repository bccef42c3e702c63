"""The fuzz target: a bounded run of it, with and without guidance, and that it can fail."""

import importlib
import importlib.util
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def target() -> ModuleType:
    spec = importlib.util.spec_from_file_location("parser_target", ROOT / "tests" / "fuzz" / "parser_target.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.skipif(importlib.util.find_spec("atheris") is None, reason="atheris has no wheel for this Python and machine")
def test_a_bounded_run_guided_by_coverage(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "fuzz_parsers.py", "--seconds", "5", "--seed", "3", "--artifacts", tmp_path],
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "stat::number_of_executed_units" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_every_format_holds_for_drawn_inputs(target: ModuleType) -> None:
    source = random.Random(7)
    for number in range(len(target.REGISTRY)):
        for _ in range(3):
            target.check_bytes(bytes((number,)) + source.randbytes(40))


def test_bytes_mean_what_they_say(target: ModuleType) -> None:
    case = target.read(bytes((0, 4, 0, 1, 0, 9, 0xE0, ord("a"), 0xFF, ord("<"))))
    assert (case.text, case.finish, case.opening.kind, len(case.tools), case.seed) == ("a<", "length", "text", 1, 9)
    assert target.read(b"short") is None


@pytest.mark.parametrize("broken", ["plain", "held_from"])
def test_a_broken_parser_is_found(target: ModuleType, broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that forgets the short way's marker check, and one that never waits for a marker to become whole."""
    prose, cursor = (importlib.import_module(f"antiphon_parsers.engine.{name}") for name in ("prose", "cursor"))
    replaced: dict[str, tuple[type, Callable[..., object]]] = {
        "plain": (prose.Prose, lambda self, text, out: text if out.is_open else None),
        "held_from": (cursor.MarkerSet, lambda self, text, at: len(text)),
    }
    monkeypatch.setattr(replaced[broken][0], broken, replaced[broken][1])
    source = random.Random(7)
    with pytest.raises(AssertionError):
        for _ in range(200):
            target.check_bytes(source.randbytes(40))
