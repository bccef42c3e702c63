"""What a prompt is made of, for every must family: counts that add up, and never claim what is not certain."""

from functools import lru_cache
from itertools import chain

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from packages.antiphon.tests.prompt_sessions import FAMILIES, STEPS, TOOLS, family_renderer, vocabulary

from antiphon.explain.composition import PARTS, Part, compose
from antiphon_parsers import ModelFormat
from antiphon_tokenizers import Renderer, Tokenizer, encode
from antiphon_turns import (
    AssistantMessage,
    Message,
    SystemMessage,
    TextSegment,
    Thinking,
    ToolMessage,
    TurnRequest,
    UserMessage,
)

SAID: tuple[Message, ...] = tuple(chain.from_iterable(more for _, more in STEPS))
# Tokens of the session's texts.
TRUE = {"system": 3, "user": 12, "assistant": 8, "reasoning": 12, "results": 3}


@lru_cache
def family(name: str) -> tuple[Renderer, Tokenizer, ModelFormat]:
    return family_renderer(name, vocabulary())


def composed(name: str, request: TurnRequest, **fields: int) -> tuple[tuple[Part, ...], int]:
    renderer, tokenizer, model = family(name)
    ids = encode(renderer.render(request), tokenizer, limit=100_000)
    return compose(request, ids, tokenizer, model.family.frame, **fields), len(ids)


def ask(*messages: Message, **fields: object) -> TurnRequest:
    return TurnRequest(surface="messages", model="m", messages=messages, thinking=Thinking(mode="on"), **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", FAMILIES)
def test_a_session_is_taken_apart(name: str) -> None:
    parts, total = composed(name, ask(*SAID, tools=TOOLS))
    tokens = {part.name: part.tokens for part in parts}
    assert sum(tokens.values()) == total
    assert (tokens["system"], tokens["results"]) == (TRUE["system"], TRUE["results"])
    assert 0 < tokens["user"] <= TRUE["user"] and 0 < tokens["assistant"] <= TRUE["assistant"]
    assert tokens.get("reasoning", 0) <= TRUE["reasoning"]
    assert tokens["tools"] > 100 and tokens["calls"] > 0


def test_shared_and_cached_are_counted_from_the_front() -> None:
    _, total = composed("qwen3_coder", ask(*SAID, tools=TOOLS))
    parts, _ = composed("qwen3_coder", ask(*SAID, tools=TOOLS), shared=260, cached=100)
    assert sum(part.shared for part in parts) == 260 < total
    assert sum(part.cached or 0 for part in parts) == 100
    assert {part.name: part.shared for part in parts}["opening"] == 0


def test_without_tools_nothing_counts_as_tools() -> None:
    parts, _ = composed("hermes", ask(SystemMessage("Be brief."), UserMessage("Hello.")))
    assert [part.name for part in parts] == ["system", "user", "opening", "other"]


def test_a_text_that_stands_everywhere_is_found_where_it_belongs() -> None:
    parts, _ = composed("hermes", ask(SystemMessage("read_file run a user"), UserMessage("a"), tools=TOOLS))
    assert {part.name: part.tokens for part in parts}["user"] == 1


def test_a_raw_prompt_has_no_parts() -> None:
    _, tokenizer, model = family("hermes")
    ids = tokenizer.encode("hello there", added=True)
    request = TurnRequest(surface="completions", model="m", messages=(), prompt="hello there")
    assert [part.name for part in compose(request, ids, tokenizer, model.family.frame)] == ["other"]


TEXTS = st.text("ab\n <>ä😀", max_size=12)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(TEXTS, TEXTS, TEXTS), min_size=1, max_size=3), st.integers(0, 400), st.sampled_from(["hermes", "glm47", "harmony"])
)
def test_the_parts_of_any_conversation_add_up(turns: list[tuple[str, str, str]], shared: int, name: str) -> None:
    said: list[Message] = [SystemMessage(turns[0][0])]
    for user, assistant, result in turns:
        said += [UserMessage(user), AssistantMessage((TextSegment(assistant),)), ToolMessage("c", result)]
    parts, total = composed(name, ask(*said, UserMessage("end")), shared=shared)
    assert sum(part.tokens for part in parts) == total
    assert sum(part.shared for part in parts) == min(shared, total)
    assert [part.name for part in parts] == [known for known in PARTS if known in {part.name for part in parts}]
