"""Seals: what opens, what does not, and why not."""

import base64
import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.seals import MAX_SEAL_CHARACTERS, Binding, SealKey, Seals, TurnSealer
from antiphon_turns.ids import carrier, seal_of, split_carrier

TAG = "abcdefghijklmn23"
BINDING = Binding(family="qwen3", fingerprint="f" * 64, vocab_size=150_000, refused=frozenset({7, 149_999}))
KEYS = [SealKey(bytes([number]) * 32) for number in range(3)]
IDS = [0, 1, 127, 128, 16_383, 16_384, 149_998, 42]


def counter():
    """Distinct bytes a call, so that seals are the same in every run."""
    numbers = itertools.count()
    return lambda size: next(numbers).to_bytes(size, "big")


def seals(*keys: SealKey) -> Seals:
    return Seals(keys or KEYS[:1], random_bytes=counter())


def sealed(token_ids=IDS, *, by: Seals | None = None, tag=TAG, index=3, tenant="t", binding=BINDING) -> str:
    return (by or seals()).seal_ids(token_ids, tag=tag, index=index, tenant=tenant, binding=binding)


def opened(value: str, *, by: Seals | None = None, tenant="t", binding=BINDING):
    """By default a server with the same key that has not made the seal itself."""
    return (by or seals()).open_ids(value, tenant=tenant, binding=binding)


@pytest.mark.parametrize("opening", [None, "", "<think>\n", "\u4f60\u597d" * 100])
def test_the_opening_comes_back(opening):
    value = seals().seal_ids(IDS, tag=TAG, index=0, tenant="t", binding=BINDING, opening=opening)
    assert (list(opened(value).ids), opened(value).opening) == (IDS, opening)


def test_what_was_sealed_comes_back_on_another_server():
    found = opened(sealed())
    assert (list(found.ids), found.tag, found.index, found.reason) == (IDS, TAG, 3, None)


@settings(max_examples=60)
@given(st.lists(st.integers(0, 149_998).filter(lambda number: number != 7), max_size=200), st.integers(0, 999_999))
def test_any_ids_come_back(token_ids, index):
    found = opened(sealed(token_ids, index=index))
    assert list(found.ids) == token_ids
    assert found.index == index


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("", "foreign"),
        ("EqQBCkYIBxgCKkD", "foreign"),
        ("antiphon.x.1.2", "foreign"),
        (carrier(TAG, 3), "unsealed"),
        (carrier(TAG, 3, "AA"), "damaged"),
        (carrier(TAG, 3, "A"), "damaged"),
        (carrier(TAG, 3, "_" * 80), "damaged"),
    ],
)
def test_what_is_no_seal_is_ignored_with_its_reason(value, reason):
    assert (opened(value).ids, opened(value).reason) == (None, reason)


@settings(max_examples=60)
@given(st.text(max_size=200))
def test_no_text_raises(text):
    for value in (text, carrier(TAG, 0, text or "x")):
        assert opened(value).ids is None
    assert seals().open_text(text, tenant="t") is None


def test_every_byte_counts():
    """Format, key id, binding, nonce, tag, ids, authentication: a change of any one leaves nothing to open."""
    value = sealed()
    raw = base64.urlsafe_b64decode(seal_of(value) + "==")
    reasons = set()
    for place in range(len(raw)):
        changed = bytearray(raw)
        changed[place] ^= 1
        found = opened(carrier(TAG, 3, base64.urlsafe_b64encode(changed).rstrip(b"=").decode()))
        assert found.ids is None, place
        reasons.add(found.reason)
    assert reasons == {"damaged", "unknown_key", "other_model"}
    for cut in range(len(raw)):
        assert opened(carrier(TAG, 3, base64.urlsafe_b64encode(raw[:cut]).rstrip(b"=").decode())).ids is None, cut


