"""Line patterns mean what regular expressions mean, in linear time."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.line_pattern import MAX_STEPS, LinePattern
from antiphon_turns.errors import ConfigError

ATOMS = ["a", "b", ".", "[ab]", "[^a]", r"\d", r"\.", "1", "[]a]", r"[\]b-]", r"\w"]


@st.composite
def patterns(draw, depth=3):
    kind = draw(st.sampled_from(["atom", "sequence", "choice", "count"])) if depth else "atom"
    if kind == "atom":
        return draw(st.sampled_from(ATOMS))
    if kind == "count":
        count = draw(st.sampled_from(["*", "+", "?", "{2}", "{0,2}", "{1,}", "{0}"]))
        return f"(?:{draw(patterns(depth=depth - 1))}){count}"
    parts = draw(st.lists(patterns(depth=depth - 1), min_size=1, max_size=3))
    return "".join(parts) if kind == "sequence" else f"({'|'.join(parts)})"


@settings(max_examples=300)
@given(patterns(), st.lists(st.text("ab1.]-é", max_size=8), max_size=8))
def test_the_whole_line_matches_as_re_says(source, lines):
    pattern = LinePattern(source)
    for line in lines:
        assert pattern.matches(line) == bool(re.fullmatch(source, line)), (source, line)


@pytest.mark.parametrize(
    ("source", "line", "expected"),
    [
        (r"Today's date: \d{4}-\d{2}-\d{2}\.?", "Today's date: 2026-11-29.", True),
        (r"Today's date: \d{4}-\d{2}-\d{2}\.?", " Today's date: 2026-11-29", False),
        (r"x-request: [0-9a-f]{8,}", "x-request: 0123abcd99", True),
        (r"x-request: [0-9a-f]{8,}", "x-request: 0123abc", False),
        ("", "", True),
        ("", "a", False),
        ("{literal}", "{literal}", True),
        (r"\x41é\u0042", "AéB", True),
        ("a|", "", True),
    ],
)
def test_examples(source, line, expected):
    assert LinePattern(source).matches(line) is expected


@pytest.mark.parametrize(
    ("source", "what"),
    [
        ("(a", "without its )"),
        ("a)", "without its ("),
        ("[a", "without its ]"),
        ("[z-a]", "bad character range"),
        ("[[a]", "nested set"),
        ("*a", "nothing stands before"),
        ("{2}", "nothing stands before"),
        ("a{3,2}", "ends below"),
        ("a*?", "count of a count"),
        ("a++", "count of a count"),
        (r"(a)\1", "backreferences"),
        (r"\bword", "anchors"),
        ("(?=a)", "only plain groups"),
        ("(?i:a)", "only plain groups"),
        ("^a", "needs no ^"),
        ("a$", "needs no $"),
        ("a\nb", "line end"),
        ("(((a{50}){50}){50})", "too large"),
        ("(" * 40 + "a" + ")" * 40, "nested"),
        ("a" * 2000, "longer than"),
    ],
)
def test_what_is_refused_says_why(source, what):
    with pytest.raises(ConfigError) as refused:
        LinePattern(source)
    assert what in refused.value.message


@pytest.mark.parametrize("source", ["(a+)+b", "(a|a)*b", "(a|aa)+b", "a*a*a*a*a*a*a*b", "(.*a){12}b", "(a?){60}b"])
def test_no_pattern_stalls(source):
    """Each step asks every state once at most and is remembered: what a line costs does not depend on the pattern's nesting."""
    pattern = LinePattern(source)
    assert not pattern.matches("a" * 50_000 + "c")
    assert pattern.matches("a" * 50 + "b")
    assert pattern._made < 1000


def test_the_memory_of_steps_is_bounded():
    pattern = LinePattern("(?:.|..)*x")
    text = "".join(map(chr, range(0x4E00, 0x4E00 + MAX_STEPS + 500)))
    assert not pattern.matches(text) and pattern.matches(text + "x")
    assert pattern._made <= MAX_STEPS
