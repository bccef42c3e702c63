"""Grammars that clients give for the text of freeform tools, as regular languages.

Lark grammars (the notation of the Lark parsing toolkit; `->`, priorities and the marks for tree shaping mean nothing here) are
expanded; recursion is made repetition where a rule calls itself at one end only, and is unrolled `DEPTH` times elsewhere, so
that the language is the client's or inside it. What is not understood raises Unreadable: %ignore, templates, look-around.
"""

import json
import re
from functools import lru_cache
from typing import Literal, NamedTuple

from antiphon_parsers.forcing.charset import charset
from antiphon_parsers.forcing.pattern_reader import Unreadable, read
from antiphon_parsers.forcing.patterns import EMPTY, Chars, Fork, Loop, Tree, exactly, fork, in_any_case, row, shortest
from antiphon_turns.request import FreeformGrammar

DEPTH = 3
MAX_STEPS = 20_000
_NEVER = Fork()
_COMMON = {
    "LF": r"\n",
    "CR": r"\r",
    "NEWLINE": r"(\r?\n)+",
    "WS": r"[ \t\f\r\n]+",
    "WS_INLINE": r"[ \t]+",
    "DIGIT": "[0-9]",
    "HEXDIGIT": "[0-9A-Fa-f]",
    "INT": "[0-9]+",
    "SIGNED_INT": "[+-]?[0-9]+",
    "DECIMAL": r"[0-9]+\.[0-9]*|\.[0-9]+",
    "FLOAT": r"[0-9]+[eE][+-]?[0-9]+|([0-9]+\.[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?",
    "NUMBER": r"[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?|\.[0-9]+([eE][+-]?[0-9]+)?",
    "SIGNED_NUMBER": r"[+-]?([0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?|\.[0-9]+([eE][+-]?[0-9]+)?)",
    "LETTER": "[A-Za-z]",
    "UCASE_LETTER": "[A-Z]",
    "LCASE_LETTER": "[a-z]",
    "WORD": "[A-Za-z]+",
    "CNAME": "[A-Za-z_][A-Za-z0-9_]*",
    "ESCAPED_STRING": r'"([^"\\\n]|\\[^\n])*"',
}
_TOKEN = re.compile(
    r'(?P<space>[ \t\r]+|//[^\n]*|#[^\n]*)|(?P<line>\n)|(?P<string>"(?:\\.|[^"\\\n])*"i?)|(?P<regex>/(?!/)(?:\\.|[^/\\\n])+/[a-z]*)'
    r"|(?P<name>%?[A-Za-z_]\w*)|(?P<number>\d+)|(?P<mark>->|\.\.|[?!*+()\[\]|~:.,{}-])"
)


class Token(NamedTuple):
    kind: str
    text: str


class Named(NamedTuple):
    """A place where a rule stands."""

    name: str


class Combined(NamedTuple):
    """Parts one after the other ("row"), one of them ("fork"), or the one of them `low` to `high` times ("loop")."""

    kind: Literal["row", "fork", "loop"]
    parts: list["Part"]
    low: int = 0
    high: int | None = None


Part = Tree | Named | Combined


@lru_cache(maxsize=64)
def freeform_tree(grammar: FreeformGrammar) -> Tree:
    """The texts that a client's grammar allows. Raises Unreadable, whose message says what stands in the way."""
    tree = read(grammar.definition) if grammar.syntax == "regex" else _Expansion(_rules(grammar.definition)).expand("start")
    if shortest(tree) is None:
        raise Unreadable("it allows no text")
    return tree


def _tokens(text: str) -> list[Token]:
    found: list[Token] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise Unreadable(f"the character {text[at]!r}")
        if match.lastgroup != "space":
            found.append(Token(match.lastgroup or "", match[0]))
        at = match.end()
    return found


