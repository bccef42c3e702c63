"""Checks of Chat streams: chunks, deltas, usage, ids."""

from typing import Any

import msgspec

from antiphon.conformance.chat_read import REASONING_KEYS, chunks, deltas, finish, message, pieces, usage
from antiphon.conformance.exchange import Exchange, answered
from antiphon.conformance.judging import call_ids, missing, said, same
from antiphon.conformance.pieces import joined, meanings
from antiphon.conformance.verdict import OPENCLAW, OPENCODE, PI, SDK_OPENAI, Check, checker, equal, require

CHECKS: list[Check] = []
check = checker(CHECKS)
STREAMS = ("c.text", "c.call", "c.inter")


@check(
    "C01",
    "every data line is a chunk with choices, the last is [DONE]",
    why="OpenCode ignores event names and aborts on data without choices",
    breaks=(OPENCODE,),
    asks=STREAMS,
)
def data_lines(*streams: Exchange) -> None:
    for exchange in map(answered, streams):
        equal(exchange.events()[-1].data, "[DONE]", "the last data line")
        for data in (frame.json() for frame in exchange.events()[:-1]):
            require(isinstance(data.get("choices"), list), f"a data line without choices: {str(data)[:120]}")
            equal(data.get("object"), "chat.completion.chunk", "the object")


@check("C02", "the first delta has the role", why="SDKs take it from there", breaks=(SDK_OPENAI,), asks=STREAMS)
def role_first(*streams: Exchange) -> None:
    for exchange in map(answered, streams):
        equal(deltas(exchange)[0].data["delta"].get("role"), "assistant", "the role in the first delta")


@check(
    "C03",
    "all chunks have one id, created and the asked model",
    why="clients group chunks by the id",
    breaks=(SDK_OPENAI,),
    asks=STREAMS,
)
def heads(*streams: Exchange) -> None:
    ids = []
    for exchange in map(answered, streams):
        seen = {(chunk.data["id"], chunk.data["created"], chunk.data["model"]) for chunk in chunks(exchange)}
        equal(len(seen), 1, "the number of different heads")
        found, created, model = seen.pop()
        require(type(created) is int and created > 0, f"created is {created!r}")
        equal(model, exchange.request["model"], "the model")
        ids.append(found)
    equal(len(set(ids)), len(ids), "the number of different ids")


@check(
    "C04",
    "exactly one finish_reason, in the last chunk of the choice",
    why="without it OpenCode asks again without end and OpenClaw fails",
    breaks=(OPENCODE, OPENCLAW),
    asks=STREAMS,
)
def one_finish(*streams: Exchange) -> None:
    for exchange in map(answered, streams):
        finish(exchange)
        require(deltas(exchange)[-1].data.get("finish_reason"), "a delta comes behind the finish_reason")


@check(
    "C05",
    "include_usage: one chunk with usage, choices empty, last before [DONE]",
    why="clients take the usage of the chunk without choices",
    breaks=(SDK_OPENAI, PI),
    asks=("c.text", "c.call"),
)
def usage_chunk(*streams: Exchange) -> None:
    for exchange in map(answered, streams):
        counted = [chunk.data for chunk in chunks(exchange) if chunk.data.get("usage")]
        equal(len(counted), 1, "the number of chunks with usage")
        equal(counted[0]["choices"], [], "the choices of the usage chunk")
        require(chunks(exchange)[-1].data is not None and chunks(exchange)[-1].data.get("usage"), "the usage chunk is not the last")


@check(
    "C06",
    "without include_usage no chunk has usage",
    why="an empty choices list is unexpected then",
    breaks=(SDK_OPENAI,),
    asks=("c.uncounted",),
)
def no_usage(exchange: Exchange) -> None:
    require(not [chunk for chunk in chunks(answered(exchange)) if chunk.data.get("usage")], "a chunk has usage")
    require(all(chunk.data["choices"] for chunk in chunks(exchange)), "a chunk has no choices")


