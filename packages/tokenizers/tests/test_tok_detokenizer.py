"""Ids to text, one at a time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon_tokenizers import Detokenizer, ModelFiles, Tokenizer


def _stream(tokenizer: Tokenizer, ids: list[int]) -> list[str]:
    detokenizer = Detokenizer(tokenizer)
    return [*(detokenizer.push(i) for i in ids), detokenizer.flush()]


@pytest.mark.parametrize("text", ["dobře 🐉 中", "👩‍💻", "a\r\n\tb", "", "x<|im_end|>y<think>"])
def test_text_comes_back(smollm: ModelFiles, text: str) -> None:
    for added in (True, False):
        ids = smollm.tokenizer.encode(text, added=added)
        assert "".join(_stream(smollm.tokenizer, ids)) == text


def test_a_character_waits_until_it_is_whole(bytewise: Tokenizer) -> None:
    ids = bytewise.encode("😀a", added=False)
    assert _stream(bytewise, ids) == ["", "", "", "😀", "a", ""]
    # An id that stands for no bytes at all does not disturb a waiting character; neither does one outside the vocabulary.
    assert _stream(bytewise, [*ids[:3], 99_999, -1, *ids[3:]]) == ["", "", "", "", "", "😀", "a", ""]


def test_bytes_that_cannot_be_completed_become_one_mark(bytewise: Tokenizer) -> None:
    lead, rest = bytewise.encode("中", added=False)[:2]
    end = bytewise.control_tokens["<|im_end|>"]
    assert _stream(bytewise, [lead, rest, end]) == ["", "", "\ufffd<|im_end|>", ""]
    assert _stream(bytewise, [lead]) == ["", "\ufffd"]
    assert _stream(bytewise, [rest]) == ["\ufffd", ""]


@given(data=st.data())
def test_any_ids_equal_the_whole_decode(smollm: ModelFiles, bytewise: Tokenizer, data: st.DataObject) -> None:
    tokenizer = data.draw(st.sampled_from([smollm.tokenizer, bytewise]))
    ids = data.draw(st.lists(st.integers(0, tokenizer.vocab_size - 1), max_size=40))
    parts = _stream(tokenizer, ids)
    assert "".join(parts) == tokenizer.decode(ids)
    assert all(part.encode() is not None for part in parts)


@given(text=st.text(max_size=60))
def test_text_round_trip(bytewise: Tokenizer, text: str) -> None:
    assert "".join(_stream(bytewise, bytewise.encode(text, added=False))) == text


# The default model's vocabulary lacks six control characters and the lead bytes of planes 4 to 15.
@given(text=st.text(st.characters(max_codepoint=0x3FFFF, exclude_categories=["Cc", "Cs"], include_characters="\t\n\r"), max_size=60))
def test_text_round_trip_default_model(smollm: ModelFiles, text: str) -> None:
    assert "".join(_stream(smollm.tokenizer, smollm.tokenizer.encode(text, added=False))) == text
