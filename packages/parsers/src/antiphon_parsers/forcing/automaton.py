"""Runs of tags that a text may not hold, as rules of characters: for dialects that know neither complement nor first match."""

import re
from collections.abc import Callable, Sequence

from antiphon_parsers.forcing.charset import Ranges, chars, charset, gbnf_class, minus, union
from antiphon_parsers.forcing.nodes import Spellings

_SPACE = charset(
    [
        *((9, 13), (28, 32), (0x85, 0x85), (0xA0, 0xA0), (0x1680, 0x1680), (0x2000, 0x200A)),
        *((0x2028, 0x2029), (0x202F, 0x202F), (0x205F, 0x205F), (0x3000, 0x3000)),
    ]
)

Place = tuple[int, int, int, int]
"""(run, item, spelling, characters of it read): where in a forbidden run a text stands; spelling -1: before the item."""


class Automaton:
    """Reads a text character by character; a state is the set of places in forbidden runs."""

    def __init__(self, forbidden: Sequence[Sequence[Spellings]]) -> None:
        self._runs = forbidden
        self.start = self._closure({(run, 0, -1, 0) for run in range(len(forbidden))})

    def _closure(self, places: set[Place]) -> frozenset[Place]:
        found = set(places)
        for run, item, spelling, _ in places:
            if spelling < 0:
                found |= {(run, item, number, 0) for number in range(len(self._runs[run][item]))}
        return frozenset(found)

    def after(self, state: frozenset[Place], char: str, *, space: bool) -> frozenset[Place] | None:
        """The state behind one more character; None where a forbidden run is whole."""
        places: set[Place] = {(run, 0, -1, 0) for run in range(len(self._runs))}
        for run, item, spelling, read in state:
            if spelling < 0:
                if space and item > 0:
                    places.add((run, item, -1, 0))
                continue
            text = self._runs[run][item][spelling]
            if text[read : read + 1] != char:
                continue
            if read + 1 < len(text):
                places.add((run, item, spelling, read + 1))
            elif item + 1 == len(self._runs[run]):
                return None
            else:
                places.add((run, item + 1, -1, 0))
        return self._closure(places)

    def letters(self, state: frozenset[Place]) -> set[str]:
        """The characters that matter in a state."""
        return {self._runs[run][item][spelling][read] for run, item, spelling, read in state if spelling >= 0}

    def waits(self, state: frozenset[Place]) -> bool:
        """Whether white space matters in a state."""
        return any(spelling < 0 and item > 0 for _, item, spelling, _ in state)


def text_rules(forbidden: Sequence[Sequence[Spellings]], allowed: Ranges, extra: str, name: Callable[[int], str]) -> list[str]:
    """Rules of the texts of `allowed` characters without any of the runs; the first rule is the root. `extra`
    is the body of further characters, after which no tag can have begun. `name` names the rules, from 0."""
    automaton = Automaton(forbidden)
    numbers = {automaton.start: 0}
    queue = [automaton.start]
    rules: list[str] = []
    for state in queue:
        targets: dict[frozenset[Place] | None, Ranges] = {}
        letters = {char for char in automaton.letters(state) if chars(char) != () and _holds(allowed, char)}
        special = union(*(chars(char) for char in letters))
        for char in sorted(letters):
            following = automaton.after(state, char, space=re.fullmatch(r"\s", char) is not None)
            targets[following] = union(targets.get(following, ()), chars(char))
        groups = [(minus(allowed, special), False)]
        if automaton.waits(state):
            groups = [(minus(minus(allowed, special), _SPACE), False), (minus(minus(allowed, special), minus(allowed, _SPACE)), True)]
        for ranges, space in groups:
            following = automaton.after(state, "", space=space)
            targets[following] = union(targets.get(following, ()), minus(ranges, special))
        ways = ['""']
        for target, ranges in targets.items():
            if target is None or not ranges:
                continue
            if target not in numbers:
                numbers[target] = len(numbers)
                queue.append(target)
            ways.append(f"{gbnf_class(ranges)} {name(numbers[target])}")
        rules.append(" | ".join(ways + ([f"{extra} {name(0)}"] if extra else [])))
    return rules


def _holds(ranges: Ranges, char: str) -> bool:
    return any(low <= ord(char) <= high for low, high in ranges)
