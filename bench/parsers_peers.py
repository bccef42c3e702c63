"""Parser CPU of every family that agents' models speak, next to the Python parsers of two other servers.

usage: python -m bench.parsers_peers [FOLDER] [--json FILE]   (`make bench-parsers`; FOLDER is what scripts/peer_parsers.sh made)

One tool call with one long string argument, fed in deltas of four characters and in deltas of one token of the default model. The
peers' parsers run in a process and an environment of their own (`peer_runner.py`), on the same deltas.
"""

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal

import msgspec

from antiphon.engines.default_model import default_model_path
from antiphon_tokenizers import Detokenizer, Tokenizer, load_model_files
from bench.measure import BenchError, middle, table, this_machine
from bench.parsers import TOOL, call_text, feed_seconds, format_of, in_fours, source_text

Peer = Literal["vllm", "sglang"]
PEERS: dict[Peer, str] = {"vllm": "vLLM 0.33.0", "sglang": "SGLang 0.5.23"}
# Ours, then the peers' names of the same grammar.
FAMILIES: dict[str, dict[Peer, str]] = {
    "hermes": {"vllm": "hermes", "sglang": "hermes"},
    "qwen3_coder": {"vllm": "qwen3_coder", "sglang": "qwen3_coder"},
    "glm47": {"vllm": "glm47", "sglang": "glm47"},
    "deepseek_v3_2": {"vllm": "deepseek_v32", "sglang": "deepseekv32"},
    "deepseek_v4": {"vllm": "deepseek_v4", "sglang": "deepseekv4"},
    "deepseek_v41": {"vllm": "deepseek_v41", "sglang": "deepseekv41"},
    "kimi_k2": {"vllm": "kimi_k2", "sglang": "kimi_k2"},
    "kimi_k3": {"vllm": "kimi_k3", "sglang": "kimi_k3"},
    "minimax_m2": {"vllm": "minimax_m2", "sglang": "minimax-m2"},
    "minimax_m3": {"vllm": "minimax_m3", "sglang": "minimax-m3"},
    "harmony": {"sglang": "gpt-oss"},
    "gemma4": {"vllm": "gemma4", "sglang": "gemma4"},
    "mistral": {"vllm": "mistral", "sglang": "mistral"},
}
NOT_RUN = "harmony, vLLM 0.33.0: not run: its parser takes token ids only, by the vocabulary file of a library it gets from its engine"
SIZES = (2_048, 8_192)
LONG = 65_536
"""Ours alone: some of the peers' parsers take minutes for it."""
TARGET_US = 5.0


@cache
def _tokenizer() -> Tokenizer:
    return load_model_files(default_model_path()).tokenizer


def in_tokens(text: str) -> list[str]:
    """The text in deltas of one token of the default model; a token that ends within a character comes with the next."""
    detokenizer = Detokenizer(_tokenizer())
    pieces = [detokenizer.push(token) for token in _tokenizer().encode(text, added=False)]
    return [piece for piece in (*pieces, detokenizer.flush()) if piece]


CUTS: dict[str, Callable[[str], list[str]]] = {"4 characters": in_fours, "1 token": in_tokens}


class PeerFigure(msgspec.Struct, frozen=True, kw_only=True):
    """Medians of CPU microseconds per delta. A peer's entry is a figure, or what went wrong in words."""

    family: str
    cut: str
    characters: int
    deltas: int
    ours: float
    peers: dict[str, float | str]


def file_text(size: int) -> str:
    """Text like a source file without white space at its ends, which not every parser keeps."""
    return f"# file\n{source_text(size - 12)}\n# end"


def job(family: str, content: str, cut: Callable[[str], list[str]], *, parser: str, repeats: int) -> dict[str, Any]:
    """One run of a peer: control tokens come whole, as its engine sends them, with ids of their own."""
    markers = format_of(family).family.markers
    vocab = {marker: number for number, marker in enumerate(dict.fromkeys(markers), 1000)}
    before, argument, after = call_text(family, content)
    head, tail = ([[piece, [vocab.get(piece, 1)]] for piece in _at_markers(text, markers)] for text in (before, after))
    body = [[piece, [1]] for piece in cut(argument)]
    return {"parser": parser, "deltas": head + body + tail, "head": len(head), "tail": len(tail), "vocab": vocab, "repeats": repeats}


def _at_markers(text: str, markers: Sequence[str]) -> list[str]:
    pattern = "|".join(map(re.escape, sorted(markers, key=len, reverse=True)))
    return [piece for piece in re.split(f"({pattern})", text) if piece]


