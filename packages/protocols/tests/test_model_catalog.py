"""The catalog: one body for every vendor's client, pages, capabilities, metadata profiles."""

import datetime
import json
from typing import Any

import anthropic
import httpx2
import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon_protocols import models, profiles
from antiphon_turns.errors import ConfigError, InvalidRequest

VERSION = {"anthropic-version": "2023-06-01"}
CARDS = (
    models.ModelCard(id="org/a", created=1_700_000_000, context_length=8192, max_output_tokens=4096, display_name="A"),
    models.ModelCard(id="b", created=0, context_length=262_144, profile=profiles.PROFILES["minimal"]),
    models.ModelCard(id="c", created=0, context_length=32_768, reasons=False, calls=False, structured=False),
)
CODEX_REQUIRED = {
    "slug",
    "display_name",
    "supported_reasoning_levels",
    "shell_type",
    "visibility",
    "supported_in_api",
    "priority",
    "support_verbosity",
    "truncation_policy",
    "experimental_supported_tools",
    "base_instructions",
}
CODEX_VALUES = {
    "shell_type": {"default", "local", "shell_command", "unified_exec", "disabled"},
    "visibility": {"list", "hide", "none"},
    "default_reasoning_summary": {"auto", "concise", "detailed", "none"},
    "default_verbosity": {"low", "medium", "high"},
    "apply_patch_tool_type": {"freeform"},
}
"""One unknown value in an entry and Codex drops the whole catalog."""


def entry(profile: profiles.Profile, **card: Any) -> dict[str, Any]:
    """The Codex entry of a model with this profile."""
    return models.codex_entry(models.ModelCard(**{"id": "m", "created": 0, "context_length": 131_072, **card}, profile=profile), 1)


def test_one_catalog_body_serves_all_who_name_no_version() -> None:
    body = json.loads(models.list_body(CARDS, {}))
    assert body["object"] == "list"
    assert [item["id"] for item in body["data"]] == ["org/a", "b", "c"]
    first = body["data"][0]
    assert (first["object"], first["created"], first["type"], first["created_at"]) == (
        "model",
        1_700_000_000,
        "model",
        "2023-11-14T22:13:20Z",
    )
    assert first["context_length"] == first["max_model_len"] == first["max_input_tokens"] == 8192
    assert (body["has_more"], body["first_id"], body["last_id"]) == (False, "org/a", "c")
    assert [item["slug"] for item in body["models"]] == ["org/a", "b", "c"]
    assert [item["priority"] for item in body["models"]] == [1, 2, 3]


def test_an_anthropic_caller_gets_that_shape_alone() -> None:
    body = json.loads(models.list_body(CARDS, VERSION))
    assert set(body) == {"data", "has_more", "first_id", "last_id"}
    assert set(body["data"][0]) == {
        "type",
        "id",
        "display_name",
        "created_at",
        "lifecycle",
        "max_input_tokens",
        "max_tokens",
        "capabilities",
    }
    assert (body["data"][0]["max_input_tokens"], body["data"][0]["max_tokens"]) == (8192, 4096)
    assert json.loads(models.list_body((), {}))["first_id"] is None


def test_one_model_is_every_vendor_s_object_at_once() -> None:
    body = json.loads(models.model_body(CARDS[0], {}))
    assert (body["object"], body["type"], body["slug"]) == ("model", "model", "org/a")
    assert set(body) >= CODEX_REQUIRED
    assert "slug" not in json.loads(models.model_body(CARDS[0], VERSION))


# query, ids, has_more
PAGES = [
    ({}, "abcde", False),
    ({"limit": "1000"}, "abcde", False),
    ({"limit": "5"}, "abcde", False),
    ({"limit": "2"}, "ab", True),
    ({"limit": "2", "after_id": "b"}, "cd", True),
    ({"limit": "2", "after_id": "c"}, "de", False),
    ({"after_id": "e"}, "", False),
    ({"limit": "2", "before_id": "e"}, "cd", True),
    ({"limit": "2", "before_id": "c"}, "ab", False),
    ({"before_id": "a"}, "", False),
    ({"client_version": "0.171.0"}, "abcde", False),
]


