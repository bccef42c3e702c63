"""Chat templates: Hugging Face semantics, the sandbox, and probing."""

from datetime import datetime

import pytest

from antiphon_tokenizers import Abilities, ChatTemplate, ModelFiles
from antiphon_tokenizers.jsontext import FixedObject, dumps, loads
from antiphon_turns.errors import ConfigError, InvalidRequest

USER = [{"role": "user", "content": "hi"}]


def _render(text: str, **variables: object) -> str:
    return ChatTemplate(text, bos_token="<s>", clock=lambda: datetime(2030, 1, 2)).render(USER, None, **variables)


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{{ bos_token }}{{ eos_token }}|", "<s>|"),
        ("  {% if true %}\nx\n  {% endif %}\ny", "x\ny"),
        ("{% for m in [1,2,3] %}{% if m == 2 %}{% continue %}{% endif %}{{ m }}{% endfor %}", "13"),
        ("{% for m in [1,2,3] %}{% if m == 2 %}{% break %}{% endif %}{{ m }}{% endfor %}", "1"),
        ("{{ {'a': '<é>', 'b': [1, none, true]} | tojson }}", '{"a": "<é>", "b": [1, null, true]}'),
        ("{{ {'b': 1, 'a': {}} | tojson(indent=2) }}", '{\n  "b": 1,\n  "a": {}\n}'),
        ("{{ {'b': 1, 'a': [1, 2]} | tojson(separators=(',', ':'), sort_keys=true) }}", '{"a":[1,2],"b":1}'),
        ("{{ 'é' | tojson(ensure_ascii=true) }}", '"\\u00e9"'),
        ("{{ strftime_now('%d %b %Y') }}", "02 Jan 2030"),
        ("a{% generation %}b{{ messages[0].content }}{% endgeneration %}c", "abhic"),
        ("{{ missing }}|{{ messages[0]['content'] }}|{{ messages[0].role }}", "|hi|user"),
        ("{% for k, v in {'items': 1}.items() %}{{ k }}{{ v }}{% endfor %}", "items1"),
    ],
)
def test_semantics(template: str, expected: str) -> None:
    assert _render(template) == expected


@pytest.mark.parametrize(
    ("template", "says"),
    [
        ("{{ raise_exception('roles must take turns') }}", "roles must take turns"),
        ("{{ messages[0].content + 1 }}", "can only concatenate str"),
        ("{{ missing.attribute }}", "undefined"),
        ("{{ 1 // 0 }}", "by zero"),
        ("{{ ''.__class__.__mro__ }}", "unsafe"),
        ("{{ messages.append(1) }}", "unsafe"),
        ("{{ 'ab' * 100000000 }}", "too long"),
        ("{{ 2 ** 99999999 }}", "too large"),
        ("{% for i in range(99999999) %}{% endfor %}", "Range too big"),
        ("{{ missing | tojson }}", "undefined"),
        ("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "recursion"),
    ],
)
def test_faults_are_the_requests(template: str, says: str) -> None:
    with pytest.raises(InvalidRequest, match=says):
        _render(template)


def test_no_template() -> None:
    with pytest.raises(ConfigError, match="line 2"):
        ChatTemplate("a\n{% if %}")


@pytest.mark.parametrize("text", ['{"a": 1.10, "b": [1e3, -0, 12345678901234567890, 1E+2], "c": {"a": null}}', "[]", '"\u2028"', "1.0"])
def test_numbers_keep_their_spelling(text: str) -> None:
    value = loads(text)
    assert dumps(value) == text
    assert _render("{{ v | tojson }}|{{ v }}", v=value).startswith(text + "|")
    if isinstance(value, dict):
        shown = _render("{{ v.a }} {{ v.b[0] is number }} {{ v.a + 1 }} {{ v.b[2] == 12345678901234567890 }}", v=value)
        assert shown == "1.10 True 2.1 True"
        fixed = FixedObject(value)
        assert [dumps(fixed), dumps(fixed), dumps([fixed], indent=1)] == [text, text, dumps([value], indent=1)]


def test_monstrous_json() -> None:
    assert dumps(loads("9" * 5000)) == "9" * 5000
    with pytest.raises(ValueError, match="nested"):
        loads("[" * 100_000)


def test_default_model_abilities(smollm: ModelFiles) -> None:
    template = ChatTemplate(smollm.chat_template or "", bos_token=smollm.bos_token)
    assert template.abilities == Abilities(
        renders_tools=False,
        accepts_tool_role=False,  # it echoes any role's name
        lone_results=True,
        accepts_system=True,
        system_anywhere=True,
        consecutive_systems=True,
        consecutive_users=True,
        consecutive_assistants=True,
        user_behind_result=True,
        bridge="",
        opens_without_user=True,
        arguments="mapping",
        reads_reasoning=None,
        generation_prompt=True,
    )


def test_qwen_like_abilities(qwen_like: str) -> None:
    template = ChatTemplate(qwen_like)
    assert template.renders_tools and template.accepts_tool_role and template.system_anywhere
    assert template.abilities.reads_reasoning == "reasoning_content"
    assert template.abilities.arguments == "string"


@pytest.mark.parametrize(
    ("call", "form"),
    [
        ("'<call>' + m.tool_calls[0].function.arguments", "string"),
        ("m.tool_calls[0].function.arguments | tojson", "mapping"),
        ("m.tool_calls[0].function.arguments.items() | list", "mapping"),
        # It takes a string as it is, but was made for objects.
        ("a if a is string else a.keys() | join(',') + ':' + a.values() | join(',')", "mapping"),
        ("a if a is string else a | tojson", "string"),
    ],
)
def test_argument_form(call: str, form: str) -> None:
    template = ChatTemplate(
        "{% for m in messages %}{{ m.content }}{% if m.tool_calls %}"
        "{% set a = m.tool_calls[0].function.arguments %}{{ " + call + " }}{% endif %}{% endfor %}"
    )
    assert template.abilities.arguments == form


def test_strict_template_abilities() -> None:
    strict = """{%- for m in messages %}
    {%- if m.role not in ('user', 'assistant') %}{{ raise_exception('only users and assistants') }}{% endif %}
    {%- if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('roles must take turns') }}{% endif %}
    {{- '[' + m.role + ']' + m.content }}
{%- endfor %}"""
    abilities = ChatTemplate(strict).abilities
    assert not (abilities.accepts_system or abilities.system_anywhere or abilities.accepts_tool_role or abilities.consecutive_users)
    assert not abilities.generation_prompt
