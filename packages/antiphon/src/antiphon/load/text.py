"""Text of a wanted length in tokens. Words are drawn by a seed, so that a name and a length give the same text every time."""

import re
from random import Random
from typing import Any

# Each is one token of the usual byte-level vocabularies, with the space before it.
_WORDS = tuple(
    re.findall(
        r"[a-z]+",
        "file line test code read write open close first last next value name list table key index field error result "
        "call return state change build check start stop path text word space number count time date user group order "
        "version source target point range level part whole small large short long early late new old same other every "
        "most some few many more less ",
    )
)
TOOL_TOKENS = 120
_MOST_TOOLS = 20
_TOOL_SHARE = 0.4


def words(count: int, seed: str) -> str:
    """So many words, about as many tokens."""
    return " ".join(Random(seed).choices(_WORDS, k=max(count, 1)))


def head(name: str, tokens: int) -> tuple[str, list[dict[str, Any]]]:
    """A system prompt and tools, together about so many tokens. A tool is `name`, `description` and `schema`."""
    tools = [_tool(name, number) for number in range(min(int(tokens * _TOOL_SHARE) // TOOL_TOKENS, _MOST_TOOLS))]
    return words(tokens - len(tools) * TOOL_TOKENS, f"{name}/system"), tools


def _tool(name: str, number: int) -> dict[str, Any]:
    return {
        "name": f"tool_{number}",
        "description": words(40, f"{name}/tool/{number}"),
        "schema": {
            "type": "object",
            "properties": {f"field_{at}": {"type": "string", "description": words(6, f"{name}/{number}/{at}")} for at in range(3)},
            "required": ["field_0"],
        },
    }