@pytest.mark.parametrize(("query", "ids", "more"), PAGES)
@pytest.mark.parametrize("headers", [{}, VERSION], ids=["anybody", "anthropic"])
def test_pages(query: dict[str, str], ids: str, headers: dict[str, str], *, more: bool) -> None:
    cards = [models.ModelCard(id=name, created=0, context_length=8192) for name in "abcde"]
    body = json.loads(models.list_body(cards, headers, query))
    assert "".join(item["id"] for item in body["data"]) == ids
    assert (body["has_more"], body["first_id"], body["last_id"]) == (more, *((ids[0], ids[-1]) if ids else (None, None)))
    assert len(body.get("models", "abcde")) == 5, "Codex loads its list in one piece"


BAD_PAGES = [{"limit": text} for text in ("0", "-1", "1001", "x", "", "1" * 5000, "²")]
BAD_PAGES += [{"after_id": "z"}, {"before_id": "z"}, {"after_id": "a", "before_id": "b"}]


@pytest.mark.parametrize("query", BAD_PAGES, ids=lambda query: str(query)[:40])
def test_a_bad_page_names_its_parameter(query: dict[str, str]) -> None:
    with pytest.raises(InvalidRequest) as refused:
        models.list_body([models.ModelCard(id=name, created=0, context_length=8192) for name in "ab"], {}, query)
    assert refused.value.param == list(query)[-1]


def test_the_sdks_read_the_catalog_page_by_page() -> None:
    def answer(request: httpx2.Request) -> httpx2.Response:
        one = request.url.path.endswith("org/a")
        headers, query = dict(request.headers), dict(request.url.params)
        content = models.model_body(CARDS[0], headers) if one else models.list_body(CARDS, headers, query)
        return httpx2.Response(200, headers={"content-type": "application/json"}, content=content)

    with httpx2.Client(transport=httpx2.MockTransport(answer)) as http:
        vendor = anthropic.Anthropic(api_key="x", base_url="http://t", http_client=http)
        assert [model.display_name for model in vendor.models.list()] == ["A", "b", "c"]
        assert [model.id for model in vendor.models.list(limit=1)] == ["org/a", "b", "c"]
        found = vendor.models.retrieve("org/a").capabilities
        other = openai.OpenAI(api_key="x", base_url="http://t", http_client=http)
        assert [model.id for model in other.models.list()] == ["org/a", "b", "c"]
        assert other.models.retrieve("org/a").created == 1_700_000_000
    assert found is not None
    assert found.thinking.supported
    assert found.effort.high.supported
    assert not found.effort.max.supported
    assert not found.image_input.supported


def capability_names(kind: type[Any]) -> set[str]:
    return set(kind.model_fields)


def test_every_capability_of_the_sdk_is_there() -> None:
    """The SDK's text promises that the keys are always present."""
    body = json.loads(models.model_body(CARDS[0], VERSION))["capabilities"]
    fields = anthropic.types.ModelCapabilities.model_fields
    assert set(body) == set(fields)
    for name, field in fields.items():
        inner: Any = field.annotation
        required = {key for key, part in inner.model_fields.items() if part.is_required()}
        assert set(body[name]) >= required, name
        assert set(body[name]) <= capability_names(inner), name


def test_a_family_without_reasoning_offers_none() -> None:
    capable = json.loads(models.model_body(CARDS[2], VERSION))["capabilities"]
    for name in ("thinking", "effort", "structured_outputs", "context_management"):
        assert capable[name]["supported"] is False
    codex = models.codex_entry(CARDS[2], 1)
    assert codex["supported_reasoning_levels"] == []
    assert "default_reasoning_level" not in codex
    assert codex["supports_parallel_tool_calls"] is False


@pytest.mark.parametrize("name", sorted(profiles.PROFILES))
def test_codex_accepts_every_profile(name: str) -> None:
    found = entry(profiles.PROFILES[name])
    assert set(found) >= CODEX_REQUIRED
    assert None not in found.values()
    for key, allowed in CODEX_VALUES.items():
        assert key not in found or found[key] in allowed
    assert found["truncation_policy"]["mode"] in ("bytes", "tokens")
    profiles.check(name, profiles.PROFILES[name])


