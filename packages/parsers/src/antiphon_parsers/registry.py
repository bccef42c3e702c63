"""Names to formats: the parts of all families, their aliases, and their composition."""

import difflib
import re
from typing import Literal

import msgspec

from antiphon_parsers.families import (
    deepseek_r1,
    deepseek_v3,
    deepseek_v3_1,
    dsml,
    gemma4,
    glm,
    granite,
    granite4,
    harmony,
    hermes,
    hf,
    hy_v3,
    kimi,
    kimi_k2,
    kimi_k3,
    llama3_json,
    mimo,
    minimax_m2,
    minimax_m3,
    mistral,
    mistral_pre11,
    nemotron,
    nemotron_deci,
    phi4,
    plain,
    pythonic,
    qwen3,
    qwen3_coder,
    seed_oss,
    step3p5,
)
from antiphon_parsers.families.parts import ReasoningPart, ToolPart
from antiphon_parsers.forcing.forms import CallFormat
from antiphon_parsers.grammar import Grammar
from antiphon_parsers.writer import FormatWriter
from antiphon_turns import Family, TurnWriter
from antiphon_turns.errors import ConfigError
from antiphon_turns.family import ReplayPolicy, TemplateSwitches

TOOL_PARTS: dict[str, ToolPart] = {
    part.name: part
    for part in (
        *(hermes.TOOLS, qwen3_coder.TOOLS, glm.GLM47, glm.GLM45, minimax_m2.TOOLS, dsml.V4, dsml.V32, dsml.V41),
        *(seed_oss.TOOLS, mimo.TOOLS, hy_v3.TOOLS),
        *(harmony.TOOLS, gemma4.TOOLS, kimi_k3.TOOLS, minimax_m3.TOOLS),
        *(pythonic.PYTHONIC, pythonic.LLAMA4_PYTHONIC, pythonic.OLMO3, pythonic.LFM2),
        *(kimi_k2.TOOLS, mistral.TOOLS, mistral_pre11.TOOLS, deepseek_v3.TOOLS, deepseek_v3_1.TOOLS),
        *(nemotron_deci.TOOLS, granite4.TOOLS, phi4.TOOLS, llama3_json.TOOLS),
    )
}
REASONING_PARTS: dict[str, ReasoningPart] = {
    part.name: part
    for part in (
        *(qwen3.REASONING, glm.GLM47_REASONING, glm.GLM45_REASONING, minimax_m2.REASONING, minimax_m2.APPEND_THINK),
        *(dsml.V4_REASONING, dsml.V32_REASONING, dsml.V41_REASONING, seed_oss.REASONING, mimo.REASONING),
        *(nemotron.REASONING, step3p5.REASONING, hy_v3.REASONING, granite.THINKING, pythonic.OLMO3_REASONING),
        *(harmony.REASONING, gemma4.REASONING, kimi_k3.REASONING, minimax_m3.REASONING, granite.REASONING),
        *(kimi_k2.REASONING, kimi.REASONING, mistral.REASONING, deepseek_r1.REASONING, deepseek_v3_1.REASONING, nemotron_deci.REASONING),
    )
}

# Names of the same grammar elsewhere, folded (see `fold`).
TOOL_ALIASES = {
    "qwen": "hermes",
    "qwen25": "hermes",
    "qwen3": "hermes",
    "qwen3json": "hermes",
    "qwen3xml": "qwen3_coder",
    "nemotronnano": "qwen3_coder",
    "nemotronv3": "qwen3_coder",
    "nemotron3": "qwen3_coder",
    "step3p5": "qwen3_coder",
    "nanbeige": "qwen3_coder",
    "glm": "glm45",
    "ling3": "glm47",
    "minimax": "minimax_m2",
    "hunyuan": "hy_v3",
    "openai": "harmony",
    "gptoss": "harmony",
    "openaigptoss": "harmony",
    "kimik25": "kimi_k2",
    "llama3": "llama3_json",
    "llama4json": "llama3_json",
    "phi4minijson": "phi4",
}
REASONING_ALIASES = {
    "qwen3thinking": "qwen3",
    "qwen3coder": "qwen3",
    "basic": "qwen3",
    "nanbeige": "qwen3",
    "glm": "glm45",
    "ling3": "glm47",
    "minimax": "minimax_m2",
    "minimaxm2appendthink": "minimax_append_think",
    "nemotronnano": "nemotron_v3",
    "nemotron3": "nemotron_v3",
    "step3": "step3p5",
    "hunyuan": "hy_v3",
    "openai": "gpt_oss",
    "openaigptoss": "gpt_oss",
    "harmony": "gpt_oss",
    "kimik25": "kimi_k2",
    "deepseekv3": "deepseek_v3_1",
}


