"""Checks of Chat turns: order, finish reasons, choices, formats, timing."""

from typing import Any

import msgspec

from antiphon.conformance.chat_read import deltas, finish, pieces, usage
from antiphon.conformance.exchange import Exchange, answered
from antiphon.conformance.judging import (
    cut,
    dispatched,
    ended_early,
    fits_schema,
    forced_call,
    kept_alive,
    missing,
    no_call,
    no_markup,
    one_call,
    said,
)
from antiphon.conformance.pieces import calls, joined, meanings
from antiphon.conformance.sayings import TIME
from antiphon.conformance.verdict import EVERYONE, OPENCLAW, OPENCODE, PI, SDK_OPENAI, Check, checker, equal, known, require

CHECKS: list[Check] = []
check = checker(CHECKS)


def _parts(exchange: Exchange) -> None:
    """Reasoning, text and calls, each whole and in its own order: all that this wire can hold of a turn."""
    found, expected = pieces(exchange), said(exchange).pieces()
    equal(joined(found, "reasoning"), joined(expected, "reasoning"), "the reasoning")
    equal(joined(found, "text"), joined(expected, "text"), "the text")
    equal(meanings(calls(found)), meanings(calls(expected)), "the calls")


@check("C20", "two calls in one turn have indices 0 and 1", why="clients run both", breaks=(PI,), asks=("c.parallel",))
def parallel(exchange: Exchange) -> None:
    _parts(exchange)


@check(
    "C21",
    "an interleaved turn streams all its parts",
    why="nothing behind the first call may be lost",
    breaks=(EVERYONE,),
    asks=("c.inter",),
)
def interleaved(exchange: Exchange) -> None:
    _parts(exchange)
    kinds = [kind for chunk in deltas(exchange) for kind in _KINDS if str(chunk.data["delta"].get(kind) or "").strip()]
    runs = [kind for place, kind in enumerate(kinds) if place == 0 or kinds[place - 1] != kind]
    equal(["reasoning" if "reasoning" in kind else kind for kind in runs], _RUNS, "the order of the deltas")


_KINDS = ("content", "reasoning_content", "reasoning", "tool_calls")
_RUNS = ["reasoning", "content", "tool_calls", "reasoning", "tool_calls", "content"]


@check(
    "C22",
    "the same turn comes whole with all its parts",
    why="nothing may be lost without streaming",
    breaks=(SDK_OPENAI,),
    asks=("c.inter.unary",),
)
def interleaved_unary(exchange: Exchange) -> None:
    _parts(exchange)


@check(
    "C23",
    "a plain answer ends with stop",
    why="clients wait for calls that never come",
    breaks=(EVERYONE,),
    asks=("c.text", "c.text.unary"),
)
def stop(*exchanges: Exchange) -> None:
    for exchange in exchanges:
        equal(finish(answered(exchange)), "stop", "the finish reason")


@check(
    "C24",
    "a turn with calls ends with tool_calls, also with text behind them",
    why="OpenCode ends its loop on stop",
    breaks=(OPENCODE,),
    asks=("c.call", "c.call.unary", "c.inter"),
)
def tool_calls(*exchanges: Exchange) -> None:
    for exchange in exchanges:
        if not calls(pieces(answered(exchange))):
            raise missing(exchange, "no call came")
        equal(finish(exchange), "tool_calls", "the finish reason")


@check(
    "C25",
    "the limit, under its new and its old name, ends a turn with length",
    why="half an answer counts as whole otherwise",
    breaks=(OPENCLAW, PI),
    asks=("c.limit", "c.limit.old"),
)
def length(*exchanges: Exchange) -> None:
    for exchange in exchanges:
        said(exchange)
        equal(finish(exchange), "length", "the finish reason")
        require(usage(exchange)["completion_tokens"] <= 20, f"{usage(exchange)['completion_tokens']} tokens came, the limit was 20")


@check(
    "C26",
    "a stop string ends the text before it",
    why="what stands behind it was not wanted",
    breaks=(SDK_OPENAI,),
    asks=("c.stop",),
)
def stop_string(exchange: Exchange) -> None:
    said(exchange)
    equal(joined(pieces(exchange), "text"), "Answerone.", "the text before the stop")
    equal(finish(exchange), "stop", "the finish reason")


@check(
    "C42",
    "a stop string within reasoning stops nothing",
    why="the answer would be missing",
    breaks=(SDK_OPENAI,),
    asks=("c.stop.thinking",),
)
def stop_in_reasoning(exchange: Exchange) -> None:
    _parts(exchange)


@check(
    "C27",
    "a call cut by the limit cannot be run",
    why="pi runs what it can parse, whatever the finish reason",
    breaks=(PI, SDK_OPENAI),
    asks=("c.cut",),
)
def cut_call(exchange: Exchange) -> None:
    said(exchange)
    cut(exchange, pieces(exchange), "command")
    equal(finish(exchange), "tool_calls" if calls(pieces(exchange)) else "length", "the finish reason")


@check("C28", "tool_choice none: no call", why="the caller has no way to answer one", breaks=(SDK_OPENAI,), asks=("c.none",))
def choice_none(exchange: Exchange) -> None:
    no_call(exchange, pieces(exchange))
    require(finish(exchange) != "tool_calls", "the finish reason is tool_calls")


