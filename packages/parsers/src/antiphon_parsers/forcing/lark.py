"""Grammars as llguidance Lark (the dialect is described in llguidance's docs/syntax.md), for engines that compile it in.

Strings are one lexeme each. A raw string ends at the first place where its end can stand (`suffix`); where a control token of the
model is part of the end, the lexeme runs up to the token instead, which no text can hold. Control tokens are written by number,
since text never matches them.
"""

import json
import re
from collections.abc import Mapping, Sequence

from antiphon_parsers.forcing.charset import regex_char
from antiphon_parsers.forcing.escapes import quoted
from antiphon_parsers.forcing.nodes import CallGrammar, Either, Exact, Key, Node, Pattern, Ref, Run, Several, Spellings, Words, Written
from antiphon_parsers.forcing.patterns import Tree, longest, regex_text, shortest

HEAD = "%llguidance {}"
_ESCAPE = r'\\["\\bfnrt]'
_PLAIN = {
    "json": rf'[^"\\\x00-\x1F\x7F-\u{{10FFFF}}]|{_ESCAPE}',  # a character of one byte, or a short escape
    "python": r"[^'\\\x00-\x1F\x7F-\u{10FFFF}]|" + _ESCAPE.replace('"', "'"),
    "raw": r"[\x00-\x7F]",
}
_WIDE = r"[\u{80}-\u{10FFFF}]"
_QUOTES = {"json": '"\\""', "python": '"\'"', "raw": ""}
_ANY = r"ANY: ~/[^\x00-\u{10FFFF}]/"
"""All byte strings, said as the complement of none: only so are complements of what goes on with it seen to be empty."""
_WORD = "/[A-Za-z_][A-Za-z0-9_.-]{0,23}/"
_CUTS = re.compile(r"(?<=[{\[<])|(?<=, )")
"""Where a text is cut into lexemes. The matcher takes the longest lexeme and gives up the ways that had a shorter one, so that a separator
must not be a lexeme in one way and the beginning of one in another."""


def lower_lark(grammar: CallGrammar, *, end_token: str | None = None, tokens: Mapping[str, int] | None = None) -> str:
    """The grammar as text. `tokens` are the model's control tokens by spelling: their text in the grammar means the token.
    `end_token` has to follow at the end, by spelling (`<|im_end|>`) or number (`<[2]>`)."""
    lark = _Lark(tokens or {})
    start = lark.body(grammar.root)
    end = "" if not end_token else f" {lark.end(end_token)}"
    lines = [f"r{number}: {lark.body(body)}" for number, body in enumerate(grammar.bodies)]
    anything = [_ANY] if any("ANY" in line for line in lark.lines) else []
    return "\n".join([HEAD, f"start: {start}{end}", *lines, *lark.lines, *anything, ""])


def literal(text: str) -> str:
    """A Lark string for exactly this text."""
    return json.dumps(text, ensure_ascii=False)


def _escaped(text: str) -> str:
    """Text within a regular expression between slashes."""
    return "".join(regex_char(ord(char)) for char in text)


