"""Bounded encoding, the run cache, and tokenizers that cannot be cut."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, models, pre_tokenizers
from tokenizers import Tokenizer as FastTokenizer

from antiphon_tokenizers import ModelFiles, Rendered, RunCache, Tokenizer, check_size, encode
from antiphon_turns import AssistantMessage, ReasoningSegment, TextSegment, TurnRequest, UserMessage
from antiphon_turns.errors import ContextOverflow


def _rendered(*pieces: int | str) -> Rendered:
    return Rendered(pieces=pieces, opening="", spell=str)


def _refused(rendered: Rendered, tokenizer: Tokenizer, limit: int) -> int:
    with pytest.raises(ContextOverflow) as caught:
        encode(rendered, tokenizer, limit=limit)
    assert caught.value.context_length == limit
    return caught.value.prompt_tokens


def test_limit_is_the_largest_prompt(smollm: ModelFiles) -> None:
    rendered = _rendered(1, "user\nhello there", 2, "\n")
    ids = encode(rendered, smollm.tokenizer, limit=100)
    assert ids == smollm.tokenizer.encode("<|im_start|>user\nhello there<|im_end|>\n", added=True)
    assert encode(rendered, smollm.tokenizer, limit=len(ids)) == ids
    assert _refused(rendered, smollm.tokenizer, len(ids) - 1) == len(ids)


def test_count_is_exact_up_to_eight_times_the_limit(smollm: ModelFiles) -> None:
    text = "def area(r):\n    return 3.14159 * r ** 2  # of a circle\n" * 2000
    count = len(smollm.tokenizer.encode(text, added=True))
    assert _refused(_rendered(text), smollm.tokenizer, count // 7) == count
    # Another text, since the cache knows the first one's count.
    bound = _refused(_rendered(f"# {text}"), smollm.tokenizer, count // 20)
    assert count // 20 * 8 < bound < count


def test_huge_prompt_is_refused_without_being_encoded(smollm: ModelFiles) -> None:
    tokenizer = smollm.tokenizer
    misses = tokenizer.cache.misses
    assert 8 * 8192 < _refused(_rendered("a" * 40_000_000), tokenizer, 8192) <= 10_000_000
    assert tokenizer.cache.misses == misses


def test_huge_request_is_refused_before_it_is_rendered(smollm: ModelFiles) -> None:
    def request(text: str) -> TurnRequest:
        turn = AssistantMessage((ReasoningSegment("r" * 20_000_000), TextSegment(text)))
        return TurnRequest(surface="chat", model="m", messages=(UserMessage(text), turn))

    with pytest.raises(ContextOverflow):
        check_size(request("<" * 5_000_000), smollm.tokenizer, limit=8192)
    check_size(request("<" * 1_000_000), smollm.tokenizer, limit=8192)


def test_settings_saved_with_a_tokenizer_do_not_cut_prompts(byte_tokenizer: Callable[..., FastTokenizer]) -> None:
    fast = byte_tokenizer()
    fast.enable_truncation(4)
    fast.enable_padding(length=9)
    assert len(Tokenizer(fast).encode("abcdef", added=True)) == 6


def test_white_space_tokens_are_text() -> None:
    fast = FastTokenizer(models.BPE(vocab={"a": 0, "Ċ": 1, "ĊĊ": 2, "\n\n": 3}, merges=[("Ċ", "Ċ")]))
    fast.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    fast.add_tokens([AddedToken("\n\n", normalized=False), AddedToken("<x>", normalized=False)])
    tokenizer = Tokenizer(fast)
    assert list(tokenizer.control_tokens) == ["<x>"]
    assert tokenizer.encode("a\n\na", added=True) == tokenizer.encode("a\n\na", added=False) == [0, 3, 0]


WORDS = st.sampled_from(["word", " and", "\n", "\n\n", "  ", "\t", "12", "x=1;", "中文", "é\u0301", "'s", "...", "\r\n", "_a", " B", "🐉"])


@settings(max_examples=20, deadline=None)
@given(words=st.lists(WORDS, min_size=20, max_size=60))
def test_parts_are_the_whole(smollm: ModelFiles, words: list[str]) -> None:
    text = "".join(words) * 600
    steps = list(smollm.tokenizer.encode_steps(text))
    assert [i for step in steps for i in step] == smollm.tokenizer.encode(text, added=True)
    assert len(steps) > 1 or len(text) < 40_000 or "d an" not in text


def test_text_without_a_place_to_cut(smollm: ModelFiles) -> None:
    text = "7" * 600_000
    assert [len(step) for step in smollm.tokenizer.encode_steps(text)] == [262_144, 262_144, 75_712]
    assert smollm.tokenizer.decode(smollm.tokenizer.encode(text, added=False)) == text


def test_runs_are_encoded_once(byte_tokenizer: Callable[..., FastTokenizer]) -> None:
    tokenizer = Tokenizer(byte_tokenizer())
    first = encode(_rendered("one", 256, "two", 257, "one"), tokenizer, limit=99)
    assert (tokenizer.cache.hits, tokenizer.cache.misses) == (1, 2)
    assert encode(_rendered("one", 256, "two", 257, "one"), tokenizer, limit=99) == first
    assert (tokenizer.cache.hits, tokenizer.cache.misses) == (4, 2)


def test_cache_is_bounded() -> None:
    cache = RunCache(4000)
    for index in range(50):
        cache.put(f"run {index}", [1, 2, 3])
        assert cache.get("run 0") is not None
    assert cache.bytes <= 4000
    assert cache.get("run 49") is not None
    assert cache.get("run 2") is None
    cache.put("x" * 1000, [1])
    assert cache.get("x" * 1000) is None


def test_twin_never_gives_a_control_id() -> None:
    # The whole word is in the vocabulary and taken without merges: the twin would find the control token by itself.
    vocabulary = {"<": 0, "s": 1, ">": 2, "<s>": 3, "s>": 4}
    fast = FastTokenizer(models.BPE(vocab=vocabulary, merges=[("s", ">"), ("<", "s>")]))
    fast.add_special_tokens([AddedToken("<s>", special=True, normalized=False)])
    tokenizer = Tokenizer(fast)
    assert tokenizer.encode("<s>", added=True) == [3]
    assert tokenizer.encode("<s>", added=False) == [0, 4]
    assert tokenizer.encode("s><s><s", added=False) == [4, 0, 4, 0, 1]


@pytest.fixture
def stripping(byte_tokenizer: Callable[..., FastTokenizer]) -> Tokenizer:
    return Tokenizer(byte_tokenizer(AddedToken("<end>", normalized=False, rstrip=True)))


def test_tokenizer_that_strips_is_encoded_whole(stripping: Tokenizer) -> None:
    end = stripping.control_tokens["<end>"]
    assert not stripping.splittable
    assert stripping.note is not None and "encoded whole" in stripping.note
    rendered = Rendered(pieces=("a", end, "  b"), opening="", spell=str)
    assert encode(rendered, stripping, limit=99) == stripping.encode("a<end>  b", added=True)
    assert len(encode(rendered, stripping, limit=99)) == 3


def test_whole_encoding_yields_where_it_would_make_text_control(stripping: Tokenizer) -> None:
    end = stripping.control_tokens["<end>"]
    rendered = Rendered(pieces=("<end>", end, "  b"), opening="", spell=str)
    ids = encode(rendered, stripping, limit=99)
    assert ids.count(end) == 1
    assert stripping.decode(ids) == "<end><end>  b"


def test_early_end_without_safe_cuts() -> None:
    fast = FastTokenizer(models.BPE(vocab={"▁": 0, "a": 1, "b": 2}, merges=[]))
    fast.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer = Tokenizer(fast)
    assert tokenizer.token_floor(10**9) == 0
    assert tokenizer.decode(tokenizer.encode("a b", added=False)) == " a b"
    assert 80 < _refused(_rendered("ab " * 200_000), tokenizer, 10) < 600_000
