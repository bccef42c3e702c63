"""A model's tokenizer, with the one distinction prompts need: control tokens and text.

Control tokens are the added tokens of the model, white-space runs aside. Text is encoded by a twin that does
not know them, so no text can become a control token (I13).
"""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from types import MappingProxyType
from typing import Any

from tokenizers import AddedToken
from tokenizers import Tokenizer as FastTokenizer

from antiphon_tokenizers.bytelevel import token_to_bytes
from antiphon_tokenizers.runcache import RunCache
from antiphon_tokenizers.tries import alternation

_CHUNK = 32_768
_FORCED_CHUNK = 262_144
# A word cut in two costs its encoding a few tokens more.
_SEAM = 4
# Places where every byte-level pre-tokenizer in use starts a new word, and ends one even at the end of a text:
# behind a newline that is the only white space; and before the single space between two Latin letters.
_SAFE_CUT = re.compile(r"(?<=\S)\n(?=[!-~])|[A-Za-z](?= [A-Za-z])")
_PROBES = (
    "def f(x):\n    return x+1  # twelve 12\n\n\tif  y:\r\n",
    " leading and trailing ",
    "\n\nÀ la carte: 中文，日本語。 🐉👩‍💻 e\u0301",
    "a  b   c\n d\n\n\n e",
    "1234567 3.14e10 'tis we'll",
    "a\r\nb \nc\n\nd;\ne\u3000\nf 1 g",
    ".",
    "\n",
    " ",
    "word",
)


