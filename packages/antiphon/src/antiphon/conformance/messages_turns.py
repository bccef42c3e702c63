"""Checks of Messages turns: order, stop reasons, choices, thinking, timing."""

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
    order,
    said,
)
from antiphon.conformance.messages_read import blocks, content, pieces, stop, usage
from antiphon.conformance.pieces import calls, joined, meanings
from antiphon.conformance.sayings import STOP_STRING, TIME
from antiphon.conformance.verdict import CLAUDE_CODE, EVERYONE, OPENCLAW, OPENCODE, PI, SDK_ANTHROPIC, Check, checker, equal, require

CHECKS: list[Check] = []
check = checker(CHECKS)


def _ends(exchange: Exchange, reason: str) -> None:
    answered(exchange)
    equal(stop(exchange)[0], reason, "the stop reason")


@check(
    "M20",
    "two calls in one turn are two blocks",
    why="clients run both and answer both in one message",
    breaks=(CLAUDE_CODE, PI),
    asks=("m.parallel",),
)
def parallel(exchange: Exchange) -> None:
    order(exchange, pieces(exchange))


@check(
    "M21",
    "think, text, call, think, call, text stream in that order",
    why="the order is what the model said; the next prompt is built from it",
    breaks=(CLAUDE_CODE, OPENCODE),
    asks=("m.inter",),
)
def interleaved(exchange: Exchange) -> None:
    order(exchange, pieces(exchange))


@check(
    "M22",
    "the same turn has that order in a whole body",
    why="the fallback without streaming is the same session",
    breaks=(CLAUDE_CODE, SDK_ANTHROPIC),
    asks=("m.inter.unary",),
)
def interleaved_unary(exchange: Exchange) -> None:
    order(exchange, pieces(exchange))


@check(
    "M23",
    "a plain answer ends with end_turn",
    why="any other reason starts a recovery",
    breaks=(EVERYONE,),
    asks=("m.text", "m.text.unary"),
)
def end_turn(*exchanges: Exchange) -> None:
    for exchange in exchanges:
        _ends(exchange, "end_turn")


@check(
    "M24",
    "a turn with calls ends with tool_use, also with text behind them",
    why="the vendor's tool runner and several clients run nothing otherwise",
    breaks=(SDK_ANTHROPIC, OPENCLAW),
    asks=("m.call", "m.call.unary", "m.inter"),
)
def tool_use(*exchanges: Exchange) -> None:
    for exchange in exchanges:
        if not calls(pieces(answered(exchange))):
            raise missing(exchange, "no call came")
        _ends(exchange, "tool_use")


@check(
    "M25",
    "the limit ends a turn with max_tokens",
    why="Claude Code tells the model to go on; with end_turn half an answer counts as whole",
    breaks=(CLAUDE_CODE, OPENCLAW),
    asks=("m.limit",),
)
def max_tokens(exchange: Exchange) -> None:
    said(exchange)
    _ends(exchange, "max_tokens")
    require(usage(exchange)["output_tokens"] <= exchange.request["max_tokens"], f"{usage(exchange)['output_tokens']} output tokens")


@check(
    "M26",
    "a stop sequence ends the text before it and is named",
    why="callers tell an end from a stop by it",
    breaks=(SDK_ANTHROPIC,),
    asks=("m.stop", "m.stop.unary"),
)
def stop_sequence(*exchanges: Exchange) -> None:
    for exchange in exchanges:
        said(exchange)
        equal(stop(exchange), ("stop_sequence", STOP_STRING), "stop reason and sequence")
        equal(joined(pieces(exchange), "text"), "Answerone.", "the text before the stop")


@check(
    "M27",
    "a stop sequence within thinking stops nothing",
    why="the answer would be missing",
    breaks=(SDK_ANTHROPIC,),
    asks=("m.stop.thinking",),
)
def stop_in_thinking(exchange: Exchange) -> None:
    said(exchange)
    require(STOP_STRING in joined(pieces(exchange), "reasoning"), "the thinking was cut at the stop sequence")
    require(joined(pieces(exchange), "text"), "no text came behind the thinking")


@check(
    "M28",
    "a call cut by the limit cannot be run, and the turn ends with max_tokens",
    why="pi runs half a command whatever the stop reason says",
    breaks=(PI, SDK_ANTHROPIC),
    asks=("m.cut",),
)
def cut_call(exchange: Exchange) -> None:
    said(exchange)
    cut(exchange, pieces(exchange), "command")
    equal(stop(exchange)[0], "tool_use" if calls(pieces(exchange)) else "max_tokens", "the stop reason")


@check("M29", "tool_choice none: no call, no markup", why="the caller has no way to answer one", breaks=(SDK_ANTHROPIC,), asks=("m.none",))
def choice_none(exchange: Exchange) -> None:
    no_call(exchange, pieces(exchange))
    require(stop(exchange)[0] != "tool_use", "the stop reason is tool_use")


