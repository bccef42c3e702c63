"""Names, aliases, detection, writers' system and result text."""

import json

import pytest

import antiphon_parsers
from antiphon_parsers import adapt, detect, native_template, opening_of, resolve
from antiphon_parsers.arguments import members, one_line
from antiphon_parsers.families import qwen3_coder
from antiphon_parsers.registry import TOOL_PARTS
from antiphon_turns import CallSegment, ReasoningSegment, TextSegment, Tool, ToolMessage
from antiphon_turns.errors import ConfigError


@pytest.mark.parametrize(
    ("tool", "reasoning", "names"),
    [
        ("hermes", None, ("hermes", None)),
        ("Qwen2.5", "none", ("hermes", None)),
        ("qwen25", None, ("hermes", None)),
        ("qwen3-json", "QWEN3", ("hermes", "qwen3")),
        ("qwen3_xml", "qwen3_coder", ("qwen3_coder", "qwen3")),
        ("Qwen3.Coder", None, ("qwen3_coder", None)),
        ("nemotron-3", None, ("qwen3_coder", None)),
        ("nemotron_nano", "nemotron_nano", ("qwen3_coder", "nemotron_v3")),
        ("nemotron_v3", "nemotron_3", ("qwen3_coder", "nemotron_v3")),
        ("step3p5", "step3p5", ("qwen3_coder", "step3p5")),
        (None, "step3", (None, "step3p5")),
        ("glm", "glm", ("glm45", "glm45")),
        ("GLM-4.7", "glm47", ("glm47", "glm47")),
        ("ling3", "ling3", ("glm47", "glm47")),
        ("minimax-m2", "minimax", ("minimax_m2", "minimax_m2")),
        ("minimax", "minimax-append-think", ("minimax_m2", "minimax_append_think")),
        (None, "minimax_m2_append_think", (None, "minimax_append_think")),
        ("deepseek-v4", "deepseekv4", ("deepseek_v4", "deepseek_v4")),
        ("deepseekv32", "deepseek_v32", ("deepseek_v3_2", "deepseek_v3_2")),
        ("deepseekv41", "deepseek_v41", ("deepseek_v41", "deepseek_v41")),
        ("seed-oss", "seed_oss", ("seed_oss", "seed_oss")),
        ("mimo", "mimo", ("mimo", "mimo")),
        ("hy_v3", "hunyuan", ("hy_v3", "hy_v3")),
        ("openai", "openai_gptoss", ("harmony", "gpt_oss")),
        ("gpt-oss", "gpt-oss", ("harmony", "gpt_oss")),
        ("gemma-4", "gemma-4", ("gemma4", "gemma4")),
        ("kimi-k3", "kimi-k3", ("kimi_k3", "kimi_k3")),
        ("minimax-m3", "minimax-m3", ("minimax_m3", "minimax_m3")),
        ("llama4_pythonic", "granite", ("llama4_pythonic", "granite")),
        ("LFM2", None, ("lfm2", None)),
        (None, "qwen3-thinking", (None, "qwen3")),
        ("none", None, (None, None)),
        ("kimi-k25", "kimi_k25", ("kimi_k2", "kimi_k2")),
        ("Kimi.K2", "kimi", ("kimi_k2", "kimi")),
        ("deepseekv31", "deepseek_v3", ("deepseek_v3_1", "deepseek_v3_1")),
        ("deepseekv3", "deepseek-r1", ("deepseek_v3", "deepseek_r1")),
        ("deepseek_v31", "deepseek_v3_1", ("deepseek_v3_1", "deepseek_v3_1")),
        ("llama3", None, ("llama3_json", None)),
        ("llama4_json", None, ("llama3_json", None)),
        ("phi4_mini_json", None, ("phi4", None)),
        ("mistral", "mistral", ("mistral", "mistral")),
        ("nemotron-deci", "nemotron_deci", ("nemotron_deci", "nemotron_deci")),
        ("qwen3_coder", "nemotron_deci", ("qwen3_coder", "nemotron_deci")),
    ],
)
def test_resolve(tool: str | None, reasoning: str | None, names: tuple[str | None, str | None]) -> None:
    assert resolve(tool, reasoning).names == names


