"""Whether a text matches an llguidance grammar, byte by byte, as the engine's own matcher sees it. Control tokens have ids of their own."""

import re
from collections.abc import Sequence

from llguidance import LLMatcher, LLTokenizer, TokenizerWrapper

END = "<|end_of_test|>"
_BYTES = [bytes([value]) for value in range(256)]


class _Vocabulary:
    """A token for each byte, one that ends a text, then control tokens."""

    bos_token_id = None

    def __init__(self, control: Sequence[str]) -> None:
        self.tokens = [*_BYTES, b"<eos>", *(token.encode() for token in control)]
        self.special_token_ids = list(range(256, len(self.tokens)))
        self.eos_token_id = 256

    def __call__(self, text: str | bytes) -> list[int]:
        return list(text.encode() if isinstance(text, str) else text)


class Reader:
    """Matches texts; every occurrence of a control token's spelling is the token."""

    def __init__(self, control: Sequence[str] = ()) -> None:
        known = (END, *control)
        self.tokens = {token: 257 + place for place, token in enumerate(known)}
        self._split = re.compile("(" + "|".join(map(re.escape, sorted(known, key=len, reverse=True))) + ")")
        self._tokenizer = LLTokenizer(TokenizerWrapper(_Vocabulary(known)), n_vocab=257 + len(known), slices=[])

    def ids(self, text: str) -> list[int]:
        """The text as tokens."""
        found: list[int] = []
        for piece in self._split.split(text):
            found += [self.tokens[piece]] if piece in self.tokens else piece.encode()
        return found

    def matcher(self, grammar: str) -> LLMatcher:
        """A fresh matcher; the grammar must be one."""
        matcher = LLMatcher(self._tokenizer, grammar, log_level=0)
        assert not matcher.is_error(), matcher.get_error()[:2000]
        return matcher

    def begins(self, grammar: str, text: str) -> bool:
        """Whether the text is the beginning of a match."""
        matcher, ids = self.matcher(grammar), self.ids(text)
        taken = matcher.try_consume_tokens(ids)
        assert not matcher.is_error(), matcher.get_error()[:2000]
        return taken == len(ids)

    def accepts(self, grammar: str, text: str) -> bool:
        """Whether the whole text matches."""
        matcher, ids = self.matcher(grammar), self.ids(text)
        taken = matcher.try_consume_tokens(ids)
        assert not matcher.is_error(), matcher.get_error()[:2000]
        return taken == len(ids) and matcher.is_accepting()
