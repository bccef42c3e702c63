"""Whether an engine and its frontend mean the same tokens: a probe text must give the same ids on both sides."""

from collections.abc import Sequence

from antiphon_tokenizers import Tokenizer
from antiphon_turns.errors import ConfigError

PROBE = (
    "def area(width, height):\n    return width * height  # 12 + 345 = 357\n\n"
    "\tLe c\u0153ur d\u00e9\u00e7u mais l'\u00e2me plut\u00f4t na\u00efve; "
    '\u4e2d\u6587\u3001\u65e5\u672c\u8a9e \U0001f409 e\u0301  \r\n  x == y -> {"a": [1, 2.50, null]}'
)


def own_ids(tokenizer: Tokenizer) -> list[int]:
    """The probe by the frontend's tokenizer: the text, and the model's control tokens behind it."""
    return tokenizer.encode(probe_text(tokenizer), added=True)


def probe_text(tokenizer: Tokenizer) -> str:
    """The probe for a model: text first, then up to eight of its control tokens."""
    return PROBE + "".join(sorted(tokenizer.control_tokens)[:8])


def check_ids(ours: Sequence[int], theirs: Sequence[int], *, where: str, model: str) -> None:
    """Raises ConfigError, with the first difference, unless the ids are the same."""
    if list(ours) == list(theirs):
        return
    at = next((place for place, (one, other) in enumerate(zip(ours, theirs, strict=False)) if one != other), min(len(ours), len(theirs)))
    found = ["nothing" if at >= len(ids) else str(ids[at]) for ids in (ours, theirs)]
    raise ConfigError(
        f"the worker at {where} serves {model!r} with another tokenizer: at token {at} of a probe text it has {found[1]}, this frontend"
        f" {found[0]}. Give the frontend's --model-path the tokenizer of the model that the worker serves"
    )
