"""Names under which clients ask for a model: its own, the vendors' names, and what the operator adds.

Agents ask for the names they were built with: a background request for `claude-haiku-4-5`, a sub-agent for `gpt-5.5`. A pattern maps such
names to the served model; the answer names what was asked for.
"""

import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

import msgspec

from antiphon_turns.errors import ConfigError

VENDOR_PATTERNS = ("claude-*", "gpt-*", "o[1-9]", "o[1-9]-*", "codex-*", "anthropic/claude-*", "openai/gpt-*", "haiku", "sonnet", "opus")
"""Names that only the agents' own vendors serve, and Claude Code's short ones."""
_PATTERN_SIGNS = re.compile(r"[*?\[]")


class Aliases(msgspec.Struct, frozen=True):
    """Patterns with `*`, `?` and `[...]`, in lower case; a name matches in any case. `listed`: what of the operator's own a catalog
    can show, for they are plain names."""

    patterns: tuple[str, ...] = ()
    listed: tuple[str, ...] = ()

    def match(self, name: str) -> bool:
        """Whether some pattern covers the name."""
        folded = name.lower()
        return any(fnmatchcase(folded, pattern) for pattern in self.patterns)


def read_aliases(entries: Iterable[str], *, served: str, vendors: bool) -> Aliases:
    """The table from `PATTERN` or `PATTERN=MODEL` entries, the operator's first. `vendors` adds the vendors' names.

    Raises ConfigError for an entry that is empty or leads to a model that is not served.
    """
    patterns = []
    for entry in entries:
        pattern, sign, target = (part.strip() for part in entry.partition("="))
        if not pattern or (sign and not target):
            raise ConfigError(f"the alias {entry!r} is not PATTERN or PATTERN=MODEL")
        if target and target != served:
            raise ConfigError(f"the alias {entry!r} leads to {target!r}, and this server has only {served!r}")
        patterns.append(pattern)
    known = (*(pattern.lower() for pattern in patterns), *(VENDOR_PATTERNS if vendors else ()))
    plain = (pattern for pattern in patterns if pattern != served and not _PATTERN_SIGNS.search(pattern))
    return Aliases(tuple(dict.fromkeys(known)), tuple(dict.fromkeys(plain)))


def alias_entries(value: object) -> list[str]:
    """The `aliases` of a configuration file: a list of entries, or a table of patterns and models. Raises ConfigError."""
    if isinstance(value, Mapping):
        value = [f"{pattern}={target}" for pattern, target in value.items()]
    if not (isinstance(value, list) and all(isinstance(entry, str) for entry in value)):
        raise ConfigError('aliases: must be a list like ["claude-*"] or a table like {"claude-*" = "MODEL"}')
    return value
