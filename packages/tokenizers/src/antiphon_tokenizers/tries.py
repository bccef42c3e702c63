"""Regular expressions for many literals at once."""

import re
from collections.abc import Iterable
from typing import Any


def alternation(literals: Iterable[str]) -> str:
    """A pattern that matches the longest of `literals` at a position. Shared prefixes are factored out, so that
    thousands of literals with one first character cost no more than one. Needs at least one literal."""
    root: dict[str, Any] = {}
    for literal in literals:
        node = root
        for char in literal:
            node = node.setdefault(char, {})
        node[""] = {}
    return _pattern(root)


def _pattern(node: dict[str, Any]) -> str:
    branches: list[str] = []
    ends = "" in node
    for char, child in sorted(node.items()):
        if not char:
            continue
        # A chain without a fork or an end is one literal: keeps the nesting, and so the recursion, shallow.
        run = char
        while len(child) == 1 and "" not in child:
            ((step, child),) = child.items()
            run += step
        branches.append(re.escape(run) + ("" if set(child) == {""} else _pattern(child)))
    body = branches[0] if len(branches) == 1 else f"(?:{'|'.join(branches)})"
    return f"(?:{body})?" if ends else body
