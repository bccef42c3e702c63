"""Metadata profiles: what a catalog entry says of a model beside its name and its context.

A client adapts to these values: which tools it offers, where it cuts tool output, which reasoning effort it asks for. A profile is
named after the native model whose values it has, so that a client treats the served model as it treats that one. Values: measured
with Codex 0.171 (its own catalog as `codex debug models` prints it) and Claude Code 2.1.332 (what it asks of which name).
"""

import difflib
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from antiphon_turns.errors import ConfigError

INSTRUCTIONS = """You are a coding agent that works in a terminal on the user's machine.
Look at the files that matter before you change them, make the smallest change that does what was asked, and check it by running it.
Use the tools you are given for every look and every change; never invent their output.
Never destroy what the user did not ask you to touch.
When you are done, say in a few sentences what you changed and how you checked it. If you cannot go on, say what is missing."""

PATCHES = """
The tool apply_patch takes one text. Its first line is `*** Begin Patch`, its last `*** End Patch`. Between them stands one section for
each file: `*** Add File: PATH` and the new lines, each behind a `+`; `*** Delete File: PATH`; or `*** Update File: PATH` and one or more
hunks. A hunk begins with a line `@@`; behind it unchanged lines begin with a space, lines to take out with `-`, lines to put in with
`+`. Give three unchanged lines on either side of a change, and relative paths."""


class Profile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`efforts`: reasoning efforts on offer, `default_effort` one of them. `thinking`: how a Messages client may ask for reasoning.
    `truncation_*`: what Codex keeps of one tool's output. `window_percent`: share of the context that a client may plan with.
    `context_window`: tokens, where clients shall believe in less than there is. `verbosity` None: not offered."""

    efforts: tuple[str, ...] = ()
    default_effort: str | None = None
    reasoning_summary: Literal["auto", "concise", "detailed", "none"] | None = None
    thinking: tuple[Literal["adaptive", "enabled"], ...] = ("adaptive", "enabled")
    verbosity: Literal["low", "medium", "high"] | None = None
    apply_patch: Literal["freeform"] | None = None
    shell: Literal["default", "local", "shell_command", "unified_exec", "disabled"] = "unified_exec"
    parallel_calls: bool = True
    truncation_mode: Literal["bytes", "tokens"] = "bytes"
    truncation_limit: int = 10_000
    window_percent: int | None = None
    compacts: bool = False
    context_window: int | None = None
    instructions: str = INSTRUCTIONS


DEFAULT = "gpt-5.5"
PROFILES: dict[str, Profile] = {
    # No more than Codex requires of an entry; the other arm of the comparison in docs/clients/codex.md.
    "minimal": Profile(parallel_calls=False),
    # The native value of `reasoning_summary` is none: that model hides its reasoning, an open model has no reason to.
    "gpt-5.5": Profile(
        efforts=("low", "medium", "high", "xhigh"),
        default_effort="medium",
        reasoning_summary="auto",
        verbosity="low",
        apply_patch="freeform",
        instructions=INSTRUCTIONS + PATCHES,
        truncation_mode="tokens",
        window_percent=95,
        compacts=True,
    ),
}
PROFILES["claude-opus-4-8"] = msgspec.structs.replace(
    PROFILES["gpt-5.5"], efforts=("low", "medium", "high", "xhigh", "max"), default_effort="high", thinking=("adaptive",)
)
PROFILES["claude-sonnet-4-5"] = msgspec.structs.replace(PROFILES["gpt-5.5"], efforts=(), default_effort=None, thinking=("enabled",))


def read_profiles(tables: Mapping[str, Any]) -> dict[str, Profile]:
    """The built-in profiles and those of a configuration: NAME -> {"like": NAME of another, and the fields that differ}.

    A table under a built-in name changes that one. Raises ConfigError.
    """
    found = dict(PROFILES)
    for name, table in tables.items():
        if not isinstance(table, dict):
            raise ConfigError(f"profiles.{name}: must be a table of values, not {table!r}")
        base = find_profile(found, table.get("like", name if name in found else DEFAULT))
        changes = {key.replace("-", "_"): value for key, value in table.items() if key != "like"}
        try:
            found[name] = msgspec.convert({**msgspec.to_builtins(base), **changes}, Profile)
        except msgspec.ValidationError as error:
            raise ConfigError(f"profiles.{name}: {error}; a profile has {', '.join(Profile.__struct_fields__)}") from None
        check(name, found[name])
    return found


def find_profile(profiles: Mapping[str, Profile], name: str) -> Profile:
    """The profile of that name. Raises ConfigError, with the near ones."""
    if name in profiles:
        return profiles[name]
    near = difflib.get_close_matches(name, profiles, n=3) or sorted(profiles)
    raise ConfigError(
        f"no metadata profile is called {name!r}; there are {', '.join(near)}, and [profiles.NAME] in antiphon.toml makes more"
    )


def check(name: str, profile: Profile) -> None:
    """What the types cannot say. Raises ConfigError."""
    if profile.default_effort is not None and profile.default_effort not in profile.efforts:
        raise ConfigError(f"profiles.{name}: default_effort {profile.default_effort!r} is not one of its efforts")
    if profile.truncation_limit <= 0:
        raise ConfigError(f"profiles.{name}: truncation_limit must be greater than 0")
    if profile.window_percent is not None and not 1 <= profile.window_percent <= 100:
        raise ConfigError(f"profiles.{name}: window_percent must be between 1 and 100")
    if profile.context_window is not None and profile.context_window <= 0:
        raise ConfigError(f"profiles.{name}: context_window must be greater than 0")
