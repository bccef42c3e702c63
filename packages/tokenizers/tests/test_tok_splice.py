"""Where a past turn is found in a rendered prompt."""

import pytest

from antiphon_tokenizers.splice import splice
from antiphon_turns import Frame

CHATML = Frame(assistant_header="<|im_start|>assistant\n", end_of_turn="<|im_end|>", stop_tokens=("<|im_end|>", "<|endoftext|>"))
NEXT_SPEAKER = Frame(assistant_header="<|assistant|>", end_of_turn="<|user|>", stop_tokens=("<|user|>", "<|observation|>"))


@pytest.mark.parametrize(
    ("frame", "rendered", "spliced"),
    [
        (CHATML, "<|im_start|>assistant\nX S1 Y<|im_end|>\n", "<|im_start|>assistant\nT1<|im_end|>\n"),
        (NEXT_SPEAKER, "<|user|>a<|assistant|>S1<|observation|>b<|assistant|>S2<|user|>c<|assistant|>",
         "<|user|>a<|assistant|>T1<|observation|>b<|assistant|>T2<|user|>c<|assistant|>"),
    ],
)  # fmt: skip
def test_a_turn_ends_at_any_token_that_ends_generation(frame: Frame, rendered: str, spliced: str) -> None:
    found = splice(rendered, {"S1": "T1", **({"S2": "T2"} if "S2" in rendered else {})}, frame)
    assert found.text == spliced and not found.missing
    assert spliced[: found.end].endswith("T2" if "S2" in rendered else "T1")


def test_a_turn_that_brings_its_own_end_replaces_the_frame_s() -> None:
    frame = Frame(assistant_header="<|start|>assistant", end_of_turn="<|end|>", stop_tokens=("<|return|>", "<|call|>"))
    rendered = "<|start|>assistant<|channel|>final<|message|>S1<|end|><|start|>functions.f"
    assert splice(rendered, {"S1": "a<|call|>"}, frame).text == "<|start|>assistanta<|call|><|start|>functions.f"
    assert splice(rendered, {"S1": "a"}, frame).text == "<|start|>assistanta<|end|><|start|>functions.f"


def test_a_turn_without_an_end_stays() -> None:
    assert splice("<|assistant|>S1<|assistant|>S2<|user|>", {"S1": "T1"}, NEXT_SPEAKER).missing == {"S1"}
