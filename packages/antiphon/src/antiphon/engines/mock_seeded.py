"""A mock model whose next token follows from a seed and all it has read: an answer begun by one engine goes on in another of the same seed
as if nothing had happened, as it would with real weights and no randomness."""

from array import array
from collections.abc import Sequence

from xxhash import xxh3_64_intdigest

from antiphon.engines.mock_script import Spoken
from antiphon_tokenizers import Tokenizer
from antiphon_turns.errors import ConfigError

# What a token depends on, beside its place.
_READ_TOKENS = 32
LONGEST = 16_384
_WORDS = (
    "the of and to in is that it was for on are as with his they at be this from have or by one had not but what all were when we there"
    " can an your which their said if do will each about how up out them then she many some so these would other into has more her two"
    " like him see time could no make than first been its who now people my made over did down only way find use may water long little"
)


class Seeded:
    """Says plain words until its limit, of at most `LONGEST` tokens; it never ends a turn. Raises ConfigError where the tokenizer has too
    few words in one token."""

    def __init__(self, tokenizer: Tokenizer, seed: int) -> None:
        encoded = [tokenizer.encode(f" {word}", added=False) for word in _WORDS.split()]
        self._words = [ids[0] for ids in encoded if len(ids) == 1]
        self._seed = seed
        if len(self._words) < 2:
            raise ConfigError("--mock-seed needs a tokenizer that has common words as tokens of their own; this one has none")

    def speak(self, prompt_ids: Sequence[int], max_tokens: int) -> Spoken:
        """The answer, always of full length."""
        max_tokens = min(max_tokens, LONGEST)
        read = array("I", prompt_ids[-_READ_TOKENS:])
        words, ids = self._words, []
        for place in range(len(prompt_ids), len(prompt_ids) + max_tokens):
            ids.append(words[xxh3_64_intdigest(memoryview(read[-_READ_TOKENS:]).cast("B"), seed=self._seed + place) % len(words)])
            read.append(ids[-1])
        return Spoken(ids, "length")