def test_unknown_names_are_errors_that_name_near_ones() -> None:
    with pytest.raises(ConfigError, match="did you mean qwen3_coder"):
        resolve("qwen3_codr", None)
    with pytest.raises(ConfigError, match="unknown reasoning parser 'deepseek_r7'"):
        resolve(None, "deepseek_r7")
    with pytest.raises(ConfigError, match=r"unknown tool parser 'zzzz'\. Known are deepseek_v3,"):
        resolve("zzzz", None)


def test_format_parts() -> None:
    model = resolve("qwen3_coder", "qwen3")
    assert model.call_format == qwen3_coder.CALL_FORMAT
    assert model.grammar.reasoning_close == "\n</think>\n\n"
    assert model.family.frame.stop_tokens == ("<|im_end|>", "<|endoftext|>")
    assert model.family.replay.keep == "after_last_user"
    assert model.family.switches.thinking_off == {"enable_thinking": False}
    assert {"<tool_call>", "<function=", "<think>", "<|im_end|>"} <= set(model.family.markers)
    plain = resolve(None, None)
    assert plain.grammar.reasoning_close is None and plain.call_format is None and plain.family.replay.keep == "none"


CHATML = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
JSON_TOOLS = CHATML + '<tool_call>\n{"name": <function-name>, "arguments": <args-json-object>}\n</tool_call>'
XML_TOOLS = CHATML + "<tool_call>\n<function=f>\n<parameter=p>\nv\n</parameter>\n</function>\n</tool_call>"


KIMI = "{% for m in messages %}<|im_assistant|>assistant<|im_middle|>{{ m.content }}<|im_end|>{% endfor %}"
KIMI_CALLS = KIMI + "<|tool_calls_section_begin|><|tool_call_begin|>{{ id }}<|tool_call_argument_begin|>"
DEEPSEEK = "{% for m in messages %}<｜Assistant｜>{{ m.content }}<｜end▁of▁sentence｜>{% endfor %}"
DEEPSEEK_CALLS = DEEPSEEK + "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>{{ name }}<｜tool▁sep｜>"
LLAMA = "{% for m in messages %}<|start_header_id|>{{ m.role }}<|end_header_id|>\n\n{{ m.content }}<|eot_id|>{% endfor %}"
MISTRAL = "{% for m in messages %}[INST]{{ m.content }}[/INST]{% endfor %}"
GRANITE = "{% for m in messages %}<|start_of_role|>{{ m.role }}<|end_of_role|>{{ m.content }}<|end_of_text|>\n{% endfor %}"
PHI = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}<|assistant|>"


@pytest.mark.parametrize(
    ("template", "tokens", "names"),
    [
        (KIMI_CALLS, (), ("kimi_k2", None)),
        (KIMI_CALLS + "{% if thinking %}<think>", (), ("kimi_k2", "kimi_k2")),
        (KIMI, ("<|tool_calls_section_begin|>", "<|tool_call_begin|>"), ("kimi_k2", None)),
        (KIMI + "◁think▷", (), (None, "kimi")),
        (DEEPSEEK_CALLS, (), ("deepseek_v3_1", None)),
        (DEEPSEEK_CALLS + "{% if thinking %}<think>{% else %}</think>", (), ("deepseek_v3_1", "deepseek_v3_1")),
        (DEEPSEEK_CALLS + "```json", (), ("deepseek_v3", None)),
        (DEEPSEEK_CALLS + "```json" + "{{ content.split('</think>') }}<think>", (), ("deepseek_v3", "deepseek_r1")),
        (MISTRAL + "[TOOL_CALLS]{{ name }}[ARGS]", (), ("mistral", None)),
        (MISTRAL + "[TOOL_CALLS]{{ name }}[ARGS][THINK]", ("[TOOL_CALLS]", "[ARGS]"), ("mistral", "mistral")),
        ("", ("[TOOL_CALLS]", "[ARGS]"), ("mistral", None)),
        (MISTRAL + "[TOOL_CALLS] [{{ calls }}]", ("[TOOL_CALLS]",), ("mistral_pre11", None)),
        (LLAMA + "<TOOLCALL>[{{ calls }}]</TOOLCALL>", (), ("nemotron_deci", None)),
        (LLAMA + "<TOOLCALL>[{{ calls }}]</TOOLCALL></think>", (), ("nemotron_deci", "nemotron_deci")),
        (LLAMA + "detailed thinking on", (), (None, "nemotron_deci")),
        (LLAMA + '{"name": function name, "parameters": dictionary}', (), ("llama3_json", None)),
        (LLAMA + "<|python_tag|>", (), ("llama3_json", None)),
        (GRANITE + '<tool_call>\n{"name": f, "arguments": {}}\n</tool_call>', ("<tool_call>",), ("granite4", None)),
        (PHI + "<|tool|>{{ tools }}<|/tool|>", (), ("phi4", None)),
    ],
)
def test_each_template_fits_one_family(template: str, tokens: tuple[str, ...], names: tuple[str | None, str | None]) -> None:
    found = detect(template, tokens, ())
    assert (found.tool_parser, found.reasoning_parser) == names
    assert found.others == ()
    assert names[0] is None or found.confidence >= 0.8


