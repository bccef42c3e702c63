"""A workload: which sessions come, how they grow, what they wait for. Plain data, from a TOML file or a preset."""

import tomllib
from pathlib import Path
from typing import Literal

import msgspec

from antiphon.load.lengths import Distribution
from antiphon_turns.errors import ConfigError


class Poisson(msgspec.Struct, frozen=True, kw_only=True, tag="poisson", tag_field="kind", forbid_unknown_fields=True):
    """New sessions come at random, so many a second on average, whether or not the server keeps up (an open loop)."""

    sessions_per_second: float


class Closed(msgspec.Struct, frozen=True, kw_only=True, tag="closed", tag_field="kind", forbid_unknown_fields=True):
    """So many sessions at any time: the next one begins when one has ended."""

    sessions: int


Arrivals = Poisson | Closed


class Children(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Sub-agents. Behind a turn of the parent, with `probability`, `count` children begin together; the parent goes on when all have ended.
    `share`: "history", a child's prompt begins with all that its parent has said and heard; "head", with the parent's system prompt
    and tools."""

    probability: float
    count: Distribution
    share: Literal["history", "head"] = "history"
    turns: Distribution = 3
    first_tokens: Distribution = 200
    new_tokens: Distribution = 400
    output_tokens: Distribution = 150
    pause_seconds: Distribution = 1.0


class SessionClass(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Sessions of one kind. `share` weighs it against the others. `priority` and `strict_priority` are sent as hints. There are `heads`
    different system prompts with tools, of `head_tokens` together; sessions with the same one share it as a prefix. A session has
    `turns` requests: the first brings `first_tokens`, each later one `new_tokens` behind the real answer, `pause_seconds` after its end
    (a tool runs, or a person thinks)."""

    share: float = 1.0
    priority: int = 0
    strict_priority: int = 0
    heads: int = 1
    head_tokens: Distribution = 1000
    turns: Distribution = 5
    first_tokens: Distribution = 200
    new_tokens: Distribution = 400
    output_tokens: Distribution = 150
    pause_seconds: Distribution = 1.0
    children: Children | None = None


class Workload(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`classes` by name. A session ends early when its next prompt and answer would pass `context_tokens`."""

    arrivals: Arrivals
    classes: dict[str, SessionClass]
    context_tokens: int = 200_000


def read_workload(path: Path) -> Workload:
    """A workload from a TOML file. Raises ConfigError that says what is wrong with it."""
    try:
        found = msgspec.convert(tomllib.loads(path.read_text("utf-8")), Workload, strict=False)
    except OSError as error:
        raise ConfigError(f"cannot read the workload {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, msgspec.ValidationError) as error:
        raise ConfigError(f"{path} is no workload: {error}; docs/bench.md describes the format") from error
    return checked(found, str(path))


def checked(workload: Workload, name: str) -> Workload:
    """The same workload. Raises ConfigError for one that asks for nothing, or without end."""
    arrivals = workload.arrivals
    if (arrivals.sessions_per_second if isinstance(arrivals, Poisson) else arrivals.sessions) <= 0:
        raise ConfigError(f"{name}: no session ever arrives; arrivals need a rate, or a number of sessions, above 0")
    if not any(one.share > 0 for one in workload.classes.values()):
        raise ConfigError(f"{name}: no class has a share above 0, so no session can be drawn")
    for label, one in workload.classes.items():
        if one.heads < 1 or one.share < 0 or (one.children and not 0 <= one.children.probability <= 1):
            raise ConfigError(f"{name}: class {label}: heads from 1, share from 0, probability of children from 0 to 1")
    return workload
