"""Arguments that come back as a parsed value are spelled as models write them."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon_protocols.history import input_text, respaced

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(VALUES, st.sampled_from([None, 2]), st.booleans())
def test_any_spacing_becomes_the_one_of_json_dumps(value, indent, ascii_only):
    separators = (",", ":") if indent is None else None
    text = json.dumps(value, indent=indent, separators=separators, ensure_ascii=ascii_only)
    assert respaced(text) == json.dumps(value, ensure_ascii=ascii_only)


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b'{"a":1.10,"b":[1e3,12345678901234567890]}', '{"a": 1.10, "b": [1e3, 12345678901234567890]}'),
        (b'{"a":"x,y:z  \\" ,"}', '{"a": "x,y:z  \\" ,"}'),
        (b" {  } ", "{}"),
        (b'"{\\"a\\":1}"', '{"a":1}'),
        (b"null", "{}"),
    ],
)
def test_spelling(raw, text):
    assert input_text(raw) == text
