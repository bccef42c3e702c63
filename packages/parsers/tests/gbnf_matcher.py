"""Whether a text matches a GBNF grammar: a small matcher of its own that follows all ways at once, character by character."""

import re
from typing import Any

Item = tuple[Any, ...]
"""("chars", ranges, negated) | ("rule", name) | ("either", (sequence, ...)) | ("times", item, low, high)"""

_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def char(self) -> str:
        """One character of a string or class, escapes read."""
        if self.text[self.at] != "\\":
            self.at += 1
            return self.text[self.at - 1]
        kind = self.text[self.at + 1]
        size = {"x": 2, "u": 4, "U": 8}.get(kind, 0)
        self.at += 2 + size
        return chr(int(self.text[self.at - size : self.at], 16)) if size else _ESCAPES.get(kind, kind)

    def space(self) -> None:
        while self.text[self.at : self.at + 1] == " ":
            self.at += 1

    def either(self) -> Item:
        options = [self.sequence()]
        while self.text[self.at : self.at + 1] == "|":
            self.at += 1
            options.append(self.sequence())
        return ("either", tuple(options))

    def sequence(self) -> tuple[Item, ...]:
        items: list[Item] = []
        self.space()
        while self.text[self.at : self.at + 1] not in ("", "|", ")"):
            items += self.times(self.item())
            self.space()
        return tuple(items)

    def item(self) -> tuple[Item, ...]:
        sign = self.text[self.at]
        if sign == '"':
            self.at += 1
            found: list[Item] = []
            while self.text[self.at] != '"':
                char = self.char()
                found.append(("chars", ((char, char),), False))
            self.at += 1
            return tuple(found)
        if sign == "[":
            return (self.set(),)
        if sign == "(":
            self.at += 1
            inner = self.either()
            assert self.text[self.at] == ")"
            self.at += 1
            return (inner,)
        name = re.compile(r"[a-z][a-z0-9-]*").match(self.text, self.at)
        assert name, self.text[self.at :][:50]
        self.at = name.end()
        return (("rule", name[0]),)

    def set(self) -> Item:
        self.at += 1
        negated = self.text[self.at] == "^"
        self.at += negated
        ranges: list[tuple[str, str]] = []
        while self.text[self.at] != "]":
            low = high = self.char()
            if self.text[self.at] == "-":
                self.at += 1
                high = self.char()
            ranges.append((low, high))
        self.at += 1
        return ("chars", tuple(ranges), negated)

    def times(self, items: tuple[Item, ...]) -> tuple[Item, ...]:
        found = re.compile(r"([*+?])|\{(\d+)(,?)(\d*)\}").match(self.text, self.at)
        if not found:
            return items
        self.at = found.end()
        usual: dict[str, tuple[int, int | None]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}
        low, high = usual.get(found[1]) or (int(found[2]), int(found[4]) if found[4] else None if found[3] else int(found[2]))
        return (*items[:-1], ("times", items[-1] if len(items) == 1 else ("either", (items,)), low, high))


class Gbnf:
    """A grammar that was read."""

    def __init__(self, text: str) -> None:
        lines = [line.partition(" ::= ") for line in text.splitlines() if line]
        assert len({name for name, _, _ in lines}) == len(lines)
        self._rules = {name: _whole(body) for name, _, body in lines}

    def accepts(self, text: str) -> bool:
        """Whether the whole text matches the rule root."""
        ways = self._reach({(("rule", "root"), ())})
        for char in text:
            ways = self._reach({rest for item, rest in ways if item is not None and _fits(item, char)})
        return any(item is None for item, _ in ways)

    def _reach(self, stacks: set[Any]) -> set[tuple[Item | None, Any]]:
        """Every place where a character is due, or (None, ()) for the end."""
        todo, seen, found = list(stacks), set(stacks), set()
        while todo:
            stack = todo.pop()
            if not stack:
                found.add((None, ()))
                continue
            item, rest = stack
            if item[0] == "chars":
                found.add((item, rest))
                continue
            for following in self._unfold(item, rest):
                if following not in seen:
                    seen.add(following)
                    todo.append(following)
        return found

    def _unfold(self, item: Item, rest: Any) -> list[Any]:
        if item[0] == "rule":
            return [(self._rules[item[1]], rest)]
        if item[0] == "either":
            stacks = []
            for sequence in item[1]:
                stack = rest
                for part in reversed(sequence):
                    stack = (part, stack)
                stacks.append(stack)
            return stacks
        _, inner, low, high = item
        once_more = (inner, (("times", inner, max(0, low - 1), None if high is None else high - 1), rest)) if high != 0 else None
        return [stack for stack in (once_more, rest if low == 0 else None) if stack is not None]


def _whole(body: str) -> Item:
    reader = _Reader(body)
    found = reader.either()
    assert reader.at == len(body), body[reader.at :][:50]
    return found


def _fits(item: Item, char: str) -> bool:
    return any(low <= char <= high for low, high in item[1]) != item[2]
