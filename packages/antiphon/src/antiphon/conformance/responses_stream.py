"""Checks of Responses streams: grammar of the events, items, ids, usage."""

import re
from typing import Any

from antiphon.conformance.exchange import Exchange, answered
from antiphon.conformance.judging import call_ids, missing, same
from antiphon.conformance.pieces import meanings
from antiphon.conformance.responses_read import TERMINAL, Timed, events, final, items, pieces, usage
from antiphon.conformance.verdict import AGENTS, CODEX, OPENCLAW, OPENCODE, PI, SDK_OPENAI, Check, checker, equal, require

CHECKS: list[Check] = []
check = checker(CHECKS)
STREAMS = ("r.text", "r.call", "r.inter")
_PREFIXES = {"reasoning": "rs_", "message": "msg_", "function_call": "fc_", "custom_tool_call": "ctc_"}


def by_item(exchange: Exchange) -> dict[int, list[Timed]]:
    """The events of each output index, in order."""
    found: dict[int, list[Timed]] = {}
    for event in events(answered(exchange)):
        if "output_index" in event.data:
            found.setdefault(event.data["output_index"], []).append(event)
    return found


def done_of(exchange: Exchange, kind: str) -> list[dict[str, Any]]:
    """The finished items of a kind, at least one."""
    found = [item for item in items(answered(exchange)) if item["type"] == kind]
    if not found:
        raise missing(exchange, f"no {kind} item came")
    return found


@check(
    "R01",
    "response.created and in_progress first, one terminal event last",
    why="without a terminal event Codex runs the whole turn again, five times",
    breaks=(CODEX, SDK_OPENAI),
    asks=STREAMS,
)
def envelope(*streams: Exchange) -> None:
    for exchange in map(answered, streams):
        kinds = [event.kind for event in events(exchange)]
        equal(kinds[:2], ["response.created", "response.in_progress"], "the start")
        equal(kinds[-1], "response.completed", "the last event")
        equal(sum(kinds.count(kind) for kind in TERMINAL), 1, "the number of terminal events")


@check(
    "R02",
    "event: lines name the type, the content type is text/event-stream",
    why="SDKs choose their reader by the content type, some readers go by the event line",
    breaks=(SDK_OPENAI,),
    asks=STREAMS,
)
def event_lines(*streams: Exchange) -> None:
    for exchange in map(answered, streams):
        for frame in exchange.events():
            if frame.data != "[DONE]":
                equal(frame.event, frame.json()["type"], "the event: line")


@check(
    "R03",
    "sequence_number counts up by one from the first event",
    why="clients resume a stream and find gaps by it",
    breaks=(SDK_OPENAI,),
    asks=STREAMS,
)
def sequence(*streams: Exchange) -> None:
    for exchange in map(answered, streams):
        numbers = [event.data.get("sequence_number") for event in events(exchange)]
        equal(numbers, list(range(len(numbers))), "the sequence numbers")


@check(
    "R04",
    "items have dense indices, one is open at a time, each is done before the next is added",
    why="pi keeps one current item: mixed up, one command runs twice and the other never",
    breaks=(PI, CODEX),
    asks=("r.text", "r.parallel", "r.inter"),
)
def item_grammar(*streams: Exchange) -> None:
    for exchange in map(answered, streams):
        opened, current = 0, None
        for event in events(exchange):
            index = event.data.get("output_index")
            if event.kind == "response.output_item.added":
                require(current is None, f"item {index} is added while {current} is open")
                equal(index, opened, "the index of a new item")
                opened, current = opened + 1, index
            elif index is not None:
                equal(index, current, f"the output_index of a {event.kind}")
                current = None if event.kind == "response.output_item.done" else current
        require(current is None, f"item {current} is never done")


