"""JsonScanner: accepts exactly JSON, in any pieces, and can always close what it accepted."""

import json

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon_turns.json_scan import MAX_DEPTH, JsonScanner

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=12,
)

VALID = [
    "{}",
    "[]",
    ' {"a" : [1, -2.5e+7, 0, 0.10, 1E9], "b":{"c":null,"d":true,"e":false} , "":""}',
    r'"\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00"',
    '["é", "\u2028", "\U0001f600"]',
]

# text, characters that are accepted
INVALID = [
    ("{a", 1),
    ("{'a'", 1),
    ('{"a" 1', 5),
    ('{"a":1,}', 7),
    ("[1,]", 3),
    ("[01]", 2),
    ("[1.]", 3),
    ("[-]", 2),
    ("[1e]", 3),
    ("[NaN", 1),
    ("[+1", 1),
    ("tru!", 3),
    ('"a\nb"', 2),
    ('"a\x1fb"', 2),
    (r'"\x"', 2),
    (r'"\u12g"', 5),
    ("[1}", 2),
    ("{]", 1),
    ("}", 0),
]


@pytest.mark.parametrize("text", VALID)
def test_valid_values_are_taken_whole_in_any_pieces(text: str) -> None:
    for cut in range(len(text) + 1):
        scanner = JsonScanner()
        assert scanner.feed(text[:cut]) == cut
        assert scanner.feed(text[cut:] + "tail") == len(text) - cut
        assert scanner.done and not scanner.failed and scanner.closing() == ""
        assert scanner.feed("more") == 0


@pytest.mark.parametrize(("text", "accepted"), INVALID)
def test_first_invalid_character_stops(text: str, accepted: int) -> None:
    whole, single = JsonScanner(), JsonScanner()
    assert whole.feed(text) == accepted
    assert sum(single.feed(char) for char in text) == accepted
    assert whole.failed and single.failed and not whole.done
    assert whole.feed("1") == 0


@pytest.mark.parametrize(
    ("text", "closing"),
    [
        ("", "0"),
        ("{", "}"),
        ("[", "]"),
        ('{"a', '":0}'),
        ('{"a"', ":0}"),
        ('{"a":', "0}"),
        ('{"a":1', "}"),
        ('{"a":1,', '"":0}'),
        ("[1,", "0]"),
        ("[-", "0]"),
        ("[1.", "0]"),
        ("[1e-", "0]"),
        ("[tr", "ue]"),
        ('["x\\', '""]'),
        ('["x\\u0', '000"]'),
        ('["\\ud83d', '\\udc00"]'),
        ('["\\ud83d\\', 'udc00"]'),
        ('["\\ud83d\\ud', 'c00"]'),
        ('["\\ud8', '00\\udc00"]'),
        ('[{"a":["b', '"]}]'),
    ],
)
def test_closing(text: str, closing: str) -> None:
    scanner = JsonScanner()
    assert scanner.feed(text) == len(text)
    assert scanner.closing() == closing
    msgspec.json.decode(text + closing)


def test_a_number_is_done_only_once_delimited() -> None:
    scanner = JsonScanner()
    assert scanner.feed("12") == 2
    assert not scanner.done
    assert scanner.feed(" ") == 0
    assert scanner.done


def test_depth_is_bounded_without_recursion() -> None:
    scanner = JsonScanner()
    assert scanner.feed("[" * 100_000) == MAX_DEPTH
    assert scanner.failed
    shallow = JsonScanner(max_depth=2)
    assert shallow.feed('{"a":{"b":[') == 10


def test_recover_and_retract() -> None:
    scanner = JsonScanner()
    scanner.feed('{"a":1, }')
    assert scanner.failed and scanner.after_comma
    scanner.recover()
    scanner.retract_comma()
    assert scanner.feed("}") == 1
    assert scanner.done


@given(JSON_VALUES, st.data())
def test_every_prefix_of_json_can_be_closed(value: object, data: st.DataObject) -> None:
    text = json.dumps({"v": value}, ensure_ascii=data.draw(st.booleans()))
    cut = data.draw(st.integers(0, len(text)))
    scanner = JsonScanner()
    assert scanner.feed(text[:cut]) == cut
    json.loads(text[:cut] + scanner.closing())
    assert scanner.feed(text[cut:]) == len(text) - cut
    assert scanner.done


@settings(max_examples=300)
@given(st.text(alphabet='{}[]:,"\\u0d8 \n1-.eEtrufalsn', max_size=24))
def test_agrees_with_the_standard_decoder(text: str) -> None:
    scanner = JsonScanner()
    taken = scanner.feed(text)
    ours = taken == len(text) and not scanner.failed and scanner.closing() == ""
    if scanner.done:
        ours = text[taken:].strip(" \t\n\r") == ""
    try:
        json.loads(text)
        theirs = True
    except ValueError:
        theirs = False
    assert ours == theirs
