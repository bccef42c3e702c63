"""Reasoning that Chat clients keep in the content of past turns."""

import pytest

from antiphon.inline_reasoning import with_inline_reasoning
from antiphon_parsers import ReasoningMarkers
from antiphon_turns import AssistantMessage, CallSegment, ReasoningSegment, TextSegment, TurnRequest, UserMessage

OWN = ReasoningMarkers("[THINK]", "[/THINK]")
WORDS = ReasoningMarkers("Here is my thought process:", "Here is my response:", words=True)


def read(*segments, markers=OWN, surface="chat"):
    request = TurnRequest(surface=surface, model="m", messages=(UserMessage("q"), AssistantMessage(segments)))
    return with_inline_reasoning(request, markers).messages[1].segments


CALL = CallSegment("f", "{}", "c")
CASES = [
    ("family's own", "[THINK]\nwhy\n[/THINK]\n\nsaid", (ReasoningSegment("why"), TextSegment("said"))),
    ("common", "<think>why</think>said", (ReasoningSegment("why"), TextSegment("said"))),
    ("white space before", "\n <think>\nwhy\n</think>\n\nsaid", (ReasoningSegment("why"), TextSegment("said"))),
    ("nothing said", "<think>why</think>\n", (ReasoningSegment("why"),)),
    ("nothing thought", "<think>\n\n</think>\n\nsaid", (TextSegment("said"),)),
    ("closed twice", "<think>why</think>the tag </think> ends", (ReasoningSegment("why"), TextSegment("the tag </think> ends"))),
    ("never closed", "<think>why", (TextSegment("<think>why"),)),
    ("spoken of", "use <think>x</think>", (TextSegment("use <think>x</think>"),)),
    ("closer alone", "why</think>said", (TextSegment("why</think>said"),)),
]


@pytest.mark.parametrize(("text", "segments"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_a_block_at_the_beginning_is_reasoning(text, segments):
    assert read(TextSegment(text)) == segments
    assert read(TextSegment(text), CALL) == (*segments, CALL)


def test_only_chat_and_only_where_no_field_brings_it():
    said = TextSegment("<think>why</think>said")
    assert read(said, surface="messages") == (said,)
    assert read(ReasoningSegment("r"), said) == (ReasoningSegment("r"), said)


def test_sentences_are_no_markers_of_a_client():
    said = TextSegment("Here is my thought process: a Here is my response: b")
    assert read(said, markers=WORDS) == (said,)
    assert read(TextSegment("<think>why</think>said"), markers=None) == (ReasoningSegment("why"), TextSegment("said"))


def test_it_reaches_the_prompt_as_reasoning(serve_mock):
    server = serve_mock()
    messages = [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "<think>\nwhy\n</think>\n\nsaid"},
        {"role": "user", "content": "b"},
    ]
    server.http.post("/v1/chat/completions", json={"model": "antiphon-mock", "messages": messages})
    tokenizer = server.pipeline.model.tokenizer
    assert "<think>\nwhy\n</think>\n\nsaid" in tokenizer.decode(server.traced()[-1]["prompt_ids"])