def ask(peer: Peer, folder: Path, runs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """What a peer's parsers make of the runs. Raises BenchError when its process fails."""
    tool = {"type": "function", "function": {"name": TOOL.name, "parameters": json.loads(TOOL.parameters)}}
    runner = Path(__file__).with_name("peer_runner.py")
    done = subprocess.run(
        [folder / "venv/bin/python", runner, peer, folder / "unpacked"],
        input=json.dumps({"tool": tool, "runs": runs}),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise BenchError(f"{peer}: {done.stderr.strip().splitlines()[-1] if done.stderr.strip() else 'no answer'}")
    answers: list[dict[str, Any]] = json.loads(done.stdout)
    return answers


def verdict(answer: dict[str, Any], content: str) -> float | str:
    """The median, or what is wrong with the answer."""
    if "error" in answer:
        return str(answer["error"])
    try:
        right = json.loads(answer["arguments"]) == {"path": "a.py", "content": content}
    except json.JSONDecodeError:
        right = False
    return middle(answer["us"]) if right else "wrong arguments"


def peer_figures(
    folder: Path | None, *, families: Sequence[str] = tuple(FAMILIES), sizes: Sequence[int] = (*SIZES, LONG), repeats: int = 5
) -> list[PeerFigure]:
    """Every family in both cuts at every size; without a folder, ours alone."""
    asked = [(family, size, name) for family in families for size in sizes for name in CUTS]
    contents = {size: file_text(size) for size in sizes}
    found: dict[tuple[str, int, str], dict[str, float | str]] = {key: {} for key in asked}
    for peer in PEERS if folder is not None else ():
        keys = [key for key in asked if peer in FAMILIES[key[0]] and key[1] < LONG]
        runs = [job(family, contents[size], CUTS[cut], parser=FAMILIES[family][peer], repeats=repeats) for family, size, cut in keys]
        for key, answer in zip(keys, ask(peer, folder, runs) if folder else (), strict=True):
            found[key][peer] = verdict(answer, contents[key[1]])
    figures = []
    for family, size, cut in asked:
        spent = [feed_seconds(family, contents[size], CUTS[cut]) for _ in range(repeats)]
        ours = middle(seconds / deltas * 1e6 for seconds, deltas in spent)
        peers = found[family, size, cut]
        figures.append(PeerFigure(family=family, cut=cut, characters=size, deltas=spent[0][1], ours=ours, peers=peers))
    return figures


def peer_table(figures: Sequence[PeerFigure]) -> str:
    """The figures as text; what went wrong stands below."""
    head = ["family", "cut", "characters", "us per delta", "us per character", *PEERS.values(), f"<= {TARGET_US:.0f} us", "faster by"]
    rows, notes = [], []
    for figure in figures:
        taken = [value for value in figure.peers.values() if isinstance(value, float)]
        peers = [value if isinstance(value, float) else "-" for value in (figure.peers.get(peer, "-") for peer in PEERS)]
        notes += [f"{figure.family}, {PEERS[peer]}: {figure.peers[peer]}" for peer in PEERS if isinstance(figure.peers.get(peer), str)]
        notes += [NOT_RUN] if figure.family == "harmony" and taken else []
        each = figure.ours * figure.deltas / figure.characters
        factor = f"{min(taken) / figure.ours:.1f}" if taken else "-"
        met = "yes" if figure.ours <= TARGET_US else "no"
        rows.append([figure.family, figure.cut, figure.characters, figure.ours, each, *peers, met, factor])
    return "\n".join([table(head, rows), *(f"\n{note}" for note in dict.fromkeys(notes))])


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the table. Returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m bench.parsers_peers", description="Parser CPU next to other servers' parsers.")
    parser.add_argument("folder", type=Path, nargs="?", help="what scripts/peer_parsers.sh made; without it, our figures alone")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures to FILE")
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args(arguments)
    machine = this_machine()
    try:
        figures = peer_figures(options.folder, repeats=options.repeats)
    except BenchError as error:
        sys.stderr.write(f"bench: {error}\n")
        return 1
    sys.stdout.write(f"{machine}\n\nParser CPU, medians\n\n{peer_table(figures)}\n")
    if options.json is not None:
        options.json.write_bytes(msgspec.json.format(msgspec.json.encode({"machine": machine, "figures": figures})) + b"\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
