"""Every model format of the registry for the property tests, and the pieces that its output is made of."""

from parser_harness import tools_of

from antiphon_parsers import ModelFormat, compose, resolve
from antiphon_parsers.families.parts import ReasoningPart, ToolPart
from antiphon_parsers.registry import REASONING_PARTS, TOOL_PARTS
from antiphon_turns import CallSegment

TOOLS = tools_of(
    [
        {"name": "run", "parameters": {"type": "object", "properties": {"cmd": {"type": "string"}, "n": {"type": "integer"}}}},
        {"name": "run_all", "parameters": {"type": "object", "properties": {"opt": {"type": ["string", "null"]}, "any": {}}}},
    ]
)


def partner(tools: ToolPart) -> ReasoningPart:
    """The reasoning part that goes with a tool part: the other half of its messages, the one of its name, else qwen3."""
    if tools.messages is not None:
        return next(part for part in REASONING_PARTS.values() if part.messages == tools.messages)
    return REASONING_PARTS.get(tools.name, REASONING_PARTS["qwen3"])


FAMILIES = [compose(part, partner(part)) for part in TOOL_PARTS.values()]
"""One format for every tool part."""

REGISTRY = [*FAMILIES, *(compose(part, None) for part in TOOL_PARTS.values() if part.messages is None)]
REGISTRY += [*(resolve(None, name) for name in REASONING_PARTS), resolve(None, None)]
"""The same, and each half alone."""


def format_id(model: ModelFormat) -> str:
    """The names of a format."""
    return "+".join(map(str, model.names))


M3 = "]<]minimax[>["