@check(
    "R05",
    "text: part added, deltas, text done, part done; the done text is the deltas'",
    why="the SDK appends to the part that was added and fails without it",
    breaks=(SDK_OPENAI, AGENTS),
    asks=("r.text", "r.inter"),
)
def text_events(*streams: Exchange) -> None:
    for exchange in streams:
        done_of(exchange, "message")
        for found in by_item(exchange).values():
            if found[0].data["item"]["type"] != "message":
                continue
            kinds = [event.kind.removeprefix("response.") for event in found]
            expected = ["output_item.added", "content_part.added", "output_text.delta"]
            equal([kind for place, kind in enumerate(kinds) if kind not in kinds[:place]][:3], expected, "the start of a message")
            equal(kinds[-3:], ["output_text.done", "content_part.done", "output_item.done"], "the end of a message")
            text = "".join(event.data["delta"] for event in found if event.kind == "response.output_text.delta")
            part = found[-1].data["item"]["content"][0]["text"]
            equal([found[-3].data["text"], found[-2].data["part"]["text"], part], [text] * 3, "the finished text")


@check(
    "R06",
    "arguments: deltas, then done with the same text, then the item with the same text",
    why="some clients read the deltas, some the done event, Codex the item",
    breaks=(CODEX, PI, OPENCODE),
    asks=("r.call", "r.parallel"),
)
def argument_events(*streams: Exchange) -> None:
    for exchange in streams:
        done_of(exchange, "function_call")
        for found in by_item(exchange).values():
            if found[0].data["item"]["type"] == "function_call":
                _arguments(found)


def _arguments(found: list[Timed]) -> None:
    deltas = [event.data["delta"] for event in found if event.kind == "response.function_call_arguments.delta"]
    done = [event.data["arguments"] for event in found if event.kind == "response.function_call_arguments.done"]
    require(deltas, "no function_call_arguments.delta came")
    equal(done, ["".join(deltas)], "function_call_arguments.done")
    equal(found[-1].data["item"]["arguments"], done[0], "the arguments of the finished item")


@check(
    "R07",
    "an item keeps one id in all its events and in the finished response, with the prefix of its kind",
    why="the SDK and OpenCode match deltas, items and replay by it",
    breaks=(OPENCODE, SDK_OPENAI, OPENCLAW),
    asks=("r.call", "r.inter"),
)
def item_ids(*streams: Exchange) -> None:
    for exchange in streams:
        ids = []
        for found in by_item(exchange).values():
            kind, item_id = found[0].data["item"]["type"], found[0].data["item"]["id"]
            require(item_id.startswith(_PREFIXES.get(kind, "")) and len(item_id) <= 64, f"the id of a {kind} is {item_id!r}")
            seen = {event.data["item_id"] for event in found if "item_id" in event.data} | {found[-1].data["item"]["id"]}
            equal(seen, {item_id}, "the id in the item's events")
            ids.append(item_id)
        equal([item["id"] for item in final(exchange)["output"]], ids, "the ids in the finished response")
        equal(len(set(ids)), len(ids), "the number of different item ids")


@check(
    "R08",
    "response.completed holds id, status, model and the items as they were streamed",
    why="what is stored and replayed must be what the client acted on",
    breaks=(CODEX, AGENTS),
    asks=STREAMS,
)
def completed(*streams: Exchange) -> None:
    for exchange in map(answered, streams):
        response = final(exchange)
        equal(response["output"], items(exchange), "the output of the finished response")
        equal((response["object"], response["status"]), ("response", "completed"), "object and status")
        equal(response["model"], exchange.request["model"], "the model")
        require(re.fullmatch(r"resp_[\w-]+", str(response["id"])), f"the id is {response['id']!r}")
        equal(response["id"], events(exchange)[0].data["response"]["id"], "the id (beside response.created)")
        require(isinstance(response["created_at"], int | float), "created_at is missing")


@check(
    "R09",
    "a call keeps its call_id from added to completed; ids are safe in every client and never repeat",
    why="OpenClaw rewrites what does not fit; a result for an unknown id is lost",
    breaks=(OPENCLAW, CODEX),
    asks=("r.call", "r.parallel", "r.inter", "r.zero"),
)
def ids(*streams: Exchange) -> None:
    for exchange in map(answered, streams):
        for found in by_item(exchange).values():
            if "call_id" in found[0].data["item"]:
                equal(found[-1].data["item"]["call_id"], found[0].data["item"]["call_id"], "the call_id when done")
    call_ids([(exchange, pieces(exchange)) for exchange in streams])


