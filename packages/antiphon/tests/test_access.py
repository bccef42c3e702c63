"""API keys as data: buckets, accounts, tables of a file, and how keys are found and exchanged."""

import contextlib

import pytest

from antiphon.access.account import Account
from antiphon.access.bucket import Bucket
from antiphon.access.key import KeyEntry, hash_of, new_key, read_keys, table_of
from antiphon.access.keyring import API_KEY, Keyring, keyring_of
from antiphon.config import Settings
from antiphon_turns.errors import AuthError, ConfigError, InvalidRequest, RateLimited, UnknownModel

A, B = hash_of("key-a"), hash_of("key-b")


class Hands:
    """A clock that goes where it is set."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def account(clock: Hands, **rules: object) -> Account:
    """The account of a key with these rules."""
    return Account("a", read_keys({"a": {"hash": A, **rules}})["a"], clock=clock)


def test_a_bucket_gives_a_minute_at_once_and_then_its_rate() -> None:
    bucket = Bucket(60, now=0.0)
    for _ in range(60):
        assert bucket.wait(1, now=0.0) == 0.0
        bucket.spend(1, now=0.0)
    assert bucket.wait(1, now=0.0) == pytest.approx(1.0)
    assert bucket.wait(1, now=0.5) == pytest.approx(0.5)
    assert bucket.wait(1, now=1.0) == 0.0
    assert bucket.wait(60, now=1000.0) == 0.0, "full again, and no fuller"
    bucket.spend(60, now=1000.0)
    assert bucket.wait(1, now=1000.0) > 0


def test_a_bucket_may_owe_and_a_clock_may_stand_still() -> None:
    bucket = Bucket(60, now=0.0)
    bucket.spend(120, now=0.0)
    assert bucket.wait(1, now=0.0) == pytest.approx(61.0)
    assert bucket.wait(1, now=-5.0) == pytest.approx(61.0)
    assert bucket.wait(1, now=61.0) == pytest.approx(0.0)


def test_a_bucket_of_another_size_keeps_what_is_owed() -> None:
    spent, full = Bucket(60, now=0.0), Bucket(60, now=0.0)
    spent.spend(70, now=0.0)
    spent.resize(600, now=0.0)
    full.resize(600, now=0.0)
    assert spent.wait(1, now=0.0) == pytest.approx(1.1)
    assert full.wait(600, now=0.0) == 0.0


def test_requests_a_minute() -> None:
    clock = Hands()
    key = account(clock, requests_per_minute=2)
    for _ in range(2):
        with key.turns(1):
            pass
    with pytest.raises(RateLimited, match="2 requests a minute") as refused, key.turns(1):
        pass
    assert refused.value.retry_after == pytest.approx(30.0)
    clock.now += refused.value.retry_after
    with key.turns(1):
        pass


def test_prompt_tokens_a_minute_are_counted_afterwards() -> None:
    clock = Hands()
    key = account(clock, prompt_tokens_per_minute=600)
    with key.turns(1):
        key.charge(1200)  # longer than a minute's worth: it passes, and costs its time
    with pytest.raises(RateLimited, match="600 prompt tokens a minute") as refused, key.turns(1):
        pass
    assert refused.value.retry_after == pytest.approx(60.1)
    clock.now += refused.value.retry_after
    with key.turns(1):
        pass


def test_turns_at_once() -> None:
    key = account(Hands(), max_turns=2, requests_per_minute=3)
    with key.turns(1), key.turns(1):
        with pytest.raises(RateLimited, match="2 turns running"), key.turns(1):
            pass
        assert key.taken == 2
    with pytest.raises(InvalidRequest, match="n: the API key a may run 2"), key.turns(3):
        pass
    with key.turns(2):  # refused requests have cost none of the three
        assert key.taken == 2
    with contextlib.suppress(ZeroDivisionError):
        fails = account(Hands(), max_turns=1)
        with fails.turns(1):
            _ = 1 / 0
    assert fails.taken == 0


def test_models_of_a_key() -> None:
    key = account(Hands(), models=["claude-*", "Antiphon-Mock"])
    for name in ("claude-opus-4-8", "CLAUDE-x", "antiphon-mock"):
        key.check_model(name)
    with pytest.raises(UnknownModel, match="may not use the model 'gpt-5'"):
        key.check_model("gpt-5")
    account(Hands()).check_model("anything")


BAD_TABLES = [
    ({"a": {}}, r"\[keys.a\].*hash"),
    ({"a": {"hash": "key-a"}}, "sha256: and 64 hex digits.*never the key"),
    ({"a": {"hash": A, "model": []}}, "unknown field `model`"),
    ({"a": {"hash": A, "max_turns": 0}}, "max_turns: must be at least 1"),
    ({"a": {"hash": A, "requests_per_minute": "9"}}, "Expected `int"),
    ({"a": {"hash": A}, "b": {"hash": A}}, r"\[keys.b\] has the hash of \[keys.a\]"),
    ({"a b": {"hash": A}}, "cannot be the name of a key"),
    ({"a": 1}, r"\[keys.a\]"),
]


@pytest.mark.parametrize(("tables", "said"), BAD_TABLES)
def test_a_bad_table_is_named_and_its_secret_is_not(tables: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError, match=said) as refused:
        read_keys(tables)
    assert "key-a" not in refused.value.message


def test_a_fresh_key_fits_its_table() -> None:
    key = new_key(lambda count: bytes(range(count)))
    assert len(key) == 67
    assert hash_of(key) in table_of("x", key)
    assert key not in table_of("x", key)
    assert table_of("x.y", key).startswith('[keys."x.y"]')


def test_a_key_is_found_among_dummies_and_nothing_else_is() -> None:
    ring = Keyring({"a": KeyEntry(hash=A), "b": KeyEntry(hash=B)})
    found = ring.find([b"dummy", b"key-b"])
    assert found is not None
    assert (found[0], found[1].name) == (b"key-b", "b")
    assert ring.find([b"", b"key-A", A.encode(), b"key-a "]) is None


def test_exchanged_keys_keep_their_accounts_and_lost_ones_are_revoked() -> None:
    ring = Keyring({"a": KeyEntry(hash=A, max_turns=1), "b": KeyEntry(hash=B)})
    kept, gone = ring.find([b"key-a"]), ring.find([b"key-b"])
    assert kept and gone
    with kept[1].turns(1):
        ring.replace({"a": KeyEntry(hash=A, max_turns=2), "c": KeyEntry(hash=hash_of("key-c"))})
        assert ring.find([b"key-a"]) == kept
        with kept[1].turns(1):
            assert kept[1].taken == 2
    assert ring.find([b"key-b"]) is None
    assert ring.find([b"key-c"])
    with pytest.raises(AuthError, match="revoked"), gone[1].turns(1):
        pass


def test_the_last_key_cannot_be_taken_away() -> None:
    ring = Keyring({"a": KeyEntry(hash=A)})
    with pytest.raises(ConfigError, match="no API key left"):
        ring.replace({})
    assert ring.find([b"key-a"])


def test_the_keyring_of_settings() -> None:
    assert keyring_of(Settings()) is None
    both = keyring_of(Settings(api_key="one", keys={"a": {"hash": A}}))
    assert both is not None
    one, other = both.find([b"one"]), both.find([b"key-a"])
    assert one and other
    assert (one[1].name, one[1].entry.operator) == (API_KEY, True)
    assert (other[1].name, other[1].entry.operator) == ("a", False)
    both.replace({})
    assert both.find([b"one"]), "the key of --api-key stays"