def _rules(text: str) -> dict[str, Part]:
    """The rules and terminals by name."""
    rules: dict[str, Part] = {}
    statement: list[Token] = []
    tokens = _tokens(text)
    for place, token in enumerate(tokens):
        if token.kind != "line":
            statement.append(token)
        elif statement and not _goes_on(tokens, place, statement):
            _read_statement(statement, rules)
            statement = []
    if statement:
        _read_statement(statement, rules)
    return rules


def _goes_on(tokens: list[Token], line: int, statement: list[Token]) -> bool:
    """Whether a statement continues behind a line's end: inside brackets, or where no other one begins."""
    following = [token for token in tokens[line : line + 8] if token.kind != "line"]
    depth = sum((token.text in ("(", "[")) - (token.text in (")", "]")) for token in statement if token.kind == "mark")
    if depth > 0:
        return True
    if not following or following[0].text.startswith("%"):
        return False
    marks = [token for token in following if token.text not in ("?", "!")]
    begins = len(marks) > 1 and marks[0].kind == "name" and marks[1].text in (":", ".", "{") and following[0].text != "|"
    return not begins


def _read_statement(tokens: list[Token], rules: dict[str, Part]) -> None:
    if tokens[0].text == "%import":
        _read_import(tokens, rules)
        return
    if tokens[0].text.startswith("%"):
        raise Unreadable(tokens[0].text)
    colon = next((place for place, token in enumerate(tokens) if token.text == ":"), None)
    names = [token.text for token in tokens[:colon] if token.kind == "name"]
    if colon is None or len(names) != 1 or any(token.text == "{" for token in tokens[:colon]):
        raise Unreadable("a statement that is no plain rule")
    reader = _Expressions(tokens[colon + 1 :])
    rules[names[0]] = reader.alternatives()
    if reader.left():
        raise Unreadable(f"what follows in {names[0]}")


def _read_import(tokens: list[Token], rules: dict[str, Part]) -> None:
    names = [token.text for token in tokens[1:] if token.kind == "name"]
    if not names or names[0] != "common":
        raise Unreadable("an import from elsewhere")
    renamed = names[2] if len(names) == 3 and tokens[-2].text == "->" else None
    for name in names[1:2] if renamed else names[1:]:
        if name not in _COMMON:
            raise Unreadable(f"common.{name}")
        rules[renamed or name] = read(_COMMON[name])


class _Expressions:
    """Reads the right side of a rule."""

    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = [token for token in tokens if token.kind != "line"]
        self._at = 0

    def left(self) -> bool:
        return self._at < len(self._tokens)

    def _next(self, ahead: int = 0) -> str:
        place = self._at + ahead
        return self._tokens[place].text if place < len(self._tokens) else ""

    def _skip(self, *marks: str) -> bool:
        if self._next() in marks:
            self._at += 1
            return True
        return False

    def alternatives(self) -> Part:
        self._skip("|")
        options = [self._expansion()]
        while self._skip("|"):
            options.append(self._expansion())
        return options[0] if len(options) == 1 else Combined("fork", options)

    def _expansion(self) -> Part:
        parts: list[Part] = []
        while self.left() and self._next() not in ("|", ")", "]"):
            if self._skip("->"):
                self._at += 1
                continue
            parts.append(self._repeated(self._atom()))
        return parts[0] if len(parts) == 1 else Combined("row", parts)

    def _atom(self) -> Part:
        self._skip("!")
        token = self._tokens[self._at] if self.left() else Token("mark", "the end")
        self._at += 1
        if token.text in ("(", "["):
            inner = self.alternatives()
            if not self._skip(")" if token.text == "(" else "]"):
                raise Unreadable("an unmatched bracket")
            return inner if token.text == "(" else Combined("loop", [inner], 0, 1)
        if token.kind == "string":
            return self._string(token.text)
        if token.kind == "regex":
            body, _, flags = token.text[1:].rpartition("/")
            return read(body.replace("\\/", "/"), flags=flags)
        if token.kind == "name":
            return Named(token.text)
        raise Unreadable(f"{token.text!r} where an item should be")

    def _string(self, text: str) -> Part:
        any_case = text.endswith("i")
        value = _unescaped(text.removesuffix("i"))
        if self._next() == ".." and len(value) == 1:
            self._at += 1
            last = _unescaped(self._next())
            self._at += 1
            if len(last) != 1 or last < value:
                raise Unreadable("a broken range")
            return Chars(charset([(ord(value), ord(last))]))
        return in_any_case(value) if any_case else exactly(value)

    def _repeated(self, part: Part) -> Part:
        while True:
            if self._next() in ("?", "*", "+"):
                low, high = {"?": (0, 1), "*": (0, None), "+": (1, None)}[self._next()]
                self._at += 1
            elif self._skip("~", "{"):
                low, high = self._counts()
            else:
                return part
            part = Combined("loop", [part], low, high)

    def _counts(self) -> tuple[int, int | None]:
        numbers = ["", ""]
        place = 0
        while self._next().isdecimal() or self._next() in ("..", ","):
            if self._next().isdecimal():
                numbers[place] = self._next()
            else:
                place = 1
            self._at += 1
        self._skip("}")
        if not numbers[0]:
            raise Unreadable("a template, or a repetition without a number")
        return int(numbers[0]), (int(numbers[1]) if numbers[1] else None) if place else int(numbers[0])