@check("M30", "tool_choice any: a call comes", why="callers index into the calls", breaks=(SDK_ANTHROPIC,), asks=("m.any",))
def choice_any(exchange: Exchange) -> None:
    forced_call(exchange, pieces(exchange))
    _ends(exchange, "tool_use")


@check("M31", "tool_choice tool: that tool is called", why="callers read its arguments unseen", breaks=(SDK_ANTHROPIC,), asks=("m.named",))
def choice_named(exchange: Exchange) -> None:
    forced_call(exchange, pieces(exchange), TIME)
    _ends(exchange, "tool_use")


@check(
    "M32",
    "disable_parallel_tool_use: one call comes",
    why="a caller that runs one call at a time answers only one",
    breaks=(SDK_ANTHROPIC,),
    asks=("m.single",),
)
def one_at_a_time(single: Exchange) -> None:
    one_call(single, pieces(answered(single)))


@check(
    "M41",
    "the same: generation ends with the first call",
    why="what is generated and thrown away costs time and tokens",
    breaks=(EVERYONE,),
    asks=("m.single", "m.parallel"),
)
def ends_with_the_call(single: Exchange, parallel: Exchange) -> None:
    ended_early(single, parallel, usage(answered(single))["output_tokens"], usage(answered(parallel))["output_tokens"])


@check(
    "M33",
    "with thinking the thinking block comes first",
    why="Claude Code asks for adaptive thinking, and budgets of older models, in every request",
    breaks=(CLAUDE_CODE,),
    asks=("m.text", "m.budget"),
)
def thinking_first(*exchanges: Exchange) -> None:
    for exchange in exchanges:
        order(exchange, pieces(exchange))


@check(
    "M34",
    "thinking disabled: no thinking block, no leftover markup, an answer",
    why="side requests switch it off and read the text as it is",
    breaks=(CLAUDE_CODE, OPENCODE),
    asks=("m.off",),
)
def thinking_off(exchange: Exchange) -> None:
    answered(exchange)
    require(all(block["type"] not in ("thinking", "redacted_thinking") for block in content(exchange)), "a thinking block came")
    no_markup(exchange, pieces(exchange))
    require(joined(pieces(exchange), "text"), "no text came")


@check(
    "M35",
    "display omitted: the thinking text stays away, its signed block does not",
    why="Claude Code asks for it in print mode; pi drops blocks whose text is blank",
    breaks=(CLAUDE_CODE, PI),
    asks=("m.omitted",),
)
def display_omitted(exchange: Exchange) -> None:
    said(exchange)
    found = [block for block in content(exchange) if block["type"] == "thinking"]
    require(found, "no thinking block came")
    require(found[0]["signature"], "the signature is empty")
    require(not joined(pieces(exchange), "reasoning"), f"the thinking is shown: {found[0]['thinking'][:80]!r}")
    require(found[0]["thinking"] != "", "the thinking text is empty, which one client takes as no block at all")


@check(
    "M36",
    "output_config.format: the text is JSON of the schema",
    why="Claude Code names its sessions so",
    breaks=(CLAUDE_CODE,),
    asks=("m.format",),
)
def structured(exchange: Exchange) -> None:
    fits_schema(exchange, pieces(answered(exchange)))


@check(
    "M37",
    "arguments arrive byte for byte: indentation, entities, large numbers",
    why="edit tools compare strings exactly; a lost indent fails every edit",
    breaks=(EVERYONE,),
    asks=("m.exact",),
)
def exact_arguments(exchange: Exchange) -> None:
    expected = meanings(calls(said(exchange).pieces()))
    equal(meanings(calls(pieces(exchange))), expected, "the call")


@check(
    "M38",
    "no control text of the model reaches the client",
    why="agents show it, and send it back into the next prompt",
    breaks=(EVERYONE,),
    asks=("m.text", "m.call", "m.inter", "m.inter.unary"),
)
def markup(*exchanges: Exchange) -> None:
    for exchange in exchanges:
        no_markup(exchange, pieces(answered(exchange)))


@check(
    "M39",
    "a call leaves when it is complete, not with what follows",
    why="the harness runs the tool while the model still writes",
    breaks=(EVERYONE,),
    asks=("m.lead",),
)
def dispatch(exchange: Exchange) -> None:
    said(exchange)
    found = blocks(exchange)
    call = next((block for block in found if block.start["type"] == "tool_use"), None)
    following = next((block.opened_at for block in found if call and block.index > call.index), None)
    dispatched(exchange, call.stopped_at if call else None, following, exchange.ended_at)


@check(
    "M40",
    "a silent stream is kept alive by the clock",
    why="Claude Code gives up after 20 s without a byte",
    breaks=(CLAUDE_CODE,),
    asks=("m.slow",),
)
def keep_alive(exchange: Exchange) -> None:
    kept_alive(exchange, exchange.silence, [chunk.at for chunk in exchange.chunks], "a byte")
