"""Generated pages are current, and what they say of a field is so."""

import importlib
import importlib.util
import json
import re
from pathlib import Path
from types import ModuleType
from typing import Any, get_args

import msgspec
import pytest

from antiphon.access.key import KeyEntry
from antiphon.config import Settings, WorkerSettings
from antiphon.explain.advice import ADVICE
from antiphon.explain.causes import SENTENCES, Code
from antiphon.explain.composition import PARTS
from antiphon.speculation import Outcome
from antiphon_protocols import advice, nvext
from antiphon_protocols.retention import NvextCacheControl
from antiphon_turns import RouterMode
from antiphon_turns.errors import UnsupportedFeature

ROOT = Path(__file__).resolve().parent.parent


def script(name: str) -> ModuleType:
    """A module of scripts/, which is no package."""
    spec = importlib.util.spec_from_file_location(f"docs_{name}", ROOT / "scripts" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


FIELDS = script("field_table")
SURFACES = [surface for surface in FIELDS.SURFACES if FIELDS.wire_module(surface) is not None]
LEAST: dict[str, dict[str, Any]] = {
    "messages": {"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": "x"}]},
    "chat": {"model": "m", "messages": [{"role": "user", "content": "x"}]},
    "responses": {"model": "m", "input": "x"},
    "completions": {"model": "m", "prompt": "x"},
}


def read(surface: str, **fields: Any) -> Any:
    """The surface's own reading of a small body with these fields."""
    module = importlib.import_module(f"antiphon_protocols.{surface}")
    reader = getattr(module, "read", None) or module.ingest
    return reader(json.dumps({**LEAST[surface], **fields}).encode(), {})


def test_the_table_of_fields_is_current() -> None:
    assert FIELDS.PAGE.read_text("utf-8") == FIELDS.page(), "`make docs` writes it"


def test_the_page_of_causes_is_current_and_complete() -> None:
    page = script("explain_table")
    assert page.PAGE.read_text("utf-8") == page.page(), "`make docs` writes it"
    assert set(SENTENCES) == set(ADVICE) == set(get_args(Code))
    assert set(page.MEANINGS) == set(PARTS)
    assert all(f"| `{code}` | {sentence} | {ADVICE[code]} |" in page.page() for code, sentence in SENTENCES.items())


def test_the_page_of_settings_is_current_and_complete() -> None:
    page = script("config_table")
    assert page.PAGE.read_text("utf-8") == page.page(), "`make docs` writes it"
    names = {*Settings.__struct_fields__, *WorkerSettings.__struct_fields__}
    assert [name for name in sorted(names) if f"| `{name}` |" not in page.page()] == []
    assert [field.name for field in msgspec.structs.fields(KeyEntry) if f"| `{field.name}` |" not in page.page()] == []


def test_every_surface_is_in_the_table() -> None:
    packages = {path.parent.name for path in (ROOT / "packages/protocols/src/antiphon_protocols").glob("*/wire.py")}
    assert packages == set(SURFACES)


@pytest.mark.parametrize("surface", SURFACES)
def test_what_is_called_refused_is_refused_by_name(surface: str) -> None:
    for name in FIELDS.refusals(surface):
        with pytest.raises(UnsupportedFeature) as refused:
            read(surface, **{name: {"type": "x"}})
        assert name in refused.value.message


@pytest.mark.parametrize("surface", SURFACES)
def test_what_is_called_accepted_is_taken_without_a_word(surface: str) -> None:
    for name in FIELDS.wire_module(surface).ACCEPTED:
        found = read(surface, **{name: {}})
        turns = getattr(found, "turns", None) or (getattr(found, "turn", found),)
        assert all(name not in turn.ignored for turn in turns)


@pytest.mark.parametrize("surface", SURFACES)
def test_what_is_called_honoured_is_read_somewhere(surface: str) -> None:
    folder = ROOT / "packages/protocols/src/antiphon_protocols"
    code = "".join(path.read_text("utf-8") for path in [*folder.glob("*.py"), *(folder / surface).glob("*.py")] if path.name != "wire.py")
    unread = {name for name in FIELDS.honoured(surface) if not re.search(rf"\.{name}\b|\"{name}\"", code)}
    assert unread == set()


def test_the_page_of_hints_names_every_field_and_header() -> None:
    page = (ROOT / "docs" / "hints.md").read_text("utf-8")
    structs = (nvext.WireHints, nvext.SessionControl, NvextCacheControl)
    fields = {field.name for struct in structs for field in msgspec.structs.fields(struct)} - {"type"}
    fields |= {"decode_worker_id", "backend_instance_id", "dp_rank", "router_mode", "prompt_cache_retention"}
    headers = {value for name, value in vars(advice).items() if name.endswith("_HEADER")} | set(advice.RANK_HEADERS)
    assert len(headers) == 11
    assert [name for name in sorted(fields | headers) if f"`{name}" not in page and f'"{name}"' not in page] == []
    assert all(f"`{mode}`" in page for mode in get_args(RouterMode))
    assert all(f"`{outcome}`" in page for outcome in get_args(Outcome))