@pytest.mark.parametrize(
    ("template", "tokens", "names"),
    [
        (CHATML, (), ("hermes", None)),
        (JSON_TOOLS, (), ("hermes", None)),
        (JSON_TOOLS + "<think>", (), ("hermes", "qwen3")),
        (XML_TOOLS, ("<tool_call>",), ("qwen3_coder", None)),
        (XML_TOOLS + "</think>", (), ("qwen3_coder", "qwen3")),
        ("", ("<|im_start|>", "<tool_call>"), ("hermes", None)),
        ("{{ messages[0].content }}", ("<s>",), (None, None)),
        (CHATML + "<tool_call>f<arg_key>", (), (None, None)),
        ("[gMASK]<sop><tool_call>f<arg_key>{{ clear_thinking }}<think>", (), ("glm47", "glm47")),
        ("[gMASK]<sop><tool_call>f<arg_key>/nothink<think>", (), ("glm45", "glm45")),
        ("]~b]ai\n<think>\n<minimax:tool_call><invoke name=", (), ("minimax_m2", "minimax_m2")),
        ("", ("]~b]", "<minimax:tool_call>"), ("minimax_m2", None)),
        ("<think><｜DSML｜function_calls>", (), ("deepseek_v3_2", "deepseek_v3_2")),
        ("<think><｜DSML｜tool_calls>", (), ("deepseek_v4", "deepseek_v4")),
        ("<think>{% set dsml = '｜DSML｜' %}<{{ dsml }}function_calls>", (), ("deepseek_v3_2", "deepseek_v3_2")),
        (XML_TOOLS + "<think><|im_start|>tool_response", (), ("qwen3_coder", "step3p5")),
        ("<think><｜DSML｜ calls>", (), ("deepseek_v41", "deepseek_v41")),
        ("<seed:bos><seed:think><seed:tool_call><function=f><parameter=p>", (), ("seed_oss", "seed_oss")),
        (XML_TOOLS + "<think>{{ truncate_history_thinking }}", (), ("qwen3_coder", "nemotron_v3")),
        ("<tool_calls><tool_call>f<tool_sep><arg_key><think>", (), ("hy_v3", "hy_v3")),
        ("<|start|>{{ m.role }}<|channel|>final<|message|>", (), ("harmony", "gpt_oss")),
        ('<|turn>model\n<|channel>thought\n<channel|><|tool_call>call:f{k:<|"|>', (), ("gemma4", "gemma4")),
        ("<|turn>model\n", ("<|tool_call>", "<tool_call|>"), ("gemma4", None)),
        ("<|open|>message<|sep|><|close|>message<|sep|>", (), ("kimi_k3", "kimi_k3")),
        ("]~b]ai\n<mm:think>]<]minimax[>[<tool_call>", (), ("minimax_m3", "minimax_m3")),
        ("<|header_start|>{{ m.role }}<|header_end|>", (), ("llama4_pythonic", None)),
        ("<|start_header_id|>{{ m.role }} [func_name1(params_name1=params_value1)]", (), ("pythonic", None)),
        (CHATML + "<|tool_call_start|>", (), ("lfm2", None)),
        (CHATML + "<function_calls>", (), ("olmo3", None)),
    ],
)
def test_detect(template: str, tokens: tuple[str, ...], names: tuple[str | None, str | None]) -> None:
    found = detect(template, tokens, ())
    assert (found.tool_parser, found.reasoning_parser) == names
    assert found.reason.endswith(".") and 0 < found.confidence <= 1
    assert found.others == ()
    resolve(found.tool_parser, found.reasoning_parser)


