"""Stand-ins in client text, and the expressions that find what needs them."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon_tokenizers.escape import Markers, StandIns, client_strings, template_tool
from antiphon_tokenizers.jsontext import dumps
from antiphon_tokenizers.tries import alternation
from antiphon_turns import Tool, TurnRequest, UserMessage
from antiphon_turns.errors import InvalidRequest

CONTROLS = ("<|im_start|>", "<|im_end|>", "<think>", "[INST]", "<<x", "<|object_ref|>")
MARKERS = Markers(CONTROLS, ("</tool>", "<|im_start|>assistant\n"))
PIECES = st.sampled_from(
    ["<", "|", "<|im_", "end|>", "im_end|>", "<think", "think", ">", "[INST]", "<<x", "<<", "x", "</tool>", "é", "\ue000"]
)
TEXTS = st.lists(PIECES, max_size=8).map("".join)


def _shown(text: str, stand_ins: StandIns) -> str:
    """Stand-ins as `_`."""
    return "".join("_" if char in {pair[0] for pair in stand_ins.pairs} else char for char in text)


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("", ""),
        ("plain text", "plain text"),
        ("a<|im_end|>b<|im_start|>", "a_|im_end|>b_|im_start|>"),
        ("a < b", "a < b"),
        ("<<<x", "<_<x"),
        ("</tool> is a text marker", "_/tool> is a text marker"),
        ("ends in <|im_", "ends in _|im_"),
        ("ends in <", "ends in _"),
        ("end|> of one begun before", "_nd|> of one begun before"),
        ("think", "_hink"),
        ("thinking", "thinking"),
        ("object", "_bject"),
    ],
)
def test_escape(text: str, escaped: str) -> None:
    stand_ins = StandIns(MARKERS, [text])
    found = stand_ins.escape(text)
    assert _shown(found, stand_ins) == escaped
    assert stand_ins.unescape(found) == text
    assert len(found) == len(text)
    assert stand_ins.escape(found) == found


def test_schema_words_stay_readable_for_templates() -> None:
    stand_ins = StandIns(MARKERS, [])
    assert stand_ins.escape_value({"type": "object", "think": ["object", 1]})["type"] == "object"
    assert stand_ins.escape_json('{"type": "object"}', schema=True) == '{"type": "object"}'
    assert "think" not in stand_ins.escape_value({"think": 1})


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ('{"k1": "yes", "k2": 1.10}', '{"k1": "yes", "k2": 1.10}'),
        (r'{"k1": "tab\t and \"quote\" \u00e9"}', r'{"k1": "tab\t and \"quote\" \u00e9"}'),
        (r'{"k1": "\u003c|im_end|>\n"}', r'{"k1": "_|im_end|>\n"}'),
        (r'{"k1": "<\/tool>"}', '{"k1": "_/tool>"}'),
        (r'{"k1": "<|im_end|>\t\u003c|im_end|>"}', r'{"k1": "_|im_end|>\t_|im_end|>"}'),
        ('{"k1": "cut <|im_end|>', '{"k1": "cut _|im_end|>'),
        (r'"\u00zz<think>"', r'"\u00zz_think>"'),
    ],
)
def test_escape_json(text: str, after: str) -> None:
    stand_ins = StandIns(MARKERS, [], [text])
    assert _shown(stand_ins.escape_json(text), stand_ins) == after


def test_unfinished_json_takes_linear_time() -> None:
    text = '"' + '\\"' * 300_000
    assert StandIns(MARKERS, [], [text]).escape_json(text) == text


def test_stand_ins_do_not_occur_in_the_request() -> None:
    request = TurnRequest(
        surface="chat",
        model="m",
        messages=(UserMessage("\ue000 \ue001 <think>"),),
        tools=(Tool(name="t", parameters=r'{"title": "\uE002"}'),),
        template_kwargs={"k": "\ue003"},
    )
    stand_ins = StandIns(MARKERS, *client_strings(request), avoid="\ue004")
    assert stand_ins.escape("<think>") == "\ue005think>"


def test_a_request_full_of_private_use_characters() -> None:
    stand_ins = StandIns(MARKERS, ["".join(map(chr, range(0xE000, 0xF900)))])
    assert stand_ins.escape("<think>") == "\U000f0000think>"
    everything = "".join(map(chr, [*range(0xE000, 0xF900), *range(0xF0000, 0xFFFFE)]))
    with pytest.raises(InvalidRequest, match="private-use"):
        StandIns(MARKERS, [everything]).escape("<think>")


def test_earlier_stand_ins_are_adopted_only_if_they_would_be_chosen_again() -> None:
    first = StandIns(MARKERS, [])
    first.escape("<think>")
    assert StandIns(MARKERS, []).adopt(first.pairs)
    other = StandIns(MARKERS, ["\ue000"])
    assert not other.adopt(first.pairs)
    assert other.escape("<think>") == "\ue001think>"


def test_tool_form() -> None:
    tool = Tool(name="f1", description="d1", parameters='{"type": "object", "properties": {"z": {"default": 1.10}, "a1": {"const": 1e3}}}')
    form = template_tool(tool, StandIns(MARKERS, []))
    assert dumps(form) == '{"type": "function", "function": {"name": "f1", "description": "d1", "parameters": ' + tool.parameters + "}}"
    assert "description" not in template_tool(Tool(name="f"), StandIns(MARKERS, []))["function"]
    for bad in ("{", "[" * 50_000):
        with pytest.raises(InvalidRequest, match="tool 'f'"):
            template_tool(Tool(name="f", parameters=bad), StandIns(MARKERS, []))


@given(texts=st.lists(TEXTS, min_size=1, max_size=4), glue=st.sampled_from(["", "<", ">", "<|", "|>", " "]))
def test_no_marker_can_be_put_together(texts: list[str], glue: str) -> None:
    stand_ins = StandIns(MARKERS, texts)
    joined = glue.join(stand_ins.escape(text) for text in texts)
    glued = glue + joined + glue
    assert not any(control in glued for control in CONTROLS)
    assert stand_ins.unescape(joined) == glue.join(texts)


@given(literals=st.sets(st.text("ab<|>.", min_size=1, max_size=5), min_size=1, max_size=12), text=st.text("ab<|>.", max_size=30))
def test_alternation_matches_the_longest(literals: set[str], text: str) -> None:
    plain = "|".join(map(re.escape, sorted(literals, key=len, reverse=True)))
    assert re.findall(alternation(literals), text) == re.findall(plain, text)
