"""How much past reasoning a prompt holds, from the operator's setting and the request, over HTTP."""

import pytest

QUESTIONS = ("q1", "q2", "q3")


def messages(**fields):
    history = []
    for number, question in enumerate(QUESTIONS, 1):
        history.append({"role": "user", "content": question})
        if number < len(QUESTIONS):
            thought = {"type": "thinking", "thinking": f"thought{number}", "signature": "foreign"}
            history.append({"role": "assistant", "content": [thought, {"type": "text", "text": "a"}]})
    return "/v1/messages", {"max_tokens": 50, "messages": history, "thinking": {"type": "adaptive"}, **fields}


def responses(**fields):
    items = []
    for number, question in enumerate(QUESTIONS, 1):
        items.append({"role": "user", "content": question})
        if number < len(QUESTIONS):
            items.append({"type": "reasoning", "summary": [{"type": "summary_text", "text": f"thought{number}"}]})
            items.append({"role": "assistant", "content": "a"})
    return "/v1/responses", {"input": items, **fields}


def keep(value):
    return {"context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": value}]}}


@pytest.mark.parametrize(
    ("replay", "request_", "kept"),
    [
        ("family", messages(), "1 2"),
        ("family", messages(**keep({"type": "thinking_turns", "value": 1})), "2"),
        ("family", messages(**keep("all")), "1 2"),
        ("family", responses(reasoning={"context": "current_turn"}), ""),
        ("family", responses(reasoning={"context": "all_turns"}), "1 2"),
        ("family", responses(), "1 2"),
        ("after_last_user", messages(), ""),
        ("after_last_user", messages(**keep("all")), ""),
        ("none", responses(reasoning={"context": "all_turns"}), ""),
        ("all", messages(**keep({"type": "thinking_turns", "value": 1})), "2"),
        ("all", responses(), "1 2"),
    ],
)
def test_the_prompt_holds_what_was_asked_for(serve_mock, replay, request_, kept):
    server = serve_mock(replay=replay)
    path, body = request_
    assert server.http.post(path, json={"model": "antiphon-mock", **body}).status_code == 200
    prompt = server.pipeline.model.tokenizer.decode(server.traced()[-1]["prompt_ids"])
    assert " ".join(number for number in "12" if f"thought{number}" in prompt) == kept