@pytest.mark.parametrize(
    ("template", "architecture", "names"),
    [
        ("", "DeepseekV4ForCausalLM", ("deepseek_v4", "deepseek_v4")),
        ("", "DeepseekV32ForCausalLM", ("deepseek_v3_2", "deepseek_v3_2")),
        ("", "DeepseekV41ForCausalLM", ("deepseek_v41", "deepseek_v41")),
        (XML_TOOLS + "<think>", "MiMoV2FlashForCausalLM", ("mimo", "mimo")),
        (XML_TOOLS + "<think>", "Step3p5ForCausalLM", ("qwen3_coder", "step3p5")),
        (XML_TOOLS + "<think>", "Qwen3MoeForCausalLM", ("qwen3_coder", "qwen3")),
    ],
)
def test_detect_by_architecture(template: str, architecture: str, names: tuple[str, str]) -> None:
    found = detect(template, (), [architecture])
    assert (found.tool_parser, found.reasoning_parser) == names
    assert found.others == ()
    assert template or "architecture is Deepseek" in found.reason


def test_detection_says_when_it_is_unsure() -> None:
    assert detect(CHATML, (), ()).confidence < 0.5
    assert "renders no tools" in detect(CHATML, (), ()).reason
    both = detect(JSON_TOOLS + XML_TOOLS, (), ())
    assert both.tool_parser == "qwen3_coder" and both.confidence <= 0.5 and "also fit hermes" in both.reason
    assert [(other.kind, other.name, other.reason) for other in both.others] == [
        ("tool", "hermes", "the chat template contains <tool_call>")
    ]
    assert detect(XML_TOOLS, (), ()).confidence > 0.9


def test_a_template_that_can_keep_reasoning_is_told_to() -> None:
    model = resolve("qwen3_coder", "qwen3")
    kept = adapt(model, XML_TOOLS + "{% if preserve_thinking %}")
    assert kept.family.replay.keep == "all" and kept.family.switches.agent == {"preserve_thinking": True}
    assert adapt(model, "truncate_history_thinking").family.switches.agent == {"truncate_history_thinking": False}
    assert adapt(model, XML_TOOLS).family.replay == model.family.replay
    assert adapt(resolve("hermes", None), "preserve_thinking") == resolve("hermes", None)


TOOL = Tool(name="größe", description='say "a"', parameters='{"type":"object","properties":{"z":{"default":1.10,"x":"a, b:c"},"a":{}}}')


EVERY = sorted(TOOL_PARTS)


@pytest.mark.parametrize("parser", EVERY)
def test_tool_list_is_one_json_line_a_tool(parser: str) -> None:
    text = resolve(parser, None).writer.tool_list([TOOL, Tool(name="b")])
    lines = text.split("<tools>\n")[1].split("\n</tools>")[0].split("\n")
    schema = '{"type": "object", "properties": {"z": {"default": 1.10, "x": "a, b:c"}, "a": {}}}'
    function = f'{{"name": "größe", "description": "say \\"a\\"", "parameters": {schema}}}'
    assert lines[0] == f'{{"type": "function", "function": {function}}}'
    assert json.loads(lines[1])["function"]["name"] == "b"
    assert any(marker in text for marker in resolve(parser, None).grammar.calls.openers)  # type: ignore[union-attr]


def test_tool_results() -> None:
    writer = resolve("hermes", None).writer
    assert writer.tool_result(ToolMessage(call_id="1", text="a\nb")) == "<tool_response>\na\nb\n</tool_response>"
    failed = writer.tool_result(ToolMessage(call_id="1", text="boom", is_error=True))
    assert "error" in failed and "boom" in failed and failed != writer.tool_result(ToolMessage(call_id="1", text="boom"))


def test_writers() -> None:
    segments = (
        ReasoningSegment("R"),
        TextSegment("A"),
        CallSegment("f", '{"s": "a\\nb", "n": 1.10, "l": ["x"]}'),
        CallSegment("cut", '{"a', status="truncated"),
        TextSegment("B"),
    )
    assert resolve("hermes", "qwen3").writer.write(segments) == (
        '<think>\nR\n</think>\n\nA\n<tool_call>\n{"name": "f", "arguments": {"s": "a\\nb", "n": 1.10, "l": ["x"]}}\n</tool_call>\nB'
    )
    assert resolve("qwen3_coder", None).writer.write(segments) == (
        "A\n<tool_call>\n<function=f>\n<parameter=s>\na\nb\n</parameter>\n<parameter=n>\n1.10\n</parameter>\n"
        '<parameter=l>\n["x"]\n</parameter>\n</function>\n</tool_call>\nB'
    )


