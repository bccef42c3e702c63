"""Requests of a chosen size, for both surfaces. Words are drawn by a seed, so a size and a seed give the same bytes every time."""

import json
import random
import re
from collections.abc import Sequence
from typing import Any, Literal

SurfaceName = Literal["messages", "chat"]
SURFACES: tuple[SurfaceName, ...] = ("messages", "chat")
PATHS: dict[SurfaceName, str] = {"messages": "/v1/messages", "chat": "/v1/chat/completions"}
MODEL = "antiphon-mock"

# Each is one token of the default tokenizer with the space before it.
_WORDS = tuple(
    re.findall(
        r"[a-z]+",
        "file line test code read write open close first last next value name list table key index field error result "
        "call return state change build check start stop path text word space number count time date user group order "
        "version source target point range level part whole small large short long early late new old same other every "
        "most some few many more less ",
    )
)
_TURN_WORDS = 400
_TOOLS = 20
_TOOL_WORDS = 40
_TOOL_TOKENS = 200


def words(count: int, seed: str) -> str:
    """So many words."""
    return " ".join(random.Random(seed).choices(_WORDS, k=count))


def repeat_order(tokens: int) -> str:
    """What makes the mock engine say so many tokens and stop."""
    return f"@@REPEAT:{tokens}@@"


def plain_turns(size: int, seed: str) -> list[str]:
    """One user text of about `size` tokens."""
    return [words(size, seed)]


def agent_turns(size: int, seed: str) -> list[str]:
    """User and assistant texts in turn, the first and the last from the user, about `size` tokens together."""
    count = max(1, size // _TURN_WORDS) | 1
    return [words(size // count, f"{seed}/{number}") for number in range(count)]


def tools() -> list[dict[str, Any]]:
    """Tools as a coding agent has them: twenty, each with a description and a schema. About 200 tokens each when rendered."""
    return [
        {
            "name": f"tool_{number}",
            "description": words(_TOOL_WORDS, f"tool{number}"),
            "input_schema": {
                "type": "object",
                "properties": {f"field_{at}": {"type": "string", "description": words(8, f"{number}/{at}")} for at in range(4)},
                "required": ["field_0"],
            },
        }
        for number in range(_TOOLS)
    ]


def body(
    surface: SurfaceName,
    turns: Sequence[str],
    *,
    output_tokens: int,
    system: str | None = None,
    offered: Sequence[dict[str, Any]] = (),
) -> bytes:
    """A streaming request that the mock engine answers with `output_tokens` words."""
    history: list[dict[str, Any]] = [{"role": ("user", "assistant")[at % 2], "content": text} for at, text in enumerate(turns)]
    history[-1] = {"role": "user", "content": f"{turns[-1]} {repeat_order(output_tokens)}"}
    request: dict[str, Any] = {"model": MODEL, "max_tokens": output_tokens + 64, "stream": True, "messages": history}
    if surface == "messages":
        if system is not None:
            request["system"] = [{"type": "text", "text": system}]
        if offered:
            request["tools"] = list(offered)
    else:
        request["stream_options"] = {"include_usage": True}
        request["reasoning_effort"] = "none"
        if system is not None:
            history.insert(0, {"role": "system", "content": system})
        if offered:
            request["tools"] = [
                {
                    "type": "function",
                    "function": {"name": tool["name"], "description": tool["description"], "parameters": tool["input_schema"]},
                }
                for tool in offered
            ]
    return json.dumps(request, separators=(",", ":")).encode()


def agent_body(surface: SurfaceName, size: int, seed: str, *, output_tokens: int, added: str | None = None) -> bytes:
    """An agent's request of about `size` tokens: a system prompt (a quarter), twenty tools, a long history. With `added`
    the session has gone on by one exchange, of which `added` is the user's part."""
    system = words(size // 4, f"{seed}/system")
    turns = agent_turns(max(_TURN_WORDS, size - size // 4 - _TOOLS * _TOOL_TOKENS), seed)
    if added is not None:
        turns += [words(60, f"{seed}/answer"), added]
    return body(surface, turns, output_tokens=output_tokens, system=system, offered=tools())
