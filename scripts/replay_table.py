"""Tokens lost per turn and client, from token traces. usage: python scripts/replay_table.py FOLDER ...

Each folder holds `trace.jsonl` (one line a request, in the order they ended) and `parts.txt` (client, first line, last line). A request
belongs to a client's main line when its prompt offers tools; titles and other side requests offer none, or go on from nothing and
are followed by nothing. Exit status 1 if a token of a main line is lost.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from antiphon.engines.default_model import default_model_path
from antiphon_tokenizers import Tokenizer, load_model_files

OFFERS_TOOLS = "Tools you may call:"


class Row(NamedTuple):
    """One turn of one client. `lost`: tokens of the turn before, prompt and output, that this prompt does not begin with; None in a
    first turn and in a side request. `around`: the text where it left."""

    client: str
    turn: str
    prompt: int
    output: int
    lost: int | None
    around: str = ""


def shared(one: Sequence[int], other: Sequence[int]) -> int:
    """How far two prompts are the same."""
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def rows_of(client: str, records: Sequence[dict[str, Any]], tokenizer: Tokenizer) -> Iterator[Row]:
    """The rows of one client's session, side requests last."""
    main, side = [], []
    for record in records:
        (main if OFFERS_TOOLS in tokenizer.decode(record["prompt_ids"][:64]) else side).append(record)
    for number, record in enumerate(main, 1):
        if number == 1:
            yield Row(client, "1", len(record["prompt_ids"]), len(record["output_ids"]), None)
    for number, (before, after) in enumerate(pairwise(main), 2):
        held, prompt = [*before["prompt_ids"], *before["output_ids"]], after["prompt_ids"]
        at = shared(held, prompt)
        around = "" if at == len(held) else f"held {tokenizer.decode(held[at : at + 8])!r}, sent {tokenizer.decode(prompt[at : at + 8])!r}"
        yield Row(client, str(number), len(prompt), len(after["output_ids"]), len(held) - at, around)
    for record in side:
        yield Row(client, "side", len(record["prompt_ids"]), len(record["output_ids"]), None)


def main() -> None:
    """Prints the table."""
    tokenizer = load_model_files(default_model_path()).tokenizer
    lost = turns = 0
    sys.stdout.write(f"{'SCRIPT':<28} {'CLIENT':<26} {'TURN':<5} {'PROMPT':>7} {'OUTPUT':>7} {'LOST':>6}\n")
    for folder in map(Path, sys.argv[1:]):
        lines = (folder / "trace.jsonl").read_text(encoding="utf-8").splitlines()
        for part in (folder / "parts.txt").read_text(encoding="utf-8").splitlines():
            client, first, last = part.split()
            records = [json.loads(line) for line in lines[int(first) : int(last)]]
            for row in rows_of(client, records, tokenizer):
                shown = "-" if row.lost is None else str(row.lost)
                sys.stdout.write(f"{folder.name:<28} {client:<26} {row.turn:<5} {row.prompt:>7} {row.output:>7} {shown:>6}  {row.around}\n")
                lost += row.lost or 0
                turns += row.lost is not None
    sys.stdout.write(f"replay: {lost} tokens lost in {turns} turns that go on from another\n")
    sys.exit(1 if lost or not turns else 0)


if __name__ == "__main__":
    main()