CALLS = (CallSegment("f", '{"a": 1.10}'), CallSegment("cut", "{", status="truncated"), CallSegment("g", ""))
LISTED = '[{"name": "f", "arguments": {"a": 1.10}}, {"name": "g", "arguments": {}}]'
WRITTEN = {
    ("kimi_k2", "kimi_k2"): "<think>R</think>A<|tool_calls_section_begin|>"
    '<|tool_call_begin|>functions.f:7<|tool_call_argument_begin|>{"a": 1.10}<|tool_call_end|>'
    "<|tool_call_begin|>functions.g:8<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>B",
    ("kimi_k2", "kimi"): "◁think▷R◁/think▷A<|tool_calls_section_begin|>"
    '<|tool_call_begin|>functions.f:7<|tool_call_argument_begin|>{"a": 1.10}<|tool_call_end|>'
    "<|tool_call_begin|>functions.g:8<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>B",
    ("mistral", "mistral"): '[THINK]R[/THINK]A[TOOL_CALLS]f[ARGS]{"a": 1.10}[TOOL_CALLS]g[ARGS]{}B',
    ("mistral_pre11", None): f"A[TOOL_CALLS]{LISTED}B",
    ("deepseek_v3", "deepseek_r1"): "<think>\nR\n</think>\n\nA<｜tool▁calls▁begin｜>"
    '<｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{"a": 1.10}\n```<｜tool▁call▁end｜>\n'
    "<｜tool▁call▁begin｜>function<｜tool▁sep｜>g\n```json\n{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>B",
    ("deepseek_v3_1", "deepseek_v3_1"): "<think>R</think>A<｜tool▁calls▁begin｜>"
    '<｜tool▁call▁begin｜>f<｜tool▁sep｜>{"a": 1.10}<｜tool▁call▁end｜>'
    "<｜tool▁call▁begin｜>g<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>B",
    ("nemotron_deci", "nemotron_deci"): f"<think>\nR\n</think>\n\nA\n<TOOLCALL>{LISTED}</TOOLCALL>\nB",
    ("granite4", None): 'A\n<tool_call>\n{"name": "f", "arguments": {"a": 1.10}}\n</tool_call>\n'
    '<tool_call>\n{"name": "g", "arguments": {}}\n</tool_call>\nB',
    ("phi4", None): f"A\nfunctools{LISTED}\nB",
    ("llama3_json", None): 'A<|python_tag|>{"name": "f", "parameters": {"a": 1.10}}; {"name": "g", "parameters": {}}B',
}


@pytest.mark.parametrize("names", WRITTEN, ids=str)
def test_what_each_family_writes(names: tuple[str, str | None]) -> None:
    segments = (ReasoningSegment("R"), TextSegment("A"), *CALLS, TextSegment("B"))
    assert resolve(*names).writer.write(segments, earlier_calls=7) == WRITTEN[names]


def test_a_prompt_that_ends_with_results_leaves_nothing_open() -> None:
    frame = resolve("deepseek_v3_1", None).family.frame
    assert opening_of("<｜Assistant｜><think>", frame).text == "<think>"
    assert opening_of("<｜Assistant｜></think>x<｜end▁of▁sentence｜><｜tool▁output▁begin｜>r<｜tool▁output▁end｜>", frame).text == ""
    assert opening_of("[INST]a[/INST]b</s>[TOOL_RESULTS]r[/TOOL_RESULTS]", resolve("mistral", None).family.frame).text == ""


def test_ids_that_formats_demand() -> None:
    assert resolve("kimi_k2", None).writer.call_id("run", 3) == "functions.run:3"
    assert resolve("mistral", None).writer.call_id("run", 12) == "000000012"
    assert resolve("hermes", None).writer.call_id("run", 3) is None