class Tokenizer:
    """Wraps a Hugging Face `tokenizers` object. Encoding and decoding are safe to call from several threads.

    `splittable` says that encoding a prompt piece by piece between its control tokens gives the same ids as encoding
    it whole. It holds for byte-level BPE without a changing normalizer when every control token matches plainly
    (not normalized, no stripping, not word-bound); other kinds are compared on a probe corpus at construction and
    `note` says so when they differ. `cache` keeps the ids of runs across requests.
    """

    def __init__(self, fast: FastTokenizer, *, cache_bytes: int = 64 << 20) -> None:
        # Saved training settings: a prompt cut to 512 tokens in silence would be the worst of bugs.
        fast.no_truncation()
        fast.no_padding()
        self._fast = fast
        added = fast.get_added_tokens_decoder()
        self._added = {index: token.content for index, token in sorted(added.items())}
        self.added_tokens: Mapping[str, int] = MappingProxyType({text: index for index, text in self._added.items()})
        self.control_tokens: Mapping[str, int] = MappingProxyType(
            {text: index for text, index in self.added_tokens.items() if text.strip(" \t\r\n\v\f\u2581")}
        )
        self._control_ids = frozenset(self.control_tokens.values())
        self._control = re.compile(f"({alternation(self.control_tokens)})") if self.control_tokens else None
        self._twin = _twin(fast, [token for token in added.values() if token.content not in self.control_tokens])
        self._bytelevel = '"ByteLevel"' in _state(fast.decoder)
        self._bytes: dict[int, bytes] = {}
        self._texts: dict[int, str | None] = {}
        self.cache = RunCache(cache_bytes)
        normalizes = fast.normalizer is not None
        plain = all(_matches_plainly(token, normalizes=normalizes) for token in added.values() if token.content in self.control_tokens)
        self._longest = max(map(len, fast.get_vocab(with_added_tokens=False)), default=1)
        self._proved = plain and self._is_proved_kind()
        self.splittable = self._proved or (plain and self._probe_split())
        self.note = (
            None
            if self.splittable
            else ("this tokenizer gives other ids when a prompt is cut at its control tokens; prompts are encoded whole")
        )

    # -- ids and text ------------------------------------------------------------------------------------------

    @cached_property
    def vocab_size(self) -> int:
        """Number of ids, added tokens included; ids run from 0 to vocab_size - 1 unless the vocabulary has holes."""
        return self._fast.get_vocab_size(with_added_tokens=True)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over the vocabulary in id order and the added tokens with their flags, as 64 hex digits."""
        digest = hashlib.sha256()
        vocabulary = sorted((index, text) for text, index in self._fast.get_vocab(with_added_tokens=True).items())
        digest.update(json.dumps(vocabulary).encode())
        added = sorted(self._fast.get_added_tokens_decoder().items())
        flags = [(i, t.content, t.special, t.normalized, t.lstrip, t.rstrip, t.single_word) for i, t in added]
        digest.update(json.dumps(flags).encode())
        return digest.hexdigest()

    def id_of(self, token: str) -> int | None:
        """The id of an added token, or of a vocabulary entry in its own spelling; None when there is none."""
        found = self.added_tokens.get(token)
        return self._fast.token_to_id(token) if found is None else found

    def token_bytes(self, token_id: int) -> bytes:
        """The bytes an id stands for, special tokens visible. b"" for an id outside the vocabulary."""
        known = self._bytes.get(token_id)
        if known is None:
            known = self._bytes[token_id] = self._spell(token_id)
        return known

    def token_text(self, token_id: int) -> str | None:
        """The text of a token that is whole UTF-8 by itself, else None."""
        try:
            return self._texts[token_id]
        except KeyError:
            pass
        try:
            text = self.token_bytes(token_id).decode("utf-8")
        except UnicodeDecodeError:
            text = None
        self._texts[token_id] = text
        return text

    def decode(self, ids: Iterable[int]) -> str:
        """The text of `ids`, special tokens visible, bytes that are no UTF-8 as U+FFFD."""
        return b"".join(map(self.token_bytes, ids)).decode("utf-8", "replace")

    def _spell(self, token_id: int) -> bytes:
        if token_id in self._added:
            return self._added[token_id].encode()
        token = self._fast.id_to_token(token_id) if 0 <= token_id < 1 << 32 else None
        return b"" if token is None else token_to_bytes(token, bytelevel=self._bytelevel)

    # -- encoding ----------------------------------------------------------------------------------------------

    def encode(self, text: str, *, added: bool) -> list[int]:
        """Ids of `text`. With `added` its control tokens are recognised; without, the text is never control.
        No begin-of-sequence token is put in front: templates write their own."""
        if added:
            return _ids(self._fast, text)
        ids: list[int] = []
        for part in self.encode_steps(text):
            ids += part
        return ids

    def encode_steps(self, text: str) -> Iterator[list[int]]:
        """`encode(text, added=False)` in consecutive parts of bounded size, for callers that stop early.

        Parts end where the pre-tokenizer starts a new word anyway. A stretch of 262,144 characters without such a
        place is cut there, which can differ from whole encoding by the tokens at the cut.
        """
        if not self._proved or len(text) <= _CHUNK:
            yield self._encode_text(text)
            return
        start = 0
        while start < len(text):
            end = _cut_after(text, start)
            yield self._encode_text(text[start:end])
            start = end

    def token_floor(self, characters: int) -> int:
        """A number of tokens that so many characters of text cannot undercut; 0 where nothing is known."""
        return characters // self._longest if self._proved else 0

    def rough_floor(self, text: str, ceiling: int) -> int:
        """About how many tokens `text` has at least, counted in parts, and no further than past `ceiling`. For
        tokenizers whose `encode_steps` are not bounded."""
        if self._proved:
            return 0
        count = 0
        for start in range(0, len(text), _CHUNK):
            count += max(0, len(self._encode_text(text[start : start + _CHUNK])) - _SEAM)
            if count > ceiling:
                break
        return count

    def split(self, text: str) -> list[str]:
        """Cuts `text` at its control tokens: even indices are text, odd ones control tokens."""
        return self._control.split(text) if self._control is not None else [text]

    def _encode_text(self, text: str) -> list[int]:
        ids = _ids(self._twin, text)
        # A model vocabulary may hold a control token's spelling as an ordinary piece.
        if self._control is None or self._control_ids.isdisjoint(ids):
            return ids
        pieces = self._control.split(text)
        if len(pieces) == 1:
            return [i for char in text for i in _ids(self._twin, char) if i not in self._control_ids]
        parts = [pieces[0]]
        for control, run in zip(pieces[1::2], pieces[2::2], strict=True):
            parts[-1] += control[0]
            parts.append(control[1:] + run)
        return [i for part in parts for i in _ids(self._twin, part) if i not in self._control_ids]

    # -- what kind of tokenizer ----------------------------------------------------------------------------------

    def _is_proved_kind(self) -> bool:
        normalizer = _state(self._fast.normalizer)
        pre = json.loads(_state(self._fast.pre_tokenizer) or "{}")
        steps = pre.get("pretokenizers", [pre]) if isinstance(pre, dict) else []
        kinds = [step.get("type") for step in steps]
        if not kinds or kinds[-1] != "ByteLevel" or not set(kinds) <= {"ByteLevel", "Split", "Digits"}:
            return False
        if any(step.get("add_prefix_space") for step in steps) or normalizer not in ("", '{"type":"NFC"}'):
            return False
        return all(self._cuts_agree(probe) for probe in _PROBES)

    def _cuts_agree(self, text: str) -> bool:
        parts = _SAFE_CUT.sub(lambda found: found[0] + "\0", text).split("\0")
        return [i for part in parts for i in _ids(self._twin, part)] == _ids(self._twin, text)

    def _probe_split(self) -> bool:
        controls = list(self.control_tokens.items())[:4]
        for text, index in controls:
            for before in _PROBES:
                for after in _PROBES:
                    pieces = [*_ids(self._twin, before), index, *_ids(self._twin, after)]
                    if pieces != _ids(self._fast, before + text + after):
                        return False
        return True


def _ids(fast: FastTokenizer, text: str) -> list[int]:
    # The "fast" form leaves offsets out, a third of the time. It exists for batches only.
    if not text:
        return []
    try:
        return list(fast.encode_batch_fast([text], add_special_tokens=False)[0].ids)
    except (TypeError, UnicodeEncodeError):
        # Half a surrogate pair, from a JSON escape: the library takes such a string for no string at all.
        return _ids(fast, text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))


def _state(part: Any) -> str:
    """The JSON a tokenizer component serialises to; "" for none."""
    return "" if part is None else part.__getstate__().decode()


def _matches_plainly(token: AddedToken, *, normalizes: bool) -> bool:
    return not ((token.normalized and normalizes) or token.lstrip or token.rstrip or token.single_word)


def _twin(fast: FastTokenizer, kept: list[AddedToken]) -> FastTokenizer:
    """The same model and splits without control tokens. The vocabulary is shared, not copied."""
    twin = FastTokenizer(fast.model)
    if fast.normalizer is not None:
        twin.normalizer = fast.normalizer
    if fast.pre_tokenizer is not None:
        twin.pre_tokenizer = fast.pre_tokenizer
    twin.add_tokens([token for token in kept if fast.model.token_to_id(token.content) is not None])
    return twin


def _cut_after(text: str, start: int) -> int:
    """End of the part that begins at `start`: the first safe place behind _CHUNK characters."""
    if len(text) - start <= _CHUNK:
        return len(text)
    found = _SAFE_CUT.search(text, start + _CHUNK, min(start + _FORCED_CHUNK, len(text)) + 2)
    return found.end() if found is not None else min(start + _FORCED_CHUNK, len(text))
