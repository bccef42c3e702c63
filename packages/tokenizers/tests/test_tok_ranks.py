"""Vocabularies by rank: ids equal to those of tiktoken, whose format it is."""

import base64
import json
import random
from pathlib import Path

import pytest
import tiktoken

from antiphon_tokenizers import ModelFiles, Tokenizer, load_model_files
from antiphon_tokenizers.ranks import _KIMI
from antiphon_turns.errors import ConfigError

SPECIAL = {"[INST]": 0, "[/INST]": 1, "</s>": 2}
GPT_LIKE = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
TEXTS = (
    "Hello, world! It's 12345 o'clock.\n\n\tdef f(x):\r\n    return x+1",
    "\u4f60\u597d\uff0c\u4e16\u754c abc\u4e2d\u6587def",
    "na\u00efve \u00c9cole \U0001f600\U0001f468\u200d\U0001f469\u200d\U0001f467 \u0645\u0631\u062d\u0628\u0627",
    "   leading and trailing   ",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "",
)


@pytest.fixture(scope="module")
def ranks(smollm: ModelFiles) -> dict[bytes, int]:
    """A table of the default model's own vocabulary, single bytes first as these files have them."""
    tokenizer = smollm.tokenizer
    control = set(tokenizer.control_tokens.values())
    spelled = [tokenizer.token_bytes(index) for index in range(12_000) if index not in control]
    tokens = dict.fromkeys([bytes([byte]) for byte in range(256)] + [token for token in spelled if len(token) > 1])
    return {token: rank for rank, token in enumerate(tokens)}


@pytest.fixture
def tekken(ranks: dict[bytes, int], tmp_path: Path) -> Path:
    entries = [{"rank": rank, "token_bytes": base64.b64encode(token).decode(), "token_str": None} for token, rank in ranks.items()]
    config = {"pattern": GPT_LIKE, "default_vocab_size": len(ranks) + 8, "default_num_special_tokens": 8, "version": "v11"}
    special = [{"rank": index, "token_str": token, "is_control": True} for token, index in SPECIAL.items()]
    (tmp_path / "tekken.json").write_text(json.dumps({"config": config, "vocab": entries, "special_tokens": special}))
    return tmp_path


@pytest.fixture
def kimi(ranks: dict[bytes, int], tmp_path: Path) -> Path:
    lines = [base64.b64encode(token) + b" " + str(rank).encode() for token, rank in ranks.items()]
    (tmp_path / "tiktoken.model").write_bytes(b"\n".join(lines) + b"\n")
    added = {str(len(ranks) + place): {"content": token, "special": True} for place, token in enumerate(("[BOS]", "<|im_end|>"))}
    settings = {"tokenizer_class": "TikTokenTokenizer", "added_tokens_decoder": added, "eos_token": "<|im_end|>"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    return tmp_path


EMPTY_TEKKEN = b'{"config": {"pattern": "a", "default_vocab_size": 1, "default_num_special_tokens": 0}, "vocab": []}'


def texts() -> list[str]:
    dice = random.Random(3)
    alphabet = "abcXYZ \n\t.,'0189\u00e9\u4f60\u597d\U0001f600_-\"{}:"
    return [*TEXTS, *("".join(dice.choice(alphabet) for _ in range(dice.randrange(60))) for _ in range(200))]


def test_tekken_ids_are_tiktokens_behind_the_special_tokens(tekken: Path, ranks: dict[bytes, int]) -> None:
    tokenizer = load_model_files(tekken).tokenizer
    oracle = tiktoken.Encoding("oracle", pat_str=GPT_LIKE, mergeable_ranks=ranks, special_tokens={})
    for text in texts():
        ids = tokenizer.encode(text, added=False)
        assert ids == [rank + 8 for rank in oracle.encode_ordinary(text)]
        assert tokenizer.decode(ids) == text
    assert tokenizer.encode("[INST]a</s>", added=True)[::2] == [0, 2]
    assert 0 not in tokenizer.encode("[INST]", added=False)


def test_tiktoken_ids_are_tiktokens(kimi: Path, ranks: dict[bytes, int]) -> None:
    files = load_model_files(kimi)
    oracle = tiktoken.Encoding("oracle", pat_str=_KIMI, mergeable_ranks=ranks, special_tokens={})
    for text in texts():
        assert files.tokenizer.encode(text, added=False) == oracle.encode_ordinary(text), text
    assert files.tokenizer.control_tokens == {"[BOS]": len(ranks), "<|im_end|>": len(ranks) + 1}
    assert files.eos_ids == {len(ranks) + 1}


def test_both_kinds_can_be_cut_at_control_tokens(tekken: Path) -> None:
    tokenizer: Tokenizer = load_model_files(tekken).tokenizer
    assert tokenizer.splittable and tokenizer.note is None


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("tekken.json", b"{}", "cannot be read as a tekken"),
        (
            "tekken.json",
            b'{"config": {"pattern": "a", "default_vocab_size": 1, "default_num_special_tokens": 0}, "vocab": []}',
            "single bytes",
        ),
        ("tiktoken.model", b"YQ== 0\n", "class 'None'"),
    ],
)
def test_what_cannot_be_read_says_what_to_do(name: str, content: bytes, says: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ConfigError, match=says):
        load_model_files(tmp_path)