def test_where_past_reasoning_returns() -> None:
    assert resolve("kimi_k2", "kimi_k2").family.replay.keep == "after_last_plain_assistant"
    assert resolve("mistral", "mistral").family.replay.keep == "all"
    assert resolve("deepseek_v3_1", "deepseek_v3_1").family.replay.keep == "none"
    kept = adapt(resolve("kimi_k2", "kimi_k2"), KIMI + "{% if preserve_thinking %}")
    assert kept.family.replay.keep == "all" and kept.family.switches.agent == {"preserve_thinking": True}
    assert resolve("kimi_k2", "kimi_k2").grammar.reasoning_close == "</think>"


@pytest.mark.parametrize("parser", TOOL_PARTS)
def test_every_tool_list_shows_the_form_of_a_call(parser: str) -> None:
    part = TOOL_PARTS[parser]
    text = part.write_tools([TOOL])
    assert '"größe"' in text and part.calls is not None
    assert any(opener in text for opener in part.calls.openers)


@pytest.mark.parametrize("arguments", ["", "not json", '{"a": ', "[1]", '{"a": "\\ud83d"}', "{" * 5000])
def test_writers_take_any_arguments(arguments: str) -> None:
    for parser in (*EVERY, None):
        text = resolve(parser, "qwen3").writer.write([CallSegment("f", arguments)])
        text.encode()
        assert "f" in text


def test_members_keep_spelling_and_the_last_of_a_repeated_key() -> None:
    assert members(' {"a" : 1.0 , "b":{"x":[1]}, "a":"z"} ') == [("b", '{"x":[1]}'), ("a", '"z"')]
    assert members("{ }") == []
    assert members("[]") is None
    assert one_line('{"a":[1,\n 2]  , "b" : "x,  y"}') == '{"a": [1, 2], "b": "x,  y"}'


def test_public_names_exist() -> None:
    assert sorted(antiphon_parsers.__all__) == antiphon_parsers.__all__
    assert all(hasattr(antiphon_parsers, name) for name in antiphon_parsers.__all__)


@pytest.mark.parametrize(
    ("tools", "reasoning", "template", "agent", "keep"),
    [
        ("hermes", "qwen3", "", {}, "after_last_user"),
        ("qwen3_coder", "qwen3", "preserve_thinking", {"preserve_thinking": True}, "all"),
        ("qwen3_coder", "nemotron_v3", "truncate_history_thinking", {"truncate_history_thinking": False}, "all"),
        ("glm45", "glm45", "", {}, "after_last_user"),
        ("glm47", "glm47", "clear_thinking", {"clear_thinking": False}, "all"),
        ("kimi_k2", "kimi_k2", "", {}, "after_last_plain_assistant"),
        ("kimi_k2", "kimi_k2", "preserve_thinking", {"preserve_thinking": True}, "all"),
        ("kimi_k3", "kimi_k3", "", {}, "all"),
        ("minimax_m2", "minimax_m2", "", {}, "after_last_user"),
        ("minimax_m3", "minimax_m3", "", {}, "after_last_user"),
        ("deepseek_v3_1", "deepseek_v3_1", "", {}, "none"),
        ("deepseek_v3_2", "deepseek_v3_2", "", {}, "after_last_user"),
        ("deepseek_v4", "deepseek_v4", "", {}, "all"),
        ("deepseek_v41", "deepseek_v41", "", {}, "all"),
        ("harmony", "gpt_oss", "", {}, "after_last_final"),
        ("gemma4", "gemma4", "", {}, "after_last_user"),
        ("mistral", "mistral", "", {}, "all"),
        ("seed_oss", "seed_oss", "", {}, "all"),
        ("qwen3_coder", "step3p5", "preserve_thinking", {"preserve_thinking": True}, "all"),
        ("hy_v3", "hy_v3", "preserved_thinking", {"preserved_thinking": True}, "all"),
    ],
)
def test_switches_and_policies_for_agents(tools: str, reasoning: str, template: str, agent: dict[str, bool], keep: str) -> None:
    """Field report 60, and the table of docs/templates.md."""
    family = adapt(resolve(tools, reasoning), template).family
    assert (family.switches.agent, family.replay.keep) == (agent, keep)


def test_templates_of_our_own() -> None:
    named = {name: resolve(name, None).template for name in TOOL_PARTS}
    assert {name for name, template in named.items() if template} == {
        "deepseek_v3_2",
        "deepseek_v4",
        "deepseek_v41",
        "harmony",
        "kimi_k3",
        "mistral",
    }
    assert all(native_template(resolve(name, None)) for name, template in named.items() if template)
    assert native_template(resolve("hermes", None)) is None
