"""Field reports about templates, over HTTP: a server whose model's template is as strict as they come."""

import json
from pathlib import Path

import pytest
from packages.antiphon.tests.prompt_sessions import vocabulary
from tokenizers import AddedToken
from tokenizers import Tokenizer as FastTokenizer

from antiphon_parsers import resolve

# Four roles, system first, roles take turns, ids of nine characters, a user's text.
STRICT = """{%- set ns = namespace(place=0, user=false) %}
{%- for m in messages %}
    {%- if m.role not in ('system', 'user', 'assistant', 'tool') %}{{ raise_exception('Unexpected message role.') }}{% endif %}
    {%- if m.role == 'system' and not loop.first %}{{ raise_exception('System message must be at the beginning.') }}{% endif %}
    {%- if m.role == 'user' or (m.role == 'assistant' and not m.tool_calls) %}
        {%- if (m.role == 'user') != (ns.place % 2 == 0) %}{{ raise_exception('Roles must alternate.') }}{% endif %}
        {%- set ns.place = ns.place + 1 %}
    {%- endif %}
    {%- if m.role == 'user' %}{% set ns.user = true %}{% endif %}
    {%- for call in m.tool_calls or [] %}
        {%- if call.id | length != 9 %}{{ raise_exception('Ids have nine characters.') }}{% endif %}
    {%- endfor %}
    {%- if 'forbidden' in m.content %}{{ raise_exception('That word is forbidden.') }}{% endif %}
    {%- if m.role == 'tool' %}{{- '[TOOL_RESULTS]' + m.content + '[/TOOL_RESULTS]' }}
    {%- elif m.role == 'system' %}{{- '[SYSTEM_PROMPT]' + m.content + '[/SYSTEM_PROMPT]' }}
    {%- elif m.role == 'assistant' %}{{- m.content + '</s>' }}
    {%- else %}{{- '[INST]' + m.content + '[/INST]' }}{% endif %}
{%- endfor %}
{%- if not ns.user %}{{ raise_exception('No user query found in messages.') }}{% endif %}"""
CALL = {"id": "toolu_01ABC-xyz", "type": "function", "function": {"name": "now", "arguments": "{}"}}
NOW = {"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {}, "required": []}}}
COMPACTED = [
    {"role": "assistant", "content": None, "tool_calls": [{**CALL, "function": {"name": "now", "arguments": None}}]},
    {"role": "tool", "tool_call_id": "toolu_01ABC-xyz", "content": "1"},
]


@pytest.fixture
def strict(serve_mock, tmp_path: Path):
    family = resolve("mistral", "mistral").family
    fast = FastTokenizer.from_str(vocabulary())
    fast.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in family.markers])
    folder = tmp_path / "model"
    folder.mkdir()
    fast.save(str(folder / "tokenizer.json"))
    (folder / "chat_template.jinja").write_text(STRICT, encoding="utf-8")
    return serve_mock([{"when": "", "say": "Fine."}], model_path=folder, tool_call_parser="mistral", reasoning_parser="mistral")


def prompt_of(strict) -> str:
    return strict.pipeline.model.tokenizer.decode(strict.traced()[-1]["prompt_ids"])


CHATS = {
    137: ([{"role": "developer", "content": "Rhyme."}, {"role": "user", "content": "capital of France?"}], "[SYSTEM_PROMPT]Rhyme."),
    138: (
        [{"role": "user", "content": "summary"}, {"role": "developer", "content": "rules v2"}, {"role": "user", "content": "go"}],
        "[INST]summary\n\nrules v2\n\ngo[/INST]",
    ),
    140: (
        [
            {"role": "user", "content": "a"},
            {"role": "assistant", "content": None, "tool_calls": [CALL]},
            {"role": "tool", "tool_call_id": "toolu_01ABC-xyz", "content": "1"},
            {"role": "user", "content": "b"},
        ],
        "[INST]a[/INST][TOOL_CALLS]now[ARGS]{}</s>[TOOL_RESULTS]1[/TOOL_RESULTS]</s>[INST]b[/INST]",
    ),
    0: (COMPACTED, "[INST]Continue.[/INST][TOOL_CALLS]now[ARGS]{}</s>[TOOL_RESULTS]1[/TOOL_RESULTS]"),
}


@pytest.mark.parametrize("report", CHATS)
def test_chat(report: int, strict) -> None:
    messages, shown = CHATS[report]
    answer = strict.http.post("/v1/chat/completions", json={"model": strict.pipeline.model.name, "messages": messages, "tools": [NOW]})
    assert answer.status_code == 200, answer.text
    assert shown in prompt_of(strict)


def test_responses_and_messages(strict) -> None:
    name = strict.pipeline.model.name
    messages, shown = CHATS[138]
    answer = strict.http.post("/v1/responses", json={"model": name, "input": messages})
    assert answer.status_code == 200, answer.text
    assert shown in prompt_of(strict)
    # Claude Code: system text behind the first user's, and text behind a result in the same message.
    told = [
        {"role": "user", "content": "hi"},
        {"role": "system", "content": "agents and skills"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_1", "name": "now", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "1"}, {"type": "text", "text": "more"}]},
    ]
    answer = strict.http.post("/v1/messages", json={"model": name, "max_tokens": 64, "messages": told})
    assert answer.status_code == 200, answer.text
    assert "[INST]hi\n\nagents and skills[/INST]" in prompt_of(strict) and prompt_of(strict).endswith("</s>[INST]more[/INST]")


def test_what_cannot_be_met_is_a_400_with_the_templates_message_and_the_place(strict) -> None:
    messages = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "forbidden"}]
    for path in ("/v1/chat/completions", "/v1/messages"):
        answer = strict.http.post(path, json={"model": strict.pipeline.model.name, "max_tokens": 64, "messages": messages})
        assert answer.status_code == 400
        assert "at message 2 (role user" in answer.json()["error"]["message"]
        assert "That word is forbidden." in answer.json()["error"]["message"]
    assert json.loads(answer.text)["type"] == "error"