def test_the_full_profile_has_the_native_model_s_values() -> None:
    """Codex 0.171's own entry for gpt-5.5; the summary and the instructions are ours."""
    found = entry(profiles.PROFILES["gpt-5.5"], context_length=272_000)
    assert [level["effort"] for level in found["supported_reasoning_levels"]] == ["low", "medium", "high", "xhigh"]
    native = {
        "default_reasoning_level": "medium",
        "shell_type": "unified_exec",
        "visibility": "list",
        "support_verbosity": True,
        "default_verbosity": "low",
        "apply_patch_tool_type": "freeform",
        "truncation_policy": {"mode": "tokens", "limit": 10_000},
        "context_window": 272_000,
        "max_context_window": 272_000,
        "effective_context_window_percent": 95,
        "experimental_supported_tools": [],
    }
    assert {key: found[key] for key in native} == native
    assert "*** Begin Patch" in found["base_instructions"]


def test_the_minimal_profile_has_what_codex_requires_and_the_window() -> None:
    extra = {"context_window", "max_context_window", "input_modalities", "supports_reasoning_summaries", "supports_parallel_tool_calls"}
    assert set(entry(profiles.PROFILES["minimal"])) == CODEX_REQUIRED | extra


@pytest.mark.parametrize(
    ("context", "compact", "tool_output"),
    [(8192, 6144, 1024), (32_768, 24_576, 4096), (65_536, 49_152, 8192), (131_072, 114_688, 10_000), (272_000, 244_800, 10_000)],
)
def test_limits_fit_the_context(context: int, compact: int, tool_output: int) -> None:
    found = entry(profiles.PROFILES["gpt-5.5"], context_length=context)
    assert (found["auto_compact_token_limit"], found["truncation_policy"]["limit"]) == (compact, tool_output)


def test_a_profile_may_tell_of_less_context_and_never_of_more() -> None:
    small = profiles.Profile(context_window=1000)
    assert entry(small)["context_window"] == 1000
    assert entry(small, context_length=500)["context_window"] == 500


def test_a_configuration_makes_profiles() -> None:
    found = profiles.read_profiles(
        {"house": {"like": "minimal", "truncation-limit": 20_000}, "gpt-5.5": {"verbosity": "high"}, "more": {"like": "gpt-5.5"}}
    )
    assert found["house"] == profiles.Profile(parallel_calls=False, truncation_limit=20_000)
    assert found["gpt-5.5"].verbosity == found["more"].verbosity == "high"
    assert found["gpt-5.5"].apply_patch == "freeform"
    assert profiles.PROFILES["gpt-5.5"].verbosity == "low", "the built-in ones stay"


BAD_PROFILES = [
    ({"x": 1}, "profiles.x: must be a table"),
    ({"x": {"like": "gpt-55"}}, "'gpt-55'; there are gpt-5.5"),
    ({"x": {"colour": "red"}}, "a profile has efforts,"),
    ({"x": {"verbosity": "loud"}}, "profiles.x: Invalid enum value 'loud'"),
    ({"x": {"apply_patch": "function"}}, "profiles.x: Invalid enum value 'function'"),
    ({"x": {"default_effort": "huge"}}, "'huge' is not one of its efforts"),
    ({"x": {"truncation_limit": 0}}, "truncation_limit must be greater than 0"),
    ({"x": {"window_percent": 101}}, "window_percent must be between"),
    ({"x": {"context_window": 0}}, "context_window must be greater than 0"),
]


@pytest.mark.parametrize(("tables", "said"), BAD_PROFILES, ids=[said for _, said in BAD_PROFILES])
def test_a_bad_profile_is_a_sentence(tables: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match="profile") as refused:
        profiles.read_profiles(tables)
    assert said in refused.value.message


@given(st.integers(-(2**33), 2**37))
def test_timestamps_are_the_calendar_s(seconds: int) -> None:
    epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    assert models.timestamp(seconds) == (epoch + datetime.timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")