def test_base64_of_another_spelling_is_no_second_name_of_a_seal():
    seal = seal_of(sealed([1]))
    last = seal[-1]
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    assert len(seal) % 4, "the example must have unused bits"
    twin = seal[:-1] + alphabet[alphabet.index(last) ^ 1]
    assert base64.urlsafe_b64decode(twin + "==") == base64.urlsafe_b64decode(seal + "==")
    assert opened(carrier(TAG, 3, twin)).reason == "damaged"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"tenant": "other"}, "damaged"),
        ({"by": seals(KEYS[1])}, "unknown_key"),
        ({"binding": Binding(family="qwen3", fingerprint="e" * 64, vocab_size=150_000)}, "other_model"),
        ({"binding": Binding(family="glm", fingerprint="f" * 64, vocab_size=150_000)}, "other_model"),
        ({"binding": Binding(family="qwen3f", fingerprint="f" * 63, vocab_size=150_000)}, "other_model"),
        ({"binding": Binding(family="qwen3", fingerprint="f" * 64, vocab_size=149_998)}, "bad_tokens"),
        ({"binding": Binding(family="qwen3", fingerprint="f" * 64, vocab_size=150_000, refused=frozenset({42}))}, "bad_tokens"),
    ],
)
def test_a_seal_is_good_for_one_tenant_key_and_model(changes, reason):
    assert opened(sealed(), **changes).reason == reason


@pytest.mark.parametrize("place", [(TAG, 4), ("bcdefghijklmn23a", 3)])
def test_a_seal_does_not_move_to_another_place(place):
    assert opened(carrier(*place, seal_of(sealed()))).reason == "moved"


def test_rotation_old_keys_open_the_first_one_seals():
    old, new = seals(KEYS[0]), seals(KEYS[1], KEYS[0])
    assert list(opened(sealed(by=old), by=new).ids) == IDS
    assert opened(sealed(by=new), by=old).reason == "unknown_key"
    assert list(opened(sealed(by=new), by=seals(KEYS[1])).ids) == IDS


def test_what_was_seen_is_not_decrypted_again_and_only_for_its_tenant():
    mine = seals()
    value = sealed(by=mine)
    assert opened(value, by=mine) is opened(value, by=mine)
    assert opened(value, by=mine, tenant="other").reason == "damaged"


def test_the_memo_is_bounded(monkeypatch):
    monkeypatch.setattr("antiphon.seals.MEMO_IDS", 1000)
    mine = seals()
    values = [sealed(range(8, 308), by=mine, index=index) for index in range(10)]
    assert len(mine._memo) < 4
    assert list(opened(values[0], by=mine).ids) == list(range(8, 308))


def test_seals_of_usual_and_of_huge_segments():
    usual = sealed([100 + 299 * (number % 500) for number in range(500)])
    assert len(usual) < 2200  # 500 tokens of reasoning: two kilobytes in the client's history
    assert split_carrier(usual) == (TAG, 3)
    huge = sealed([149_998] * (MAX_SEAL_CHARACTERS // 4 + 1))
    assert huge == carrier(TAG, 3)


def test_stray_control_tokens_are_left_out_when_sealing():
    sealer = TurnSealer(seals(), BINDING, "t")
    assert list(sealer.open(sealer.carrier(TAG, 0, [1, 7, 2, 149_999])).ids) == [1, 2]


@pytest.mark.parametrize("text", ["", "summary", "\ud800 and \u0000", "x" * 10_000])
def test_sealed_text_comes_back_to_its_tenant_only(text):
    value = seals().seal_text(text, tenant="t")
    assert seals().open_text(value, tenant="t") == text
    for other in (seals().open_text(value, tenant="u"), seals(KEYS[1]).open_text(value, tenant="t")):
        assert other is None
    assert opened(carrier(TAG, 3, value)).ids is None
    assert seals().open_text(seal_of(sealed()), tenant="t") is None


def test_a_key_does_not_show_itself():
    assert KEYS[1].secret.hex()[:16] not in repr(KEYS[1])
    assert KEYS[1].key_id.hex() in repr(KEYS[1])
