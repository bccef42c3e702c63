"""Metadata of a GGUF file, and the tokenizer it describes.

Format: the GGUF specification of the ggml project, versions 2 and 3, little endian: magic, version, tensor
count, number of metadata pairs, then the pairs. Tensors are never touched.
"""

import mmap
import struct
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Regex, decoders, models, pre_tokenizers
from tokenizers import Tokenizer as FastTokenizer

from antiphon_turns.errors import ConfigError

_SCALARS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
_STRING, _ARRAY = 8, 9
_CONTROL, _USER_DEFINED = 3, 4
_LENGTH = struct.Struct("<Q")

_QWEN2_PATTERN = (
    r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"
    r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def read_metadata(path: Path) -> dict[str, Any]:
    """All metadata pairs. Raises ConfigError when the file cannot be read or is not a GGUF of a known version."""
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _Reader(data).metadata()
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error
    except (struct.error, KeyError, IndexError, OverflowError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is a damaged GGUF file; download it again") from error


class _Reader:
    def __init__(self, data: mmap.mmap) -> None:
        self._data = data
        self._at = 4

    def metadata(self) -> dict[str, Any]:
        if self._data[:4] != b"GGUF":
            raise ValueError("it does not begin like a GGUF file")
        version, _tensors, pairs = self._scalar("<I"), self._scalar("<Q"), self._scalar("<Q")
        if version not in (2, 3):
            raise ValueError(f"GGUF version {version} (or byte order) is not supported, only 2 and 3, little endian")
        found: dict[str, Any] = {}
        for _ in range(pairs):
            key = self._string()
            found[key] = self._value(self._scalar("<I"))
        return found

    def _scalar(self, form: str) -> Any:
        (value,) = struct.unpack_from(form, self._data, self._at)
        self._at += struct.calcsize(form)
        return value

    def _string(self) -> str:
        size = self._scalar("<Q")
        start, self._at = self._at, self._at + size
        if self._at > len(self._data):
            raise IndexError("a string runs past the end")
        return self._data[start : self._at].decode("utf-8")

    def _value(self, kind: int) -> Any:
        if kind == _STRING:
            return self._string()
        if kind == _ARRAY:
            item, count = self._scalar("<I"), self._scalar("<Q")
            if item == _STRING:
                return self._strings(count)
            if item == _ARRAY:
                return [self._value(_ARRAY) for _ in range(count)]
            form = f"<{count}{_SCALARS[item][1]}"
            values = struct.unpack_from(form, self._data, self._at)
            self._at += struct.calcsize(form)
            return list(values)
        return self._scalar(_SCALARS[kind])

    def _strings(self, count: int) -> list[str]:
        # The vocabulary: a hundred thousand small strings, so no call per string beyond these.
        data, at, unpack = self._data, self._at, _LENGTH.unpack_from
        values: list[str] = []
        for _ in range(count):
            (size,) = unpack(data, at)
            at += 8
            values.append(data[at : at + size].decode("utf-8"))
            at += size
        self._at = at
        return values


def _pre_tokenizer(name: str, path: Path) -> pre_tokenizers.PreTokenizer:
    """The split llama.cpp makes for `tokenizer.ggml.pre`; a wrong one would silently give other ids."""
    if name == "smollm":
        parts = [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
        return pre_tokenizers.Sequence(parts)
    if name == "qwen2":
        split = pre_tokenizers.Split(Regex(_QWEN2_PATTERN), behavior="isolated")
        return pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    if name == "gpt-2":
        return pre_tokenizers.ByteLevel(add_prefix_space=False)
    raise ConfigError(
        f"{path.name} uses the pre-tokenizer {name!r}, which is not known here (known: smollm, qwen2, gpt-2); "
        "give --model-path a folder with the model's tokenizer.json instead"
    )


def build_tokenizer(metadata: dict[str, Any], path: Path) -> FastTokenizer:
    """The byte-level BPE tokenizer a GGUF describes, with ids equal to llama.cpp's. Raises ConfigError for other kinds."""
    kind = metadata.get("tokenizer.ggml.model")
    if kind != "gpt2":
        raise ConfigError(
            f"{path.name} holds a tokenizer of kind {kind!r}; only byte-level BPE ('gpt2') is read from GGUF files; "
            "give --model-path a folder with the model's tokenizer.json instead"
        )
    tokens: list[str] = metadata.get("tokenizer.ggml.tokens") or []
    merges = [(left, right) for left, _, right in (merge.partition(" ") for merge in metadata.get("tokenizer.ggml.merges") or [])]
    if not tokens or not merges:
        raise ConfigError(f"{path.name} holds no vocabulary; it may be a part of a split file: name the first part")
    pre = _pre_tokenizer(metadata.get("tokenizer.ggml.pre", "default"), path)
    vocabulary = {token: index for index, token in enumerate(tokens)}
    if not all(left in vocabulary and right in vocabulary and left + right in vocabulary for left, right in merges):
        raise ConfigError(f"{path.name}: vocabulary and merges do not fit together; download the file again")
    built = FastTokenizer(models.BPE(vocab=vocabulary, merges=merges))
    built.pre_tokenizer = pre
    built.decoder = decoders.ByteLevel()
    types = metadata.get("tokenizer.ggml.token_type") or []
    control = [tokens[i] for i, kind in enumerate(types) if kind == _CONTROL]
    defined = [tokens[i] for i, kind in enumerate(types) if kind == _USER_DEFINED]
    built.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in control])
    built.add_tokens([AddedToken(text, special=False, normalized=False) for text in defined])
    return built
