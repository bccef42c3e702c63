"""From token ids to text, one at a time."""

import codecs

from antiphon_tokenizers.tokenizer import Tokenizer


class Detokenizer:
    """Turns ids into text as they come. No broken UTF-8 leaves it: bytes of an unfinished character wait for the
    next token, and become U+FFFD only when they can no longer be completed. Special tokens are visible. Whatever
    the ids, the joined output equals `Tokenizer.decode` of all of them. O(1) per token; never raises.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._token_text = tokenizer.token_text
        self._token_bytes = tokenizer.token_bytes
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._pending = False

    def push(self, token_id: int) -> str:
        """The text that is certain after this token; "" while a character is incomplete."""
        if not self._pending:
            text = self._token_text(token_id)
            if text is not None:
                return text
        text = self._decoder.decode(self._token_bytes(token_id))
        self._pending = bool(self._decoder.getstate()[0])
        return text

    def flush(self) -> str:
        """What is left at the end: U+FFFD for an unfinished character, else ""."""
        self._pending = False
        return self._decoder.decode(b"", final=True)
