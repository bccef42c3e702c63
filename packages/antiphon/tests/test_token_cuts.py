"""Every handed parser case and field report, cut where the default model's tokenizer cuts its text."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from antiphon.engines.default_model import default_model_path
from antiphon_tokenizers import Detokenizer, Tokenizer, load_model_files

PARSER_TESTS = Path(__file__).parents[2] / "parsers" / "tests"


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return load_model_files(default_model_path()).tokenizer


@pytest.fixture(scope="module")
def harness() -> Iterator[Any]:
    """The parser tests' own harness and cases."""
    sys.path.insert(0, str(PARSER_TESTS))
    yield importlib.import_module("parser_harness"), importlib.import_module("parser_cases")
    sys.path.remove(str(PARSER_TESTS))


def pieces_of(tokenizer: Tokenizer, text: str) -> list[tuple[str, tuple[int, ...]]]:
    """The text by tokens: each delta with the ids that end in it."""
    detokenizer, pieces, waiting = Detokenizer(tokenizer), [], ()
    for token in tokenizer.encode(text, added=True):
        piece, waiting = detokenizer.push(token), (*waiting, token)
        if piece:
            pieces.append((piece, waiting))
            waiting = ()
    rest = detokenizer.flush()
    return [*pieces, (rest, waiting)] if rest else pieces


def test_a_cut_at_tokens_changes_nothing(tokenizer: Tokenizer, harness: Any) -> None:
    runs, cases = harness
    for case in cases.ALL:
        pieces = pieces_of(tokenizer, case.text)
        assert "".join(text for text, _ in pieces) == case.text
        whole, _ = runs.run(case.grammar, case.tools, [case.text], opening=case.opening, finish=case.finish)
        events, parser = runs.run(case.grammar, case.tools, [text for text, _ in pieces], opening=case.opening, finish=case.finish)
        assert runs.joined(events) == runs.joined(whole), case.name
        cases.check(case.expect, runs.segments_of(events))
        assert parser.incomplete == bool(case.expect.get("incomplete")), case.name
    assert len(cases.ALL) > 200


def test_every_token_belongs_to_one_segment_or_to_what_follows_the_last(tokenizer: Tokenizer, harness: Any) -> None:
    runs, cases = harness
    for case in cases.ALL:
        parser = runs.Parser(case.grammar, tools=case.tools, opening=case.opening, turn_tag=runs.TAG)
        pieces = pieces_of(tokenizer, case.text)
        events = [event for text, ids in pieces for event in parser.feed(text, ids)] + parser.finish(case.finish)
        counts = [event.tokens for event in events if isinstance(event, runs.SegmentEnd)]
        assert sum(counts) <= sum(len(ids) for _, ids in pieces), case.name
        assert all(count > 0 for count in counts), case.name
