"""Writes docs/explain.md from the causes: what each is called, what is said of it, and what to do.

usage: explain_table.py            writes the file
       explain_table.py --check    exit status 1 if the file is not what would be written
"""

import sys
from collections.abc import Iterable
from pathlib import Path

from antiphon.explain.advice import ADVICE
from antiphon.explain.causes import SENTENCES
from antiphon.explain.composition import PARTS

PAGE = Path(__file__).resolve().parent.parent / "docs" / "explain.md"
MEANINGS = {
    "system": "system and developer text at the head",
    "tools": "the list of tools, with what the template says around it",
    "user": "what the user said",
    "assistant": "what the model said to the user in past turns",
    "reasoning": "reasoning of past turns that stays in the prompt",
    "calls": "past calls, with the markers around them",
    "results": "results of tools",
    "opening": "the header of the turn to come, and what the template opens it with",
    "other": "what the template writes around all this, and what could not be found again for certain",
}
HEAD = """# Why did the cache miss?

Made by `make docs` from `antiphon.explain`; a test keeps it current.

An engine keeps what it has computed of a prompt, and a prompt that begins with the same tokens gets that part for nothing. The server
remembers the ids of all it sent for a key, sampled ones included, and the last request of each conversation, within `--compared-bytes`,
and compares. What it finds is told in these places:

* the header `x-antiphon-cache` of each answer: `prompt=` tokens, `expected=` tokens with which something began that was sent before for
  the same key, in whichever session; `lost=` tokens that the session's previous prompt and its output had and this prompt does not
  begin with, and `cause=` names with their places. No text. A prompt all of which was sent before, such as a request sent again, has
  lost nothing.
* the log, one line for each request with a cause;
* `/metrics`: `antiphon_cache_expected_tokens_total` against `antiphon_cache_hit_tokens_total`, `antiphon_replay_lost_tokens_total`, and
  `antiphon_cache_miss_causes_total` by cause; what the server holds for all this, in `antiphon_memory_bytes{what="compared"}`.
  `--no-enable-metrics` switches the route off;
* `antiphon explain`, a table of the latest requests with the cause of each; `--request ID` shows all of one: every cause with the line of
  either side, what to do, and what the prompt is made of;
* `GET /antiphon/explain?session=&request_id=&limit=`, the same as JSON.

Requests are told to the key they came with and to nobody else. A server without `--api-key` tells them only on its own machine.

Without a server, two saved request bodies and the model's files are enough:

```sh
antiphon explain --before a.json --after b.json --surface messages --model-path model.gguf
```

Both bodies are rendered and encoded as the server would with an empty memory; so a turn whose arguments were spelled anew shows up
here, and does not on a server that still knows the turn.

A place is `head`, for what has no message of its own (tools, thinking), or `message M.B line L`: message and block count from 0, system
text included, blocks of a past turn without its reasoning, lines from 1. Causes come in the order of the prompt. The first is where the
prompts part; the others would have cost the rest.

## Causes

"""
PARTS_HEAD = """
## Parts of a prompt

Tokens of a part, and how many of them were shared with the previous prompt and cached. The parts add up to the prompt.

"""


def page() -> str:
    """The text of docs/explain.md."""
    causes = ((f"`{code}`", sentence, ADVICE[code]) for code, sentence in SENTENCES.items())
    parts = ((f"`{name}`", MEANINGS[name]) for name in PARTS)
    return HEAD + table(("cause", "what is said", "what to do"), causes) + PARTS_HEAD + table(("part", "what"), parts)


def table(headings: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """A Markdown table."""
    lines = [headings, ("---",) * len(headings), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def main() -> None:
    """Writes the page, or with --check says whether it is current."""
    if "--check" in sys.argv[1:]:
        current = PAGE.is_file() and PAGE.read_text(encoding="utf-8") == page()
        sys.stdout.write("docs/explain.md is current.\n" if current else "docs/explain.md is not current: run `make docs`.\n")
        sys.exit(0 if current else 1)
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
