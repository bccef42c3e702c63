"""What a grammar leaves once the beginning of a text is there."""

from antiphon_parsers.forcing.nodes import NOTHING, Either, Exact, Node, Ref, Rules, Run, Words


def after_text(rules: Rules, node: Node, text: str) -> tuple[str, Node] | None:
    """(what certainly comes next, the rest behind that), when the text is a beginning of fixed words of the grammar; None where
    the grammar has another beginning, or the text reaches into a part that it only describes."""
    rests = _behind(rules, node, text)
    if not rests:
        return None
    rest = rules.either(rests)
    first = rest.parts[0] if isinstance(rest, Run) else rest
    if not isinstance(first, Exact):
        return "", rest
    certain = first.text.rstrip(" ")
    behind = rules.run(Exact(first.text[len(certain) :]), *(rest.parts[1:] if isinstance(rest, Run) else ()))
    return certain, behind


def _behind(rules: Rules, node: Node, text: str) -> list[Node]:
    """The rests of every way in which the text can begin."""
    if not text:
        return [node]
    match node:
        case Exact():
            return _rest_of(node.text, text)
        case Words():
            return [rest for word in node.texts for rest in _rest_of(word, text)]
        case Ref():
            return _behind(rules, rules.bodies[node.number], text)
        case Either():
            return [rest for option in node.options for rest in _behind(rules, option, text)]
        case Run():
            return _behind_run(rules, node, text)
        case _:
            return []


def _rest_of(word: str, text: str) -> list[Node]:
    return [Exact(word[len(text) :])] if word.startswith(text) else []


def _behind_run(rules: Rules, node: Run, text: str) -> list[Node]:
    first, others = node.parts[0], rules.run(*node.parts[1:])
    found = [rules.run(rest, others) for rest in _behind(rules, first, text)]
    for size in range(1, len(text)):
        if NOTHING in _behind(rules, first, text[:size]):
            found += _behind(rules, others, text[size:])
    return found