def _unescaped(text: str) -> str:
    """What a string of Lark means: the escapes of Python, the usual ones of which are JSON's too."""
    try:
        value = json.loads(text.replace("\\'", "'"))
    except json.JSONDecodeError:
        raise Unreadable(f"the string {text}") from None
    if not isinstance(value, str):
        raise Unreadable(f"the string {text}")
    return value


class _Expansion:
    """Rules put in where they stand."""

    def __init__(self, rules: dict[str, Part]) -> None:
        self._rules = rules
        self._open: dict[str, int] = {}
        self._steps = 0

    def expand(self, name: str) -> Tree:
        """All texts of a rule."""
        if name not in self._rules:
            raise Unreadable(f"the name {name}, which is not declared")
        if self._open.get(name, 0) >= DEPTH:
            return _NEVER
        self._open[name] = self._open.get(name, 0) + 1
        tree = self._tree(_unrolled(name, self._rules[name]))
        self._open[name] -= 1
        return tree

    def _tree(self, part: Part) -> Tree:
        self._steps += 1
        if self._steps > MAX_STEPS:
            raise Unreadable("its size")
        if isinstance(part, Named):
            return self.expand(part.name)
        if not isinstance(part, Combined):
            return part
        kind, inner, low, high = part
        trees = [self._tree(item) for item in inner]
        if kind == "fork":
            return fork(*(tree for tree in trees if tree != _NEVER))
        if kind == "row":
            return _NEVER if _NEVER in trees else row(*trees)
        if trees[0] == _NEVER:
            return EMPTY if low == 0 else _NEVER
        return Loop(trees[0], low, high)


def _unrolled(name: str, part: Part) -> Part:
    """The rule with its calls of itself at the left end of alternatives, or at the right end, made repetitions."""
    options = part.parts if isinstance(part, Combined) and part.kind == "fork" else [part]
    rows = [option.parts if isinstance(option, Combined) and option.kind == "row" else [option] for option in options]
    for first in (True, False):
        own = [items for items in rows if len(items) > 1 and items[0 if first else -1] == Named(name)]
        rests: list[Part] = [Combined("row", items[1:] if first else items[:-1]) for items in own]
        others: list[Part] = [Combined("row", items) for items in rows if items not in own]
        if own and others and not any(_calls(name, item) for item in (*rests, *others)):
            again = Combined("loop", [Combined("fork", rests)])
            base = Combined("fork", others)
            return Combined("row", [base, again] if first else [again, base])
    return part


def _calls(name: str, part: Part) -> bool:
    """Whether the rule itself stands in a part."""
    if isinstance(part, Named):
        return part.name == name
    return isinstance(part, Combined) and any(_calls(name, item) for item in part.parts)
