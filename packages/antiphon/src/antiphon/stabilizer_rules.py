"""The operator's own stabilizer rules: a TOML file, checked and compiled before anything is served. Format: docs/stabilizer.md."""

import re
import tomllib
from pathlib import Path
from typing import Literal

import msgspec

from antiphon.line_pattern import LinePattern
from antiphon.stabilize import ANTHROPIC_PREAMBLE, BUILT_IN, LineRule, StabilizerRule
from antiphon_turns.errors import ConfigError

# Names stand in a response header.
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
MAX_RULES = 64


class RuleEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One [[rule]] of the file. System and developer texts are one place: clients use either role for the same prompt."""

    name: str
    where: Literal["system", "developer", "tool_description"]
    line: str
    action: Literal["drop", "replace"]
    replacement: str | None = None


def rules_of(*, strip_anthropic_preamble: bool, file: Path | None) -> tuple[StabilizerRule, ...]:
    """The rules of a server, the built-in ones first. Raises ConfigError as `read_rules` does."""
    built_in = (ANTHROPIC_PREAMBLE,) if strip_anthropic_preamble else ()
    return (*built_in, *(read_rules(file) if file is not None else ()))


def read_rules(path: Path) -> tuple[LineRule, ...]:
    """The rules of a file, in its order. Raises ConfigError that names the rule at fault and says what to do."""
    try:
        content = tomllib.loads(path.read_text("utf-8"))
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read the stabilizer rules {path}: {error}") from error
    entries = content.pop("rule", None)
    if content or not isinstance(entries, list):
        extra = f", not {', '.join(sorted(content))}" if content else ""
        raise ConfigError(f"{path}: rules stand in tables that are called [[rule]]{extra}")
    if len(entries) > MAX_RULES:
        raise ConfigError(f"{path}: {len(entries)} rules are more than {MAX_RULES}; each reads every prompt, so join patterns with |")
    taken = {rule.name for rule in BUILT_IN}
    rules = []
    for number, entry in enumerate(entries, 1):
        try:
            rule = _rule(msgspec.convert(entry, RuleEntry))
            if rule.name in taken:
                raise ConfigError(f"there is a rule called {rule.name!r} already")
        except (msgspec.ValidationError, ConfigError) as error:
            name = entry.get("name") if isinstance(entry, dict) else None
            raise ConfigError(f"{path}, rule {number}{f' ({name})' if isinstance(name, str) else ''}: {error}") from None
        taken.add(rule.name)
        rules.append(rule)
    return tuple(rules)


def _rule(entry: RuleEntry) -> LineRule:
    if not _NAME.fullmatch(entry.name):
        raise ConfigError("the name must be lower-case letters, digits and hyphens, at most 64: it is shown in a response header")
    if (entry.replacement is not None) != (entry.action == "replace"):
        raise ConfigError("action 'replace' needs a replacement, and action 'drop' has none")
    if entry.replacement is not None and re.search(r"[\r\n]", entry.replacement):
        raise ConfigError("the replacement must be one line")
    where: Literal["system", "tool_description"] = "tool_description" if entry.where == "tool_description" else "system"
    return LineRule(name=entry.name, where=where, pattern=LinePattern(entry.line), replacement=entry.replacement)