@check(
    "C07",
    "usage adds up: total = prompt + completion, reasoning tokens counted",
    why="context meters and bills go by it",
    breaks=(OPENCODE, PI),
    asks=("c.text", "c.text.unary"),
)
def usage_counts(*exchanges: Exchange) -> None:
    for exchange in map(answered, exchanges):
        counts = usage(exchange)
        equal(counts["total_tokens"], counts["prompt_tokens"] + counts["completion_tokens"], "total_tokens")
        require(counts["prompt_tokens"] > 1 and counts["completion_tokens"] > 0, f"the counts are {counts}")
        reasoning: Any = (counts.get("completion_tokens_details") or {}).get("reasoning_tokens")
        require(type(reasoning) is int and reasoning <= counts["completion_tokens"], f"{reasoning!r} reasoning tokens")
        if exchange.said is not None:
            require(reasoning > 0, "0 reasoning tokens for a turn that reasoned")


@check(
    "C08",
    "reasoning comes in reasoning_content, apart from the text",
    why="clients read that key; in the text it is shown and kept",
    breaks=(OPENCODE, PI),
    asks=("c.text", "c.text.unary"),
)
def reasoning(*exchanges: Exchange) -> None:
    for exchange in exchanges:
        expected = said(exchange).pieces()
        equal(joined(pieces(exchange), "reasoning"), joined(expected, "reasoning"), "the reasoning")
        equal(joined(pieces(exchange), "text"), joined(expected, "text"), "the text")
        if not exchange.is_stream():
            require("reasoning_content" in message(exchange), f"the message has no reasoning_content, of {REASONING_KEYS}")
        else:
            keyed = [chunk for chunk in deltas(exchange) if chunk.data["delta"].get("reasoning_content")]
            require(keyed, "no delta has reasoning_content")


@check(
    "C09",
    "the first delta of a call has index, id, type and name; the arguments join to JSON",
    why="without the index pi loses the call and OpenCode fails",
    breaks=(PI, OPENCODE, OPENCLAW),
    asks=("c.call", "c.parallel"),
)
def call_deltas(*streams: Exchange) -> None:
    for exchange in map(answered, streams):
        calls = message(exchange).get("tool_calls")
        if not calls:
            raise missing(exchange, "no call came")
        for call in calls:
            equal(call["type"], "function", "the type of a call")
            require(isinstance(msgspec.json.decode(call["function"]["arguments"]), dict), "the arguments are no object")


@check(
    "C10",
    "a call without arguments has the arguments {}",
    why="an empty string is no JSON",
    breaks=(SDK_OPENAI, OPENCLAW),
    asks=("c.zero",),
)
def zero_arguments(exchange: Exchange) -> None:
    calls = message(answered(exchange)).get("tool_calls")
    if not calls:
        raise missing(exchange, "no call came")
    equal(calls[0]["function"]["arguments"].strip(), "{}", "the arguments")


@check(
    "C11",
    "a turn streams what it answers whole",
    why="both are one API",
    breaks=(SDK_OPENAI,),
    asks=("c.call", "c.call.unary", "c.inter", "c.inter.unary"),
)
def stream_is_unary(*exchanges: Exchange) -> None:
    for stream, unary in (exchanges[:2], exchanges[2:]):
        same(stream, unary, meanings(pieces(stream)), meanings(pieces(unary)), "the message")
        same(stream, unary, finish(stream), finish(unary), "the finish reason")
        same(stream, unary, usage(stream)["completion_tokens"], usage(unary)["completion_tokens"], "the output count")


@check(
    "C12",
    "call ids are safe in every client and never repeat; at most 40 characters survive",
    why="OpenClaw strips and cuts them: what differs only behind is one call then",
    breaks=(OPENCLAW,),
    asks=("c.call", "c.parallel", "c.inter", "c.zero"),
)
def ids(*exchanges: Exchange) -> None:
    found = [(exchange, pieces(answered(exchange))) for exchange in exchanges]
    call_ids(found)
    folded = ["".join(filter(str.isalnum, piece.id))[:40] for _, turn in found for piece in turn if piece.kind == "call"]
    equal(len(set(folded)), len(folded), "the number of ids that stay different when stripped and cut")


@check(
    "C13",
    "streams are text/event-stream, bodies application/json",
    why="SDKs choose their reader by it",
    breaks=(SDK_OPENAI,),
    asks=("c.text", "c.text.unary"),
)
def content_types(stream: Exchange, unary: Exchange) -> None:
    require(answered(stream).is_stream(), f"a stream is {stream.headers.get('content-type')!r}")
    require(
        answered(unary).headers.get("content-type", "").startswith("application/json"), f"a body is {unary.headers.get('content-type')!r}"
    )
    equal(unary.json()["object"], "chat.completion", "the object of a body")
