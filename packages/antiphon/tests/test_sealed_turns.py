"""Which ids a turn's seals hold: all that was sampled up to the reasoning's closing marker, nothing after it."""

import os
from importlib.resources import files as package_files

import pytest

from antiphon.decode import TurnDecoder
from antiphon.engines.default_model import default_model_path
from antiphon.model import ModelChoice, load_mock_model
from antiphon.pipeline import binding_of
from antiphon.seals import SealKey, Seals, TurnSealer
from antiphon_turns import SegmentEnd, TurnRequest, UserMessage
from antiphon_turns.request import Tool

TAG = "abcdefghijklmn23"
CALL = "<tool_call>\n<function=Bash>\n<parameter=command>\necho {}\n</parameter>\n</function>\n</tool_call>"
REQUEST = TurnRequest(
    surface="messages",
    model="antiphon-mock",
    messages=(UserMessage("go"),),
    tools=(Tool(name="Bash", parameters='{"type":"object","properties":{"command":{"type":"string"}},"required":["command"]}'),),
)


@pytest.fixture(scope="module")
def model():
    template = (package_files("antiphon.engines") / "mock_template.jinja").read_text("utf-8")
    return load_mock_model(ModelChoice(path=default_model_path()), template)


def seals_of(model, say, *, chunk=1, finish="stop", stray=None):
    """The text of the ids in each seal of a turn, and the carriers."""
    sealer = TurnSealer(Seals([SealKey(bytes(32))], random_bytes=os.urandom), binding_of(model), "t")
    decoder = TurnDecoder(model, REQUEST, prompt_tokens=1, opening="<think>\n", turn_tag=TAG, sealer=sealer)
    token_ids = model.tokenizer.encode(say, added=True)
    if stray is not None:
        token_ids.insert(stray, next(iter(model.foreign_ids)))
    events = []
    for at in range(0, len(token_ids), chunk):
        events += decoder.feed(token_ids[at : at + chunk])
    events += decoder.finish(finish)
    carriers = [event.carrier for event in events if isinstance(event, SegmentEnd) and event.carrier]
    opened = [sealer.open(value) for value in carriers]
    return [model.tokenizer.decode(list(found.ids)) if found.ids is not None else found.reason for found in opened]


@pytest.mark.parametrize("chunk", [1, 5, 10_000])
@pytest.mark.parametrize(
    ("say", "seals"),
    [
        ("R1\n</think>\n\nT", ["R1\n</think>"]),
        (
            f"R1\n</think>\n\nT\n{CALL.format('A')}\n<think>\nR2\n</think>\n\nT2",
            ["R1\n</think>", f"\n\nT\n{CALL.format('A')}\n<think>\nR2\n</think>"],
        ),
        (f"R1\n{CALL.format('A')}", ["R1"]),
        ("<think>\n</think>\n\n<think>\nR\n</think>T", None),
        ("\n</think>\n\nonly text", []),
    ],
)
def test_seals_hold_what_was_sampled_up_to_the_closing_marker(model, say, seals, chunk):
    found = seals_of(model, say, chunk=chunk)
    if seals is None:
        assert say.startswith("".join(found))
        return
    assert len(found) == len(seals)
    for got, wanted in zip(found, seals, strict=True):
        # The token that ends a marker spelled as ordinary text may hold line feeds behind it.
        assert got.strip("\n") == wanted.strip("\n")
    assert say.startswith("".join(found))


def test_cut_reasoning_has_no_seal(model):
    assert seals_of(model, "R1 and then", finish="length") == ["unsealed"]
    assert seals_of(model, f"R1\n</think>\n\n{CALL.format('A')}\n<think>\nR2", finish="length") == ["R1\n</think>", "unsealed"]


def test_a_stray_control_token_is_not_sealed(model):
    assert [text.strip("\n") for text in seals_of(model, "R1 R2\n</think>\n\nT", stray=1)] == ["R1 R2\n</think>"]
