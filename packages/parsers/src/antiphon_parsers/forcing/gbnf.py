"""Grammars as GBNF (llama.cpp's grammars/README.md), which EBNF dialects of other engines share.

Strings of more than `MAX_COUNT` characters and raw strings that must not hold tags are bounded by the engine's token limit only,
since the dialect has neither intersections nor cheap large repetitions.
"""

import re
from typing import NamedTuple

from antiphon_parsers.forcing.automaton import text_rules
from antiphon_parsers.forcing.charset import ALL_CHARS, Ranges, chars, charset, gbnf_class, gbnf_string, minus, union
from antiphon_parsers.forcing.escapes import quoted
from antiphon_parsers.forcing.nodes import CallGrammar, Either, Exact, Key, Node, Pattern, Ref, Run, Several, Spellings, Words, Written
from antiphon_parsers.forcing.pattern_reader import read
from antiphon_parsers.forcing.patterns import gbnf_text

MAX_COUNT = 1000
_ESCAPES = {"json": r'"\\" ["\\bfnrt]', "python": r'"\\" [' + "'" + r"\\bfnrt]", "raw": ""}
_QUOTES = {"json": r'"\""', "python": '"\'"', "raw": ""}
_MARKS = {"json": '"', "python": "'"}
_CONTROL = charset([(0, 31)])
_WORD = "[A-Za-z0-9_.]"


def lower_gbnf(grammar: CallGrammar, *, root: str = "root") -> str:
    """The grammar as text with the root rule `root`. Control tokens are matched by their text, and what ends the turn is the
    engine's affair."""
    gbnf = _Gbnf()
    lines = [f"{root} ::= {gbnf.body(grammar.root)}"]
    lines += [f"r{number} ::= {gbnf.body(body)}" for number, body in enumerate(grammar.bodies)]
    return "\n".join([*lines, *gbnf.lines, ""])


class _Gbnf:
    def __init__(self) -> None:
        self._names: dict[Node | Automated, str] = {}
        self.lines: list[str] = []

    def body(self, node: Node) -> str:
        """A rule body."""
        match node:
            case Exact():
                return gbnf_string(node.text)
            case Ref():
                return f"r{node.number}"
            case Run():
                return " ".join(f"( {self.body(part)} )" if isinstance(part, Either) else self.body(part) for part in node.parts)
            case Either():
                return " | ".join(map(self.body, node.options))
            case Several():
                return f"( {self.body(node.body)} ){{{node.low},{node.high}}}"
            case _:
                return self._leaf(node)

    def _leaf(self, node: Words | Pattern | Key | Written) -> str:
        name = self._names.get(node)
        if name is None:
            name = self._names[node] = f"t{len(self._names)}"
            self.lines += self._rules(name, node)
        return name

    def _rules(self, name: str, node: Words | Pattern | Key | Written) -> list[str]:
        match node:
            case Words():
                return [f"{name} ::= {' | '.join(map(gbnf_string, node.texts))}"]
            case Pattern():
                return [f"{name} ::= {gbnf_text(read(node.regex))}"]
            case Key():
                return _key_rules(name, node.taken)
            case Written():
                return [f"{name} ::= {self._string(node)}"]

    def _string(self, node: Written) -> str:
        quote, escapes = _QUOTES[node.form], _ESCAPES[node.form]
        end = gbnf_string(node.end) if node.form == "raw" else quote
        if node.tree is not None:
            inner = node.tree if node.form == "raw" else quoted(node.tree, '"' if node.form == "json" else "'")
            return f"{quote} ({gbnf_text(inner)}) {end}".strip()
        if node.high == 0:
            return f"{quote} {end}".strip()
        if node.form == "raw" or node.forbidden:
            return f"{quote} {self._automated(node.form, node.forbidden)} {end}".strip()
        size = max(node.low, 1, min(node.room * 8 // 11, node.high if node.high is not None else 1 << 30))
        bounds = f"{{{node.low},{size}}}" if size <= MAX_COUNT else f"{{{node.low},}}"
        return f"{quote} ({gbnf_class(_allowed(node.form))} | {escapes}){bounds} {end}"

    def _automated(self, form: str, forbidden: tuple[tuple[Spellings, ...], ...]) -> str:
        """The rule of texts that do not hold the tags, in full for each set of tags once."""
        key = Automated(form, forbidden)
        name = self._names.get(key)
        if name is None:
            name = self._names[key] = f"t{len(self._names)}"
            states = text_rules(forbidden, _allowed(form), _ESCAPES[form], lambda number: f"{name}-{number}")
            self.lines += [f"{name}-{number} ::= {body}" for number, body in enumerate(states)]
        return f"{name}-0"


class Automated(NamedTuple):
    """Texts that are written out character by character."""

    form: str
    forbidden: tuple[tuple[Spellings, ...], ...]


def _allowed(form: str) -> Ranges:
    return ALL_CHARS if form == "raw" else minus(ALL_CHARS, union(_CONTROL, chars("\\" + _MARKS[form])))


def _key_rules(name: str, taken: tuple[str, ...]) -> list[str]:
    """Words in quotes but for some: one rule for each beginning of one of those."""
    words = [word for word in taken if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.]*", word)]
    heads = sorted({word[:size] for word in words for size in range(len(word) + 1)} | {""})
    numbers = {head: number for number, head in enumerate(heads)}
    free = f"{name}-free"
    rules = [f'{name} ::= "\\"" {name}-0', f'{free} ::= {_WORD}* "\\""']
    for head, number in numbers.items():
        letters = sorted({longer[len(head)] for longer in heads if len(longer) == len(head) + 1 and longer.startswith(head)})
        usual = chars("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_" + ("0123456789." if head else ""))
        ways = [f"{gbnf_string(letter)} {name}-{numbers[head + letter]}" for letter in letters]
        others = minus(usual, chars("".join(letters)))
        ways += [f"[{''.join(chr(code) for low, high in others for code in range(low, high + 1))}] {free}"] if others else []
        ways += ['"\\""'] if head and head not in words else []
        rules.append(f"{name}-{number} ::= {' | '.join(ways)}")
    return rules
