"""Every parser name that other servers register, and what it means here: a family, or nothing yet.

The names are those of three stacks (grammars facts, section 1a) and of the reasoning table (3.1), one line a family of ours. Names under
LATER belong to families of the later list: they are errors that say so, never another family by accident."""

import pytest

from antiphon_parsers import resolve
from antiphon_parsers.registry import REASONING_ALIASES, REASONING_PARTS, TOOL_ALIASES, TOOL_PARTS, fold, spellings
from antiphon_turns.errors import ConfigError

TOOLS = {
    "hermes": "hermes qwen qwen25 qwen3 qwen3_json Qwen2.5",
    "qwen3_coder": "qwen3_coder qwen3_xml nemotron_nano nemotron_v3 nemotron_3 nemotron3 step3p5 nanbeige Qwen3-Coder",
    "glm47": "glm47 glm-4.7 ling3",
    "glm45": "glm45 glm GLM-4.5",
    "deepseek_v3_2": "deepseek_v3_2 deepseek_v32 deepseekv32",
    "deepseek_v4": "deepseek_v4 deepseek-v4 deepseekv4",
    "deepseek_v41": "deepseek_v41 deepseekv41 deepseek_v4.1",
    "deepseek_v3": "deepseek_v3 deepseekv3",
    "deepseek_v3_1": "deepseek_v3_1 deepseek_v31 deepseekv31",
    "kimi_k2": "kimi_k2 kimi_k25",
    "kimi_k3": "kimi_k3 kimi-k3",
    "minimax_m2": "minimax_m2 minimax-m2 minimax",
    "minimax_m3": "minimax_m3 minimax-m3",
    "harmony": "harmony openai gpt-oss gpt_oss openai_gptoss",
    "gemma4": "gemma4 gemma-4",
    "mistral": "mistral",
    "mistral_pre11": "mistral_pre11",
    "mimo": "mimo",
    "seed_oss": "seed_oss",
    "llama3_json": "llama3_json llama3 llama4_json",
    "pythonic": "pythonic",
    "llama4_pythonic": "llama4_pythonic",
    "olmo3": "olmo3",
    "lfm2": "lfm2",
    "nemotron_deci": "nemotron_deci",
    "hy_v3": "hy_v3 hunyuan",
    "granite4": "granite4",
    "phi4": "phi4 phi4_mini_json",
}
REASONING = {
    "qwen3": "qwen3 qwen3-thinking qwen3_coder basic nanbeige",
    "deepseek_r1": "deepseek_r1 deepseek-r1",
    "deepseek_v3_1": "deepseek_v3_1 deepseek_v3 deepseek-v3",
    "deepseek_v3_2": "deepseek_v3_2",
    "deepseek_v4": "deepseek_v4 deepseek-v4 deepseekv4",
    "deepseek_v41": "deepseek_v41 deepseek-v41",
    "nemotron_deci": "nemotron_deci",
    "nemotron_v3": "nemotron_v3 nemotron_nano nemotron3 nemotron_3",
    "glm45": "glm45 glm",
    "glm47": "glm47 ling3",
    "kimi": "kimi",
    "kimi_k2": "kimi_k2 kimi_k25",
    "kimi_k3": "kimi_k3 kimi-k3",
    "minimax_m2": "minimax_m2 minimax",
    "minimax_append_think": "minimax_append_think minimax-append-think minimax_m2_append_think",
    "minimax_m3": "minimax_m3 minimax-m3",
    "gpt_oss": "gpt_oss gpt-oss openai_gptoss openai harmony",
    "granite": "granite",
    "granite_thinking_parser": "granite_thinking_parser",
    "mistral": "mistral",
    "step3p5": "step3p5 step3",
    "seed_oss": "seed_oss",
    "mimo": "mimo",
    "gemma4": "gemma4 gemma-4",
    "olmo3": "olmo3",
    "hy_v3": "hy_v3 hunyuan",
}
LATER_TOOLS = """default inkling jamba minimax_m3_nom muse muse_glimmer dots cohere_command3 cohere_command4 ernie45 granite-20b-fc granite
beam poolside_v1 hunyuan_a13b hy_v4 internlm interns1 k2_horizon longcat minicpm5 plamo3 musespark1x step3 step5 xlam gigachat3 gigachat35
functiongemma apertus apertus2509 spark25 trinity iquest_q1"""
LATER_REASONING = """inkling muse muse_glimmer musespark1x poolside_v1 cohere_command3 cohere_command4 ernie45 beam holo2 hunyuan_a13b hy_v4
k2_horizon minicpmv plamo3 step5 apertus2509 dots interns1 iquest_q1 gigachat35"""
DECLARED = ("hf", "response_template")


def rows(table: dict[str, str]) -> list[tuple[str, str]]:
    return [(name, part) for part, names in table.items() for name in names.split()]


@pytest.mark.parametrize(("name", "part"), rows(TOOLS))
def test_a_tool_name_means_its_family(name: str, part: str) -> None:
    assert resolve(name, None).names == (part, None)
    assert resolve(name.upper().replace("_", "-"), None).names == (part, None)


@pytest.mark.parametrize(("name", "part"), rows(REASONING))
def test_a_reasoning_name_means_its_family(name: str, part: str) -> None:
    assert resolve(None, name).names == (None, part)
    assert resolve(None, name.replace("_", ".").title()).names == (None, part)


@pytest.mark.parametrize("name", LATER_TOOLS.split())
def test_a_tool_name_of_the_later_list_is_an_error(name: str) -> None:
    with pytest.raises(ConfigError, match=f"unknown tool parser '{name}'"):
        resolve(name, None)


@pytest.mark.parametrize("name", LATER_REASONING.split())
def test_a_reasoning_name_of_the_later_list_is_an_error(name: str) -> None:
    with pytest.raises(ConfigError, match=f"unknown reasoning parser '{name}'"):
        resolve(None, name)


@pytest.mark.parametrize("name", DECLARED)
def test_a_declared_format_needs_the_declaration(name: str) -> None:
    for names in ((name, None), (None, name)):
        with pytest.raises(ConfigError, match="response_template"):
            resolve(*names)


def test_the_tables_name_every_part_and_alias() -> None:
    for table, parts, aliases in ((TOOLS, TOOL_PARTS, TOOL_ALIASES), (REASONING, REASONING_PARTS, REASONING_ALIASES)):
        assert set(table) == set(parts)
        tested = {fold(name) for name, _ in rows(table)}
        assert set(aliases) <= tested
        assert not set(aliases) & {fold(part) for part in parts}, "an alias hides a part"


def test_every_spelling_of_a_family_is_listed() -> None:
    assert spellings("tool", "hermes") == ("qwen", "qwen25", "qwen3", "qwen3json")
    assert spellings("reasoning", "gpt_oss") == ("openai", "openaigptoss", "harmony")
    assert spellings("tool", "phi4") == ("phi4minijson",)
