"""I5, I10: against a live server the vendors' SDKs accumulate each stream into the unary body of the same turn."""

import json
import random

import anthropic
import msgspec
import openai
import pytest
from openai.lib.streaming.chat import ChatCompletionStreamState

from antiphon.config import Settings
from antiphon.serve import build
from antiphon_turns import CallSegment, ReasoningSegment, TextSegment, ids

MODEL = "antiphon-mock"
TURNS = 200
BASH = {"type": "object", "properties": {"command": {"type": "string"}, "limit": {"type": "integer"}}, "required": ["command"]}
NOW = {"type": "object", "properties": {}}
TOOLS = [{"name": "Bash", "input_schema": BASH}, {"name": "now", "input_schema": NOW}]
FUNCTIONS = [{"type": "function", "function": {"name": tool["name"], "parameters": tool["input_schema"]}} for tool in TOOLS]
WORDS = (
    "go",
    " on",
    " ",
    "\n",
    "\n\n",
    "é",
    "日本",
    "🎈",
    "<",
    "</",
    ">",
    "{",
    "}",
    '"',
    "\\",
    "&lt;",
    "tool_call",
    "`x`",
    "\t",
    "think",
    "0.5",
)

SHAPES = {
    "text": "T",
    "reasoning": "R",
    "reasoning, text": "RT",
    "one call": "RC",
    "a call alone": "C",
    "text, one call": "RTC",
    "two calls": "RTCC",
    "text between calls": "RCTC",
    "interleaved": "RCRTCRT",
    "call, text": "CT",
    "a cut call": "RTX",
    "a call, a cut call": "RCX",
    "a cut call alone": "X",
    "cut text": "RT!",
    "cut reasoning": "R!",
}


class Turn:
    """A generated turn: what the mock engine says, and the segments that must come out."""

    def __init__(self, number, shape, writer):
        draw = random.Random(f"{shape} {number}")
        self.shape = shape
        self.cut = shape[-1] in "!X"
        self.segments = []
        for kind in shape.rstrip("!"):
            self.segments.append({"T": self._text, "R": self._reasoning, "C": self._call, "X": self._call}[kind](draw))
        said = writer.write(self.segments)
        if shape.endswith("X"):
            start = said.rindex("<tool_call>") + len("<tool_call>")
            said = said[: draw.randint(start, said.rindex("</function>"))]
            self.segments.pop()
        if shape == "R!":
            said = said.removesuffix("\n</think>\n\n")
        # The prompt has opened the reasoning.
        opened = said.startswith("<think>\n")
        self.rule = {"when": rf"\(\(turn:{number}\)\)", "say": said.removeprefix("<think>\n") if opened else "\n</think>\n\n" + said}
        self.rule["finish"] = "length" if self.cut else "stop"
        self.prompt = f"((turn:{number}))"

    def _text(self, draw):
        return TextSegment(self._words(draw))

    def _reasoning(self, draw):
        return ReasoningSegment(self._words(draw))

    def _call(self, draw):
        if draw.random() < 0.2:
            return CallSegment("now", "{}")
        quoted = self._words(draw).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
        return CallSegment(
            "Bash", '{"command": "' + quoted + '"' + (f', "limit": {draw.randint(-9, 999)}' if draw.random() < 0.5 else "") + "}"
        )

    @staticmethod
    def _words(draw):
        # White space at the edges is framing or data by the neighbour; the parser's own tests cover it.
        return "go" + "".join(draw.choices(WORDS, k=draw.randint(0, 12))) + "."


@pytest.fixture(scope="module")
def turns():
    writer = build(Settings(engine="mock"))[0].format.writer
    shapes = list(SHAPES.values())
    return [Turn(number, shapes[number % len(shapes)], writer) for number in range(TURNS)]


@pytest.fixture(scope="module", params=[(1, "whole"), (7, "whole"), (2, "incremental")], ids=str)
def served(request, run_server, turns, tmp_path_factory):
    """A running server and the turns that its streams and bodies show alike: incremental streams close a cut call, bodies leave it out."""
    size, streaming = request.param
    script = tmp_path_factory.mktemp("live") / "script.jsonl"
    script.write_bytes(b"\n".join(msgspec.json.encode(turn.rule) for turn in turns))
    with run_server(
        Settings(engine="mock", http_port=0, mock_script=script, mock_cache_blocks=0, mock_chunk_tokens=size, argument_streaming=streaming)
    ) as running:
        yield running, [turn for turn in turns if streaming == "whole" or not turn.shape.endswith("X")]


def normal(value, *, key=""):
    """A body with what differs from turn to turn taken out: ids and signatures keep only their segment index."""
    if isinstance(value, dict):
        return {name: normal(item, key=name) for name, item in value.items() if name != "created"}
    if isinstance(value, list):
        return [normal(item, key=key) for item in value]
    if key == "id":
        called = ids.split_call_id(value)
        return called[1] if called else value.rstrip("abcdefghijklmnopqrstuvwxyz234567")
    return ids.split_carrier(value)[1] if key == "signature" else value


def expected_content(turn):
    """The Messages content of a turn."""
    blocks = []
    for segment in turn.segments:
        match segment:
            case ReasoningSegment():
                blocks.append(("thinking", segment.text))
            case TextSegment():
                blocks.append(("text", segment.text))
            case CallSegment():
                blocks.append(("tool_use", segment.name, json.loads(segment.arguments)))
    return blocks