class ModelFormat(msgspec.Struct, frozen=True, kw_only=True):
    """Everything about one model format: `grammar` for the parser, `writer` and `family` for the renderer, `call_format`
    for constraints. `names`: tool parser (None for plain text) and reasoning parser. `template` names the project's own chat template for
    models that bring none (see `native`)."""

    family: Family
    grammar: Grammar
    writer: TurnWriter
    names: tuple[str | None, str | None]
    call_format: CallFormat | None
    template: str | None = None


def spellings(kind: Literal["tool", "reasoning"], name: str) -> tuple[str, ...]:
    """The other names of a part, folded."""
    return tuple(alias for alias, part in (TOOL_ALIASES if kind == "tool" else REASONING_ALIASES).items() if part == name)


def fold(name: str) -> str:
    """A name without case and separators."""
    return re.sub(r"[-_. ]", "", name.lower())


def resolve(tool_parser: str | None, reasoning_parser: str | None, *, declared: hf.Declared | None = None) -> ModelFormat:
    """The format of two names; None or "none" leaves that half out, "hf" takes it from `declared`. ConfigError for an unknown
    name, and for "hf" without a declaration."""
    if any(is_declared(name) for name in (tool_parser, reasoning_parser)) and declared is None:
        raise ConfigError("parser hf reads the response_template in a model's tokenizer_config.json, and there is none; name a family")
    tools = None if is_declared(tool_parser) else _look_up("tool", tool_parser, list(TOOL_PARTS), TOOL_ALIASES)
    reasoning = None if is_declared(reasoning_parser) else _look_up("reasoning", reasoning_parser, list(REASONING_PARTS), REASONING_ALIASES)
    tool_part = TOOL_PARTS[tools] if tools else plain.TOOLS
    reasoning_part = REASONING_PARTS[reasoning] if reasoning else None
    if declared is not None:
        tool_part = declared.tools if is_declared(tool_parser) else tool_part
        reasoning_part = declared.reasoning if is_declared(reasoning_parser) else reasoning_part
    return compose(tool_part, reasoning_part)


def is_declared(name: str | None) -> bool:
    """Whether a name means the format that a model declares itself."""
    return name is not None and fold(name) in (hf.NAME, *hf.ALIASES)


def compose(tools: ToolPart, reasoning: ReasoningPart | None) -> ModelFormat:
    """One format of a tool part and a reasoning part."""
    markers = reasoning.markers if reasoning else None
    messages = tools.messages or (reasoning.messages if reasoning else None)
    family = Family(
        name=tools.name,
        frame=tools.frame,
        markers=(
            *tools.markers,
            *(marker for marker in ((markers.opener, markers.closer) if markers and not markers.words else ()) if marker),
        ),
        replay=reasoning.replay if reasoning else ReplayPolicy(keep="none"),
        switches=reasoning.switches if reasoning else TemplateSwitches(),
        detection=(*tools.detection, *(reasoning.detection if reasoning else ())),
        source="; ".join(part.source for part in (tools, reasoning) if part),
    )
    return ModelFormat(
        family=family,
        grammar=Grammar(
            reasoning=markers,
            calls=messages.calls if messages else tools.calls,
            gap=0 if messages else tools.gap,
            start=tools.start,
            preface=reasoning.preface if reasoning else "",
            breaks=(*tools.breaks, *(messages.breaks if messages else ())),
        ),
        writer=FormatWriter(tools, markers, messages),
        names=(tools.name if tools.calls else None, reasoning.name if reasoning else None),
        call_format=tools.call_format,
        template=tools.template,
    )


def _look_up(kind: str, name: str | None, parts: list[str], aliases: dict[str, str]) -> str | None:
    if name is None or fold(name) == "none":
        return None
    known = {fold(part): part for part in parts} | aliases
    found = known.get(fold(name))
    if found is not None:
        return found
    near = difflib.get_close_matches(fold(name), known, n=3, cutoff=0.6)
    suggestion = f": did you mean {', '.join(dict.fromkeys(known[match] for match in near))}?" if near else "."
    raise ConfigError(f"unknown {kind} parser {name!r}{suggestion} Known are {', '.join(sorted(parts))}, {hf.NAME} and none.")
