"""Checks of Messages streams: grammar of the events, usage, ids."""

import re

from antiphon.conformance.exchange import Exchange, answered
from antiphon.conformance.judging import call_ids, missing, said, same
from antiphon.conformance.messages_read import Block, blocks, content, one, payloads, pieces, prompt_tokens, stop, usage
from antiphon.conformance.pieces import joined, meanings
from antiphon.conformance.verdict import (
    CLAUDE_CODE,
    EVERYONE,
    OPENCLAW,
    OPENCODE,
    PI,
    SDK_ANTHROPIC,
    Check,
    checker,
    equal,
    require,
)

CHECKS: list[Check] = []
check = checker(CHECKS)
STREAMS = ("m.text", "m.call", "m.inter")
_DELTAS = {"text": {"text_delta", "citations_delta"}, "thinking": {"thinking_delta", "signature_delta"}, "tool_use": {"input_json_delta"}}


def _opened(exchange: Exchange, kind: str) -> list[Block]:
    """The streamed blocks of a kind, at least one."""
    found = [block for block in blocks(answered(exchange)) if block.start["type"] == kind]
    if not found:
        raise missing(exchange, f"no {kind} block came")
    return found


@check(
    "M01",
    "message_start first, message_delta and message_stop last, one of each",
    why="pi reads a stream without message_stop as a failure; an early clean end is taken as the answer",
    breaks=(PI, CLAUDE_CODE),
    asks=STREAMS,
)
def envelope(*streams: Exchange) -> None:
    for exchange in map(answered, streams):
        kinds = [data["type"] for data in payloads(exchange)]
        equal(kinds[0], "message_start", "the first event")
        equal(kinds[-2:], ["message_delta", "message_stop"], "the end")
        for kind in ("message_start", "message_delta", "message_stop"):
            equal(kinds.count(kind), 1, f"the number of {kind} events")


@check(
    "M02",
    "every event has an event: line that names its type",
    why="without event: lines Claude Code ignores the stream and asks again without streaming; pi shows an empty answer",
    breaks=(CLAUDE_CODE, PI),
    asks=STREAMS,
)
def event_lines(*streams: Exchange) -> None:
    for exchange in map(answered, streams):
        for frame in exchange.events():
            if frame.data != "[DONE]":
                equal(frame.event, frame.json()["type"], "the event: line")


@check(
    "M03",
    "streams are text/event-stream, bodies application/json",
    why="SDKs choose their reader by the content type",
    breaks=(SDK_ANTHROPIC,),
    asks=("m.text", "m.text.unary"),
)
def content_types(stream: Exchange, unary: Exchange) -> None:
    require(answered(stream).is_stream(), f"a stream is {stream.headers.get('content-type')!r}")
    require(
        answered(unary).headers.get("content-type", "").startswith("application/json"), f"a body is {unary.headers.get('content-type')!r}"
    )


@check(
    "M04",
    "block indices are dense, one block is open at a time, each is closed before the next opens",
    why="Claude Code 2.1.332 and OpenCode end the session on a delta for a closed block",
    breaks=(CLAUDE_CODE, OPENCODE, SDK_ANTHROPIC),
    asks=("m.text", "m.parallel", "m.inter"),
)
def block_grammar(*streams: Exchange) -> None:
    for exchange in map(answered, streams):
        opened, current = 0, None
        for data in payloads(exchange):
            kind = data["type"]
            if kind == "content_block_start":
                require(current is None, f"block {data['index']} opens while {current} is open")
                equal(data["index"], opened, "the index of a new block")
                opened, current = opened + 1, data["index"]
            elif kind in ("content_block_delta", "content_block_stop"):
                equal(data["index"], current, f"the index of a {kind} in the open block")
                current = current if kind == "content_block_delta" else None
            elif kind == "message_delta":
                require(current is None, f"block {current} is never closed")


@check(
    "M05",
    "a block gets only deltas of its own kind",
    why="SDKs append by the block's type and fail on any other",
    breaks=(SDK_ANTHROPIC, OPENCODE),
    asks=STREAMS,
)
def delta_kinds(*streams: Exchange) -> None:
    for exchange in map(answered, streams):
        for block in blocks(exchange):
            kind = block.start["type"]
            strange = {delta["type"] for delta in block.deltas} - _DELTAS.get(kind, set())
            require(not strange, f"a {kind} block got {', '.join(sorted(strange))}")


@check(
    "M06",
    "message_start already has the real prompt tokens",
    why="Claude Code's context meter and compaction read them there; pi crashes when usage is missing",
    breaks=(CLAUDE_CODE, PI),
    asks=("m.text", "m.call"),
)
def early_usage(*streams: Exchange) -> None:
    for exchange in map(answered, streams):
        first = one(exchange, "message_start")["message"]["usage"]
        equal(prompt_tokens(first), prompt_tokens(usage(exchange)), "the prompt in message_start (beside the final count)")
        require(prompt_tokens(first) > 1, "an empty prompt is reported")


@check(
    "M07",
    "usage counts are integers, output above zero, unknown counts left out rather than null",
    why="clients add the counts up; null is a type error in strict ones",
    breaks=(SDK_ANTHROPIC, CLAUDE_CODE),
    asks=("m.text", "m.text.unary"),
)
def usage_types(*exchanges: Exchange) -> None:
    for exchange in map(answered, exchanges):
        sources = (
            [exchange.json()["usage"]]
            if not exchange.is_stream()
            else [
                one(exchange, "message_start")["message"]["usage"],
                one(exchange, "message_delta")["usage"],
            ]
        )
        for counts in sources:
            wrong = {key: value for key, value in counts.items() if key.endswith("_tokens") and type(value) is not int}
            require(not wrong, f"counts that are no integers: {wrong}")
        require(usage(exchange)["output_tokens"] > 0, "no output tokens are reported")