@check("C29", "tool_choice required: a call comes", why="callers index into the calls", breaks=(SDK_OPENAI,), asks=("c.required",))
def choice_required(exchange: Exchange) -> None:
    forced_call(exchange, pieces(exchange))


@check("C30", "tool_choice function: that one is called", why="callers read its arguments unseen", breaks=(SDK_OPENAI,), asks=("c.named",))
def choice_named(exchange: Exchange) -> None:
    forced_call(exchange, pieces(exchange), TIME)


@check(
    "C31",
    "parallel_tool_calls false: one call comes",
    why="only one is answered",
    breaks=(SDK_OPENAI,),
    asks=("c.single",),
)
def one_at_a_time(single: Exchange) -> None:
    one_call(single, pieces(answered(single)))


@check(
    "C43",
    "the same: generation ends with the first call",
    why="what is generated and thrown away costs time and tokens",
    breaks=(EVERYONE,),
    asks=("c.single", "c.parallel"),
)
def ends_with_the_call(single: Exchange, parallel: Exchange) -> None:
    ended_early(single, parallel, usage(answered(single))["completion_tokens"], usage(answered(parallel))["completion_tokens"])


@check(
    "C32",
    "response_format json_schema: the text is JSON of the schema",
    why="callers parse it unseen",
    breaks=(SDK_OPENAI,),
    asks=("c.schema",),
)
def schema(exchange: Exchange) -> None:
    fits_schema(exchange, pieces(answered(exchange)))


@check(
    "C33", "response_format json_object: the text is a JSON object", why="callers parse it unseen", breaks=(SDK_OPENAI,), asks=("c.object",)
)
def json_object(exchange: Exchange) -> None:
    text = "".join(piece.text for piece in pieces(answered(exchange)) if piece.kind == "text")
    require(isinstance(msgspec.json.decode(text), dict), f"the text is no object: {text[:80]!r}")


@check("C34", "n 2: two whole choices", why="callers compare them", breaks=(SDK_OPENAI,), asks=("c.twice", "c.twice.unary"))
def two_choices(*exchanges: Exchange) -> None:
    for exchange in map(answered, exchanges):
        for choice in (0, 1):
            require(joined(pieces(exchange, choice), "text"), f"choice {choice} has no text")
            equal(finish(exchange, choice), "stop", f"the finish reason of choice {choice}")


@check(
    "C35",
    "logprobs come for every token, or are refused by name",
    why="evaluation tools read them",
    breaks=(SDK_OPENAI,),
    asks=("c.logprobs",),
)
def logprobs(exchange: Exchange) -> None:
    if exchange.status == 400:
        require("logprobs" in exchange.json()["error"]["message"], f"the refusal does not name logprobs: {exchange.excerpt()}")
        return
    found: list[Any] = (answered(exchange).json()["choices"][0].get("logprobs") or {}).get("content") or []
    require(found, "logprobs were asked for and left out in silence")
    require(all(isinstance(entry["token"], str) and entry["logprob"] <= 0 for entry in found), "an entry is no log probability")


@check(
    "C36",
    "text arrives character for character",
    why="a character cut between two tokens must stay whole",
    breaks=(EVERYONE,),
    asks=("c.unicode",),
)
def unicode_text(exchange: Exchange) -> None:
    _parts(exchange)


@check(
    "C37",
    "arguments arrive byte for byte: indentation, entities, large numbers and their spelling",
    why="edit tools compare strings exactly",
    breaks=(EVERYONE,),
    asks=("c.exact",),
)
def exact_arguments(exchange: Exchange) -> None:
    _parts(exchange)
    require("1.10" in calls(pieces(exchange))[0].arguments, "the spelling of the number 1.10 was changed")


@check(
    "C38",
    "no control text of the model reaches the client",
    why="agents send it back into the next prompt",
    breaks=(EVERYONE,),
    asks=("c.text", "c.call", "c.inter", "c.inter.unary"),
)
def markup(*exchanges: Exchange) -> None:
    for exchange in exchanges:
        no_markup(exchange, pieces(answered(exchange)))


@check(
    "C39",
    "a call leaves when it is complete, not with what follows",
    why="the harness runs the tool while the model still writes",
    breaks=(EVERYONE,),
    asks=("c.lead",),
)
def dispatch(exchange: Exchange) -> None:
    said(exchange)
    found = deltas(exchange)
    whole = [chunk.at for chunk in found if chunk.data["delta"].get("tool_calls")]
    text = [chunk.at for chunk in found if (chunk.data["delta"].get("content") or "").strip()]
    dispatched(exchange, whole[-1] if whole else None, text[0] if text else None, exchange.ended_at)


@check(
    "C40",
    "a silent stream is kept alive by the clock",
    why="proxies and clients give a silent line up",
    breaks=(EVERYONE,),
    asks=("c.slow",),
)
def keep_alive(exchange: Exchange) -> None:
    kept_alive(exchange, exchange.silence, [chunk.at for chunk in exchange.chunks], "a byte")


@check("C41", "the legacy /v1/completions answers with text", why="older tools have nothing else", breaks=(SDK_OPENAI,), asks=("c.legacy",))
def legacy(exchange: Exchange) -> None:
    known(exchange.status not in (404, 405, 501), f"the server has no /v1/completions ({exchange.status})")
    body = answered(exchange).json()
    equal(body["object"], "text_completion", "the object")
    require(isinstance(body["choices"][0]["text"], str) and body["choices"][0]["finish_reason"], f"the choice is {body['choices'][0]}")