@check(
    "R10",
    "usage has input, output, their total and both details",
    why="Codex fails on usage without total_tokens and runs the turn again five times",
    breaks=(CODEX,),
    asks=("r.text", "r.text.unary", "r.call"),
)
def usage_counts(*exchanges: Exchange) -> None:
    for exchange in map(answered, exchanges):
        counts = usage(exchange)
        equal(counts["total_tokens"], counts["input_tokens"] + counts["output_tokens"], "total_tokens")
        require(counts["input_tokens"] > 1 and counts["output_tokens"] > 0, f"the counts are {counts}")
        reasoning = counts["output_tokens_details"]["reasoning_tokens"]
        require(type(reasoning) is int and 0 <= reasoning <= counts["output_tokens"], f"{reasoning!r} reasoning tokens")
        require(type(counts["input_tokens_details"]["cached_tokens"]) is int, "cached_tokens is no integer")


@check(
    "R11",
    "reasoning tokens are counted where reasoning was streamed",
    why="budgets and bills go by them",
    breaks=(CODEX,),
    asks=("r.text",),
)
def reasoning_tokens(exchange: Exchange) -> None:
    done_of(exchange, "reasoning")
    require(usage(exchange)["output_tokens_details"]["reasoning_tokens"] > 0, "0 reasoning tokens beside a reasoning item")


@check(
    "R12",
    "a call without arguments has the arguments {} in delta, done and item",
    why="an empty string is no JSON",
    breaks=(CODEX, PI),
    asks=("r.zero",),
)
def zero_arguments(exchange: Exchange) -> None:
    for item in done_of(exchange, "function_call"):
        equal(item["arguments"].strip(), "{}", "the arguments of the item")
    for found in by_item(exchange).values():
        if found[0].data["item"]["type"] == "function_call":
            deltas = [event.data["delta"] for event in found if event.kind == "response.function_call_arguments.delta"]
            equal("".join(deltas).strip(), "{}", "the argument deltas")


@check(
    "R13",
    "reasoning is streamed as an item with a summary list, whether or not the request has `reasoning`",
    why="what never left cannot come back in the next turn",
    breaks=(CODEX, PI),
    asks=("r.noreason", "r.call"),
)
def reasoning_items(*streams: Exchange) -> None:
    for exchange in streams:
        for item in done_of(exchange, "reasoning"):
            require(isinstance(item["summary"], list), f"the summary is {item.get('summary')!r}")


@check(
    "R14",
    "include reasoning.encrypted_content: it is there, in the finished item",
    why="clients that store nothing on the server replay reasoning by it",
    breaks=(CODEX, OPENCODE),
    asks=("r.call", "r.inter"),
)
def encrypted_content(*streams: Exchange) -> None:
    for exchange in streams:
        for item in done_of(exchange, "reasoning"):
            require(
                isinstance(item.get("encrypted_content"), str) and item["encrypted_content"], "a reasoning item without encrypted_content"
            )


@check(
    "R15",
    "a turn streams what it answers whole",
    why="openai-agents asks without streaming, everything else with it",
    breaks=(AGENTS,),
    asks=("r.call", "r.call.unary", "r.text", "r.text.unary"),
)
def stream_is_unary(*exchanges: Exchange) -> None:
    for stream, unary in (exchanges[:2], exchanges[2:]):
        same(stream, unary, meanings(pieces(stream)), meanings(pieces(unary)), "the output")
        same(stream, unary, usage(stream)["output_tokens"], usage(unary)["output_tokens"], "the output count")
        require(unary.headers.get("content-type", "").startswith("application/json"), f"a body is {unary.headers.get('content-type')!r}")


@check(
    "R16",
    "finished items have the status completed",
    why="OpenCode ignores calls of any other",
    breaks=(OPENCODE,),
    asks=("r.call", "r.inter", "r.call.unary"),
)
def statuses(*exchanges: Exchange) -> None:
    for exchange in exchanges:
        for item in items(answered(exchange)):
            if item["type"] != "reasoning":
                equal(item["status"], "completed", f"the status of a {item['type']}")
