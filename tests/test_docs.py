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


def test_the_page_of_metrics_is_current_and_complete() -> None:
    metrics = script("metrics_table")
    assert metrics.PAGE.read_text("utf-8") == metrics.page(), "`make docs` writes it"
    folder = ROOT / "packages/antiphon/src/antiphon/metrics"
    code = "".join(path.read_text("utf-8") for path in folder.glob("*.py"))
    made = set(re.findall(r'"(antiphon_[a-z_]+)"', code)) | {
        f"antiphon_{name}" for name in re.findall(r'(?:counter|histogram)\(\s*"([a-z_]+)"', code)
    }
    told = {name.removesuffix("_seconds") for name in metrics.names()}
    unseen = {name for name in made if not any(one.startswith(name.removesuffix("_seconds")) for one in told)}
    assert len(made) > 25 and unseen == set(), "the script must make each of them happen"


def test_metrics_are_split_by_model_surface_and_client() -> None:
    metrics = script("metrics_table")
    split = {metric.name for metric in metrics.shown() if {"model", "surface", "client"} <= set(metrics.labels_of(metric))}
    wanted = """time_to_first_token_seconds inter_token_seconds queue_seconds call_lead_seconds prompt_tokens output_tokens cache_hit_tokens
        exact_turns anomalies routing_decisions migrations requests"""
    assert {f"antiphon_{name}" for name in wanted.split()} - split == set()


def test_every_expression_of_the_dashboard_names_what_there_is() -> None:
    dashboard = json.loads((ROOT / "deploy/grafana/antiphon.json").read_text("utf-8"))
    panels = [panel for panel in dashboard["panels"] if panel["type"] != "row"]
    expressions = [target["expr"] for panel in panels for target in panel["targets"]]
    expressions += [variable["definition"] for variable in dashboard["templating"]["list"] if variable["type"] == "query"]
    metrics = script("metrics_table")
    expressions += metrics.QUESTIONS.values()
    used = {name for expression in expressions for name in re.findall(r"antiphon_[a-z_]+", expression)}
    assert len(panels) > 15 and used - metrics.names() == set()
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
    labels = {label for metric in metrics.shown() for label in metrics.labels_of(metric)}
    shown = {label for panel in panels for target in panel["targets"] for label in re.findall(r"{{(\w+)}}", target["legendFormat"])}
    assert shown - labels == set()