class _Lark:
    def __init__(self, tokens: Mapping[str, int]) -> None:
        self._tokens = tokens
        spelled = sorted(tokens, key=len, reverse=True)
        self._split = re.compile("(" + "|".join(map(re.escape, spelled)) + ")") if spelled else re.compile(r"(?!)()")
        self._names: dict[str, str] = {}
        self.lines: list[str] = []

    def end(self, token: str) -> str:
        """What ends the turn: control tokens as they are known, else the spelling that the engine knows."""
        known = self._tokens.get(token)
        if known is not None:
            return f"<[{known}]>"
        pieces = [piece for piece in self._split.split(token) if piece]
        return " ".join(map(self._piece, pieces)) if len(pieces) > 1 else token

    def body(self, node: Node) -> str:
        """A rule body."""
        match node:
            case Exact():
                return self._text(node.text) or '""'
            case Ref():
                return f"r{node.number}"
            case Run():
                return " ".join(map(self.body, node.parts))
            case Either():
                return " | ".join(map(self.body, node.options))
            case Several():
                return f"( {self.body(node.body)} ){{{node.low},{node.high}}}"
            case Words():
                return self._terminal(" | ".join(map(literal, node.texts)))
            case Pattern():
                return self._terminal(f"/{node.regex}/")
            case Key():
                taken = " | ".join(map(literal, node.taken))
                return self._terminal(f'"\\"" ({_WORD} & ~({taken})) "\\""' if node.taken else f'"\\"" {_WORD} "\\""')
            case Written():
                return self._raw(node) if node.form == "raw" else self._terminal(self._string(node))

    def _text(self, text: str) -> str:
        pieces = [piece for part in self._split.split(text) for piece in (_CUTS.split(part) if part not in self._tokens else (part,))]
        return " ".join(map(self._piece, filter(None, pieces)))

    def _piece(self, piece: str) -> str:
        known = self._tokens.get(piece)
        return literal(piece) if known is None else f"<[{known}]>"

    def _terminal(self, body: str) -> str:
        return self._named("T", body)

    def _named(self, kind: str, body: str) -> str:
        name = self._names.get(body)
        if name is None:
            name = self._names[body] = f"{kind}{len(self._names)}"
            self.lines.append(f"{name}: {body}" if kind == "T" else name + body)
        return name

    def _string(self, node: Written) -> str:
        """Terminal body of a string, without its end."""
        plain, quote = _PLAIN[node.form], _QUOTES[node.form]
        body = bounded(plain, _WIDE, node.low, node.room, node.high) if node.tree is None else _matching(node, node.tree, plain)
        if node.forbidden and body != '""':
            body = f"({body}) & ~(ANY ({' | '.join(self._terminal(f'/{run_regex(run)}/') for run in node.forbidden)}) ANY)"
        return f"{quote} ({body}) {quote}" if quote else body

    def _raw(self, node: Written) -> str:
        pieces = [piece for piece in self._split.split(node.end) if piece]
        first = next((place for place, piece in enumerate(pieces) if piece in self._tokens), None)
        if first is None:
            return self._named("s", f"[suffix={literal(node.end)}]: {self._terminal(self._string(node))}")
        before = "".join(pieces[:first])
        behind = " ".join(map(self._piece, pieces[first:]))
        if before:
            return f"{self._terminal(f'({self._string(node)}) {literal(before)}')} {behind}"
        some = self._terminal(f"({self._string(node)}) & /(?s:.)+/")
        return f"( {some} )? {behind}" if node.low == 0 and not (node.tree and shortest(node.tree)) else f"{some} {behind}"


def _matching(node: Written, tree: Tree, plain: str) -> str:
    inner = tree if node.form == "raw" else quoted(tree, '"' if node.form == "json" else "'")
    body = f"/{regex_text(inner)}/"
    size = longest(tree)
    if size is not None and node.low == 0 and size <= (node.room if node.high is None else min(node.room, node.high)):
        return body
    high = node.room * 8 // 11 if node.high is None else min(node.high, node.room * 8 // 11)
    return f"{body} & /({plain}|{_WIDE}){{{node.low},{max(node.low, shortest(tree) or 1, high)}}}/"


def run_regex(run: Sequence[Spellings]) -> str:
    """Regular expression of a run of tags."""
    return r"[\s\x1C-\x1F]*".join(f"({'|'.join(map(_escaped, spellings))})" for spellings in run)


def bounded(plain: str, wide: str, low: int, room: int, high: int | None) -> str:
    """Terminal body: `low` to `high` characters that never take more than `room` tokens.

    A plain character takes one token at most, a wide one four. Mostly plain text gets most of the room as characters, text in
    other scripts a third of that.
    """
    size = max(low, 1, min(room * 8 // 11, 1 << 30 if high is None else high))
    if high == 0:
        return '""'
    mixed = f"/({plain}|{wide}){{{low},{size}}}/"
    if room >= 4 * size:
        return mixed
    sparse = f"/(({plain})*{wide}){{0,{size // 8}}}({plain})*/"
    third = max(1, size // 3)
    return f"({mixed} & {sparse})" + (f" | /({plain}|{wide}){{{low},{third}}}/" if third >= low else "")