def shown(content):
    """The same of a body."""
    parts = {"thinking": lambda b: (b["thinking"],), "text": lambda b: (b["text"],), "tool_use": lambda b: (b["name"], b["input"])}
    return [(block["type"], *parts[block["type"]](block)) for block in content]


def test_messages(served):
    server, turns = served
    with anthropic.Anthropic(api_key="x", base_url=server.url, max_retries=0) as client:
        for turn in turns:
            asked = {
                "model": MODEL,
                "max_tokens": 2000,
                "thinking": {"type": "adaptive"},
                "tools": TOOLS,
                "messages": [{"role": "user", "content": turn.prompt}],
            }
            with client.messages.stream(**asked) as live:
                folded = live.get_final_message().to_dict()
            body = server.http.post("/v1/messages", json=asked).json()
            for block in folded["content"]:
                block.pop("parsed_output", None)  # the SDK's own field
            folded = {name: value for name, value in folded.items() if value is not None or name in body}
            assert normal(folded) == normal(body), turn.rule
            assert shown(body["content"]) == expected_content(turn), turn.rule
            called = any(isinstance(segment, CallSegment) for segment in turn.segments)
            assert body["stop_reason"] == ("max_tokens" if turn.cut else "tool_use" if called else "end_turn"), turn.rule


def test_chat(served):
    server, turns = served
    with openai.OpenAI(api_key="x", base_url=server.url + "/v1", max_retries=0) as client:
        for turn in turns:
            asked = {"model": MODEL, "tools": FUNCTIONS, "messages": [{"role": "user", "content": turn.prompt}]}
            state = ChatCompletionStreamState()
            for chunk in client.chat.completions.create(**asked, stream=True, stream_options={"include_usage": True}):
                state.handle_chunk(chunk)
            folded = state.current_completion_snapshot.model_dump(exclude_unset=True)
            body = server.http.post("/v1/chat/completions", json=asked).json()
            message = folded["choices"][0]["message"]
            message.pop("parsed", None)  # this and the next two are the SDK's own
            for call in message.get("tool_calls") or []:
                call.pop("index")
                call["function"].pop("parsed_arguments", None)
            assert filled(normal(folded)) == filled(normal(body)), turn.rule
            assert body["choices"][0]["finish_reason"] == ("length" if turn.cut else "tool_calls" if "C" in turn.shape else "stop"), (
                turn.rule
            )
            said = body["choices"][0]["message"]
            assert (said.get("reasoning_content") or "") == joined(turn, ReasoningSegment), turn.rule
            assert (said.get("content") or "") == joined(turn, TextSegment), turn.rule
            calls = [(call["function"]["name"], json.loads(call["function"]["arguments"])) for call in said.get("tool_calls") or []]
            assert calls == [tuple(block[1:]) for block in expected_content(turn) if block[0] == "tool_use"], turn.rule


RESPONSES_TOOLS = [{"type": "function", "name": tool["name"], "parameters": tool["input_schema"]} for tool in TOOLS]
ITEM = {
    "reasoning": lambda item: ("thinking", (item.get("summary") or item["content"])[0]["text"]),
    "message": lambda item: ("text", item["content"][0]["text"]),
    "function_call": lambda item: ("tool_use", item["name"], json.loads(item["arguments"])),
}


def normal_response(body):
    """A response with its own ids and times taken out; items keep their order and their segment index."""
    text = json.dumps({name: value for name, value in body.items() if name != "created_at"})
    tag = body["id"].removeprefix("resp_")
    cleaned = json.loads(text.replace(tag, "TAG"))
    for item in cleaned["output"]:
        if "encrypted_content" in item:
            item["encrypted_content"] = item["encrypted_content"].rpartition(".")[0]
    return filled(cleaned)


def test_responses(served):
    server, turns = served
    with openai.OpenAI(api_key="x", base_url=server.url + "/v1", max_retries=0) as client:
        for turn in turns:
            asked = {"model": MODEL, "store": False, "tools": RESPONSES_TOOLS, "input": turn.prompt}
            events = list(client.responses.create(**asked, stream=True))
            assert [event.sequence_number for event in events] == list(range(len(events))), turn.rule
            last = events[-1].response.to_dict()
            done = [event.item.to_dict() for event in events if event.type == "response.output_item.done"]
            assert done == last["output"], turn.rule
            body = server.http.post("/v1/responses", json=asked).json()
            assert normal_response(last) == normal_response(body), turn.rule
            assert [ITEM[item["type"]](item) for item in body["output"]] == expected_content(turn), turn.rule
            assert body["status"] == ("incomplete" if turn.cut else "completed"), turn.rule
            assert client.responses.create(**asked).output_text == joined(turn, TextSegment), turn.rule


def joined(turn, kind):
    """All text of one kind."""
    return "".join(segment.text for segment in turn.segments if isinstance(segment, kind))


def filled(value):
    """Without fields that say nothing."""
    if isinstance(value, dict):
        return {name: filled(item) for name, item in value.items() if item is not None}
    return [filled(item) for item in value] if isinstance(value, list) else value


def test_every_shape_is_there(turns):
    assert {turn.shape for turn in turns} == set(SHAPES.values())
    assert {turn.rule["finish"] for turn in turns} == {"stop", "length"}
