"""Tokenizers that come as a table of byte strings by rank: tiktoken files and Mistral's tekken.json. Both are byte-pair encodings
whose merges follow from the ranks: the pair of neighbours whose concatenation has the lowest rank is joined first.

Sources: the file formats as published with tiktoken (one `base64 rank` a line) and mistral-common (tekken.json, versions 3 to 13).
"""

import base64
import binascii
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from tokenizers import AddedToken, Regex, decoders, models, pre_tokenizers
from tokenizers import Tokenizer as FastTokenizer

from antiphon_tokenizers.bytelevel import bytes_to_token
from antiphon_turns.errors import ConfigError

_HAN = r"[\p{Han}]+"
_SUFFIX = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
_UPPER = r"\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]"
_LOWER = r"\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]"
# Words of either case without Han characters, which stand by themselves; numbers in threes. Published with Kimi K2.
_KIMI = "|".join(
    (
        _HAN,
        rf"[^\r\n\p{{L}}\p{{N}}]?[{_UPPER}]*[{_LOWER}]+{_SUFFIX}",
        rf"[^\r\n\p{{L}}\p{{N}}]?[{_UPPER}]+[{_LOWER}]*{_SUFFIX}",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    )
)
# tiktoken files say nothing about how text is split; the tokenizer's class in tokenizer_config.json does.
_PATTERNS = {"TikTokenTokenizer": _KIMI}


class _Tekken(msgspec.Struct, frozen=True):
    class Entry(msgspec.Struct, frozen=True):
        rank: int
        token_bytes: str

    class Special(msgspec.Struct, frozen=True):
        rank: int
        token_str: str

    class Settings(msgspec.Struct, frozen=True):
        pattern: str
        default_vocab_size: int
        default_num_special_tokens: int

    config: Settings
    vocab: list[Entry]
    special_tokens: list[Special] | None = None


# Files of the first versions do not list their special tokens. Published with mistral-common for tokenizer version 3.
_TEKKEN_SPECIAL = (
    "<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[TOOL_RESULTS]", "[/TOOL_RESULTS]",
    "[TOOL_CALLS]", "[IMG]", "<pad>", "[IMG_BREAK]", "[IMG_END]", "[PREFIX]", "[MIDDLE]", "[SUFFIX]",
)  # fmt: skip


def read_tekken(path: Path) -> FastTokenizer:
    """The tokenizer of a tekken.json. Special tokens have the first ids. Raises ConfigError."""
    try:
        found = msgspec.json.decode(path.read_bytes(), type=_Tekken)
        size = found.config.default_vocab_size - found.config.default_num_special_tokens
        ranks = {base64.b64decode(entry.token_bytes): entry.rank for entry in found.vocab[:size]}
    except (OSError, msgspec.DecodeError, binascii.Error, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read as a tekken tokenizer: {error}; download it again") from error
    count = found.config.default_num_special_tokens
    special = {f"<SPECIAL_{index}>": index for index in range(count)}
    named = {token.token_str: token.rank for token in found.special_tokens or ()} or {t: i for i, t in enumerate(_TEKKEN_SPECIAL)}
    taken = set(named.values())
    special = {token: index for token, index in special.items() if index not in taken}
    ids = {token: rank + count for token, rank in ranks.items()}
    return build(ids, found.config.pattern, {**special, **named}, path)


def read_tiktoken(path: Path, settings: Mapping[str, Any]) -> FastTokenizer:
    """The tokenizer of a tiktoken file, with `settings` of the tokenizer_config.json beside it, which name special tokens and,
    by the tokenizer's class, the split. Raises ConfigError."""
    kind = str(settings.get("tokenizer_class"))
    pattern = _PATTERNS.get(kind)
    if pattern is None:
        raise ConfigError(
            f"{path} needs the rule by which text is split, and none is known here for the tokenizer class {kind!r} (known:"
            f" {', '.join(_PATTERNS)}); put the model's tokenizer.json into the folder"
        )
    try:
        lines = [line.split() for line in path.read_bytes().splitlines() if line.strip()]
        ids = {base64.b64decode(token): int(rank) for token, rank in lines}
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} cannot be read as a tiktoken file: {error}; download it again") from error
    added = settings.get("added_tokens_decoder")
    entries = added.items() if isinstance(added, dict) else ()
    special = {
        entry["content"]: int(index) for index, entry in entries if isinstance(entry, dict) and index.isdigit() and "content" in entry
    }
    return build(ids, pattern, special, path)


def build(ids: Mapping[bytes, int], pattern: str, special: Mapping[str, int], path: Path) -> FastTokenizer:
    """A tokenizer of byte strings whose ids rise with their rank. Raises ConfigError when a byte is missing."""
    if any(bytes([byte]) not in ids for byte in range(256)):
        raise ConfigError(f"{path}: the vocabulary lacks single bytes, so it is not a whole table; download it again")
    vocabulary = {bytes_to_token(token): index for token, index in ids.items()}
    vocabulary.update(special)
    built = FastTokenizer(models.BPE(vocab=vocabulary, merges=_merges(ids), ignore_merges=True))
    split = pre_tokenizers.Split(Regex(pattern), behavior="isolated")
    built.pre_tokenizer = pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    built.decoder = decoders.ByteLevel()
    built.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in special])
    return built


def _merges(ids: Mapping[bytes, int]) -> list[tuple[str, str]]:
    """Every pair that makes a token, in the order of the tokens' ranks."""
    found: list[tuple[int, int, int, bytes, bytes]] = []
    for token, rank in ids.items():
        for cut in range(1, len(token)):
            left, right = token[:cut], token[cut:]
            if left in ids and right in ids:
                found.append((rank, ids[left], ids[right], left, right))
    found.sort()
    return [(bytes_to_token(left), bytes_to_token(right)) for *_, left, right in found]
