"""A spent thinking budget ends the reasoning with the family's closer, on every surface and in every spelling of a budget."""

import msgspec
import pytest

from antiphon.budget import ThinkingBudget
from antiphon.config import Settings

WORDS = "word " * 400
RULES = [
    {"when": r"word\s*</think>\s*$", "say": "Done."},
    {"when": r"LATE.*assistant\s*$", "say": f"Well.\n<think>\n{WORDS}"},
    {"when": "TWICE", "say": f"one two\n</think>\n\nWell.\n<think>\n{WORDS}"},
    {"when": "", "say": f"{WORDS}\n</think>\n\nnever"},
]
BUDGET = 24
CLOSER_TOKENS = 8


def messages(**fields):
    return "/v1/messages", {"max_tokens": 900, "messages": [{"role": "user", "content": "go"}], **fields}


def chat(**fields):
    return "/v1/chat/completions", {"messages": [{"role": "user", "content": "go"}], **fields}


def responses(**fields):
    return "/v1/responses", {"input": "go", **fields}


WISHES = [
    messages(thinking={"type": "enabled", "budget_tokens": BUDGET}),
    messages(thinking={"type": "adaptive"}, nvext={"max_thinking_tokens": BUDGET}),
    chat(thinking_budget=BUDGET),
    chat(thinking_token_budget=BUDGET, reasoning_effort="high"),
    chat(nvext={"max_thinking_tokens": BUDGET}),
    responses(nvext={"max_thinking_tokens": BUDGET}, reasoning={"effort": "high"}),
]


@pytest.fixture(scope="module")
def server(run_server, tmp_path_factory):
    folder = tmp_path_factory.mktemp("budgets")
    script = folder / "script.jsonl"
    script.write_bytes(b"\n".join(msgspec.json.encode(rule) for rule in RULES))
    with run_server(Settings(engine="mock", http_port=0, mock_script=script, trace_tokens=folder / "tokens.jsonl")) as running:
        yield running


def thought_and_said(answer):
    """(reasoning, text, reasoning tokens) of a body of any surface."""
    if "choices" in answer:
        message, usage = answer["choices"][0]["message"], answer["usage"]
        return message.get("reasoning_content") or "", message["content"], usage["completion_tokens_details"]["reasoning_tokens"]
    if "output" in answer:
        reasoning = [
            part["text"] for item in answer["output"] if item["type"] == "reasoning" for part in item["summary"] or item["content"]
        ]
        text = [part["text"] for item in answer["output"] if item["type"] == "message" for part in item["content"]]
        return "".join(reasoning), "".join(text), answer["usage"]["output_tokens_details"]["reasoning_tokens"]
    blocks = {block["type"]: block for block in answer["content"]}
    tokens = answer["usage"].get("output_tokens_details", {}).get("thinking_tokens", BUDGET)
    return blocks.get("thinking", {}).get("thinking", ""), blocks["text"]["text"], tokens


@pytest.mark.parametrize(("path", "body"), WISHES)
def test_a_spent_budget_ends_the_reasoning(server, path, body):
    answer = server.http.post(path, json={"model": "antiphon-mock", **body})
    assert answer.status_code == 200, answer.text
    reasoning, text, tokens = thought_and_said(answer.json())
    assert (reasoning.strip().split(" ")[0], text) == ("word", "Done.")
    assert BUDGET <= tokens <= BUDGET + CLOSER_TOKENS
    assert len(reasoning.split()) <= BUDGET


@pytest.mark.parametrize(
    ("path", "body"),
    [
        messages(thinking={"type": "disabled"}),
        messages(),
        chat(thinking_budget=0),
        chat(reasoning_effort="none"),
        responses(reasoning={"effort": "none"}),
        responses(nvext={"max_thinking_tokens": 0}),
    ],
)
def test_no_thinking_at_all(server, path, body):
    answer = server.http.post(path, json={"model": "antiphon-mock", **body})
    assert answer.status_code == 200, answer.text
    reasoning, _, tokens = thought_and_said(answer.json())
    assert reasoning == "" and tokens in (0, BUDGET)


@pytest.mark.parametrize(("say", "kwargs", "before"), [("LATE", {"enable_thinking": False}, "Well."), ("TWICE", {}, "Well.")])
def test_reasoning_that_begins_behind_text_has_the_same_budget(server, say, kwargs, before):
    path, body = chat(messages=[{"role": "user", "content": say}], chat_template_kwargs=kwargs, thinking_budget=BUDGET)
    answer = server.http.post(path, json={"model": "antiphon-mock", **body})
    assert answer.status_code == 200, answer.text
    reasoning, text, tokens = thought_and_said(answer.json())
    assert "word" in reasoning and len(reasoning.split()) <= BUDGET
    assert text.startswith(before) and text.endswith("Done.") and "word" not in text
    assert BUDGET <= tokens <= BUDGET + 2 * CLOSER_TOKENS


@pytest.mark.parametrize(
    ("path", "body", "ignored"),
    [
        (*messages(thinking={"type": "adaptive"}, output_config={"effort": "high"}), "output_config.effort"),
        (*chat(reasoning_effort="low"), "reasoning_effort"),
        (*responses(reasoning={"effort": "high"}), "reasoning.effort"),
        (*chat(reasoning_effort="none"), None),
        (*messages(thinking={"type": "disabled"}), None),
    ],
)
def test_an_effort_without_a_switch_is_named(server, path, body, ignored):
    """The mock's template can be told to think or not, and no more."""
    answer = server.http.post(path, json={"model": "antiphon-mock", **body})
    assert answer.status_code == 200 and answer.headers.get("x-antiphon-ignored") == ignored


@pytest.mark.parametrize(
    ("begins", "steps", "spent"),
    [
        (True, [(True, 3), (True, 5)], [False, True]),
        (True, [(False, 3), (False, 50), (True, 51), (True, 53)], [False, False, False, True]),
        (False, [(False, 9), (True, 10), (True, 14), (True, 15)], [False, False, False, True]),
        (True, [(True, 5), (False, 9), (True, 12)], [True, False, True]),
    ],
)
def test_a_budget_counts_reasoning_only(begins, steps, spent):
    budget = ThinkingBudget(5, in_reasoning=begins)
    assert [budget.spent(in_reasoning=inside, sampled=sampled) for inside, sampled in steps] == spent
