"""What a client needs to work with a server: plain data, made by one pure function a client."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

Wire = Literal["chat", "messages", "responses"]


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """A server and a model of it. `window`: tokens of prompt plus answer. `folder`: where the client's configuration goes.
    `entry`: the model's Codex catalog entry. `work`: the folder that the client works on."""

    url: str
    model: str
    window: int
    key: str
    wire: Wire
    folder: Path
    work: Path
    entry: Mapping[str, Any]

    @property
    def answer(self) -> int:
        """Tokens of one answer that a client may ask for: what leaves most of a small context to the prompt."""
        return min(16_384, self.window // 4)

    @property
    def base_url(self) -> str:
        """The base URL of a client that speaks the chosen wire through one of the vendors' SDKs."""
        return self.url if self.wire == "messages" else f"{self.url}/v1"


class ConfigFile(msgspec.Struct, frozen=True):
    """One file. "ours": written at each start. "first": only if it is not there, for the client keeps it from then on. "merge": JSON
    whose keys go into what the client has written meanwhile."""

    path: Path
    text: str
    mode: Literal["ours", "first", "merge"] = "ours"


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """`arguments` stand before the user's; `idle` in their place where the user gives none. `unset` variables would lead the client
    elsewhere. `notes` are for the user."""

    environment: Mapping[str, str]
    unset: tuple[str, ...] = ()
    files: tuple[ConfigFile, ...] = ()
    arguments: tuple[str, ...] = ()
    idle: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class Client(msgspec.Struct, frozen=True, kw_only=True):
    """`program` is what PATH is searched for, `install` how to get it, `least_context` what its first prompt needs (tokens, measured)."""

    name: str
    title: str
    program: str
    install: str
    least_context: int
    wires: tuple[Wire, ...]
    plan: Callable[[Target], Plan]


def json_text(value: Any) -> str:
    """A configuration file's text: readable, and the same for the same value."""
    return json.dumps(value, indent=2) + "\n"


def merged(old: Any, new: Any) -> Any:
    """`new` over `old`: objects key by key, anything else replaced."""
    if not (isinstance(old, dict) and isinstance(new, dict)):
        return new
    return {**old, **{key: merged(old[key], value) if key in old else value for key, value in new.items()}}


def command(program: str, plan: Plan, arguments: Sequence[str]) -> list[str]:
    """The command line of the client."""
    return [program, *plan.arguments, *(arguments or plan.idle)]