@check(
    "M08",
    "count_tokens is exactly the prompt that the turn reports",
    why="Claude Code's /context and compaction plan with it; an estimate overflows or compacts too early",
    breaks=(CLAUDE_CODE,),
    asks=("m.text.count", "m.text", "m.call.count", "m.call"),
)
def exact_count(count: Exchange, turn: Exchange, count_tools: Exchange, turn_tools: Exchange) -> None:
    for counted, taken in ((count, turn), (count_tools, turn_tools)):
        equal(answered(counted).json()["input_tokens"], prompt_tokens(usage(answered(taken))), "count_tokens (beside the turn's prompt)")


@check(
    "M09",
    "the message has a msg_ id of its own, role assistant and the asked model",
    why="clients key stored messages by the id and show the model",
    breaks=(CLAUDE_CODE, SDK_ANTHROPIC),
    asks=("m.text", "m.call", "m.text.unary"),
)
def message_head(*exchanges: Exchange) -> None:
    ids = []
    for exchange in map(answered, exchanges):
        head = one(exchange, "message_start")["message"] if exchange.is_stream() else exchange.json()
        require(re.fullmatch(r"msg_[\w-]+", str(head["id"])), f"the id is {head['id']!r}")
        equal((head["type"], head["role"]), ("message", "assistant"), "type and role")
        equal(head["model"], exchange.request["model"], "the model")
        ids.append(head["id"])
    equal(len(set(ids)), len(ids), "the number of different message ids")


@check(
    "M10",
    "a tool_use block starts with an empty input, which comes as input_json_delta",
    why="an input in content_block_start alone is lost by Claude Code and pi",
    breaks=(CLAUDE_CODE, PI),
    asks=("m.call",),
)
def input_deltas(exchange: Exchange) -> None:
    found = _opened(exchange, "tool_use")
    for block in found:
        equal(block.start["input"], {}, "the input in content_block_start")
        require(block.joined("input_json_delta", "partial_json"), "no input_json_delta with the input")


@check(
    "M11",
    "a call without arguments comes as {} with at least one input_json_delta",
    why="clients that parse the joined deltas fail on none",
    breaks=(OPENCODE, SDK_ANTHROPIC),
    asks=("m.zero",),
)
def zero_arguments(exchange: Exchange) -> None:
    found = _opened(exchange, "tool_use")
    require(found[0].deltas, "no input_json_delta came")
    require(found[0].joined("input_json_delta", "partial_json").strip() in ("", "{}"), "the input is not empty")


@check(
    "M12",
    "a thinking block has text and one non-empty signature_delta, last in the block",
    why="without a signature pi and OpenClaw show thinking as text and OpenCode drops it; only the last signature_delta is kept",
    breaks=(PI, OPENCLAW, OPENCODE, CLAUDE_CODE),
    asks=("m.text", "m.inter"),
)
def signatures(*streams: Exchange) -> None:
    for exchange in streams:
        for block in _opened(exchange, "thinking"):
            kinds = [delta["type"] for delta in block.deltas]
            equal(kinds.count("signature_delta"), 1, "the number of signature_delta events")
            equal(kinds[-1], "signature_delta", "the last delta")
            require(block.deltas[-1]["signature"], "the signature is empty")
            require(block.joined("thinking_delta", "thinking"), "the thinking text is empty")


@check(
    "M13",
    "no text block is blank",
    why="clients send blank blocks back, and servers refuse them: the session is dead",
    breaks=(OPENCODE, SDK_ANTHROPIC),
    asks=("m.call", "m.parallel", "m.inter"),
)
def blank_blocks(*streams: Exchange) -> None:
    for exchange in map(answered, streams):
        for block in content(exchange):
            require(block["type"] != "text" or block["text"].strip(), "a blank text block")


@check(
    "M14",
    "a turn streams what it answers whole",
    why="Claude Code falls back from one to the other within a session",
    breaks=(CLAUDE_CODE, SDK_ANTHROPIC),
    asks=("m.call", "m.call.unary", "m.text", "m.text.unary"),
)
def stream_is_unary(*exchanges: Exchange) -> None:
    for stream, unary in (exchanges[:2], exchanges[2:]):
        same(stream, unary, meanings(pieces(stream)), meanings(pieces(unary)), "the content")
        same(stream, unary, stop(stream), stop(unary), "the stop reason")
        same(stream, unary, usage(stream)["output_tokens"], usage(unary)["output_tokens"], "the output count")


@check(
    "M15",
    "call ids are safe in every client and never repeat",
    why="OpenClaw rewrites other ids; an id used again in the next turn answers the wrong call",
    breaks=(OPENCLAW, EVERYONE),
    asks=("m.call", "m.parallel", "m.inter", "m.zero"),
)
def ids(*exchanges: Exchange) -> None:
    call_ids([(exchange, pieces(answered(exchange))) for exchange in exchanges])


@check(
    "M16",
    "text arrives character for character",
    why="a multi-byte character cut between two tokens must not become replacement marks",
    breaks=(EVERYONE,),
    asks=("m.unicode",),
)
def unicode_text(exchange: Exchange) -> None:
    expected = said(exchange).pieces()
    equal(joined(pieces(exchange), "text"), joined(expected, "text"), "the text")
    equal(joined(pieces(exchange), "reasoning"), joined(expected, "reasoning"), "the thinking")