def pieces_of(model: ModelFormat) -> list[str]:
    """What a family's output is made of: its markers, its own calls in fragments, and bits of JSON and prose."""
    calls, reasoning = model.grammar.calls, model.grammar.reasoning
    markers = [*calls.openers, *calls.closers] if calls else ["<tool_call>"]
    markers += [reasoning.opener, reasoning.closer] if reasoning else []
    block = model.writer.write([CallSegment("run", '{"cmd": "x", "n": 12}'), CallSegment("run_all", "{}")])
    ends = sorted({block.find(marker) + len(marker) for marker in (*markers, "{", "}", "run", '"x"') if marker in block} | {len(block)})
    fragments = [block[start:end] for start in (0, *ends) for end in ends if start < end]
    return [
        *(*markers, *markers, *fragments, block, block.replace("run", "other")),
        *('{"name": "run", "arguments": {', '"cmd": "', '"{\\"cmd\\": 1}"', "True", "1.10", "[ARGS]", "[CALL_ID]", "```"),
        *("{", "}", "[", "]", ",", ";", ":", '"', "'", "\\", "\n", "\n\n", " ", "a", "text ", "é", "\u2028", "<", "<|", "[T", "function"),
        *(marker[: len(marker) // 2] for marker in markers),
    ]


PIECES = [
    *("<think>", "</think>", "<tool_call>", "</tool_call>", "<function=", "</function>", "<parameter=", "</parameter>"),
    *("<function=run>", "<function=run_all>", "<function=other>", "<parameter=cmd>", "<parameter=n>", "<parameter=opt>"),
    *("<function=run>\n<parameter=cmd>\n", "\n</parameter>\n</function>\n</tool_call>", "\n</parameter>\n<parameter=n>\n"),
    *('{"name": "run", "arguments": {', '{"arguments": {"cmd": "x"}, "name": "run"}', '"name": "run"', '"arguments": {}', '"cmd": "'),
    *("{'name': 'run', 'arguments': {'cmd': '", '{"name": "run", "arguments": "{', '\\"cmd\\": 1}"', "True", "None", "null", "1.10", "12"),
    *("{", "}", "[", "]", ",", ":", '"', "'", "\\", "\\u12", "\\ud83d", "\\ude00", "\\x4"),
    *("\n", "\n\n", " ", "\t", "<", "</", ">", "=", "a"),
    *("<|start|>assistant", "<|start|>", "<|channel|>", "analysis", "commentary", "final", " to=functions.run", "<|message|>", "<|end|>"),
    *("<|channel|>commentary to=functions.run <|constrain|>json<|message|>{", "<|call|>", "<|return|>", "<|constrain|>json"),
    *("<|tool_call>", "call:", "run{", "<|tool_call>call:run{cmd:", '<|"|>', "<tool_call|>", "n:1", "<|channel>thought\n", "<channel|>"),
    *('<|open|>call tool="run" index="1"<|sep|>', '<|open|>argument key="cmd" type="string"<|sep|>', "<|close|>argument<|sep|>"),
    *('<|open|>argument key="n" type="number"<|sep|>', "<|open|>", "<|close|>", "call", "<|sep|>", "<|close|>call<|sep|>"),
    *('<|open|>json type="object"<|sep|>', "<|open|>tools<|sep|>", "<|close|>think<|sep|>", "<|open|>response<|sep|>"),
    *(M3 + "<tool_call>", M3 + '<invoke name="run">', M3 + "<cmd>", M3 + "</cmd>", M3 + "<n>", M3 + "</n>", M3 + "<item>", M3 + "</item>"),
    *("[run(cmd='", "[run(", "run_all(opt=", "n=12", "')", ")]", ")", "(", "<|python_start|>", "<|python_end|>", ", run(n=1)"),
    *("<function_calls>", "</function_calls>", "\nrun(n=1)", "<|tool_call_start|>", "<|tool_call_end|>", "[run(any={'a': [1"),
    *(M3 + "</invoke>", M3 + "</tool_call>", M3, "<mm:think>", "</mm:think>", '<invoke name="', "<any>", M3 + "<opt>"),
    *("t", "text ", "é", "\U0001f600", "\u2028", "\x00", "<tool", "_call>", "</par", "ameter>", "<|im_end|>"),
]
PAIRS = ["<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>", "<tool_call>run", "<tool_call>run_all\n", "<tool_call>other"]
PAIRS += ["<arg_key>cmd</arg_key><arg_value>", "<arg_key>n</arg_key>\n<arg_value>", "<arg_key>z</arg_key>", "</arg_value></tool_call>"]
INVOKES = ["<invoke name=", '<invoke name="run">', "<invoke name='run_all'>", '<invoke name="other">', "</invoke>", "</parameter>"]
INVOKES += ["<parameter name=", '<parameter name="cmd">', "<parameter name=n>", '<parameter name="opt">']
INVOKES += ["</parameter>\n</invoke>\n", "<minimax:tool_call>", "</minimax:tool_call>", '{"cmd": "x", "n": 1}', "<minimax:"]


def dsml(block: str, space: str = "") -> list[str]:
    """The pieces of one DSML version, some with other bars."""
    tagged = ["<invoke name=", '<invoke name="run">\n', '<invoke name="run_all">', '<invoke name="other">', "</invoke>", "</parameter>"]
    tagged += ['<parameter name="cmd" string="true">', '<parameter name="n" string="false">', '<parameter name="opt">']
    tagged += [f"<{block}>", f"</{block}>", '<parameter name="any" string="true', "</parameter>\n</invoke>\n"]
    marked = [piece.replace("</", "\0").replace("<", f"<｜DSML｜{space}").replace("\0", f"</｜DSML｜{space}") for piece in tagged]
    return [*marked, *(piece.replace("｜", "|") for piece in marked[:4]), "<｜DSML", "｜", '{"cmd": "x"}', '{"n": ']


OWN_PIECES = {
    "glm47": PAIRS,
    "glm45": PAIRS,
    "minimax_m2": INVOKES,
    "deepseek_v4": [*dsml("tool_calls"), "<｜DSML｜tool>"],
    "deepseek_v3_2": dsml("function_calls"),
    "deepseek_v41": dsml("calls", " "),
    "seed_oss": ["<seed:tool_call>", "</seed:tool_call>", "<seed:think>", "</seed:think>", "<parameter=cmd>a</parameter>"],
    "mimo": ["<parameter=cmd>", "<parameter=cmd>a</parameter>\n"],
    "hy_v3": [*PAIRS, "<tool_calls>", "</tool_calls>", "<tool_sep>", "<tool_calls:opensource>", "<tool_call>run<tool_sep>\n"],
}
