"""Checks of Responses turns: order, ends, choices, kinds of tools, timing."""

from antiphon.conformance.exchange import Exchange, answered
from antiphon.conformance.judging import (
    cut,
    dispatched,
    ended_early,
    fits_schema,
    forced_call,
    kept_alive,
    no_call,
    no_markup,
    one_call,
    order,
    said,
)
from antiphon.conformance.pieces import calls, joined, meanings
from antiphon.conformance.responses_read import events, final, items, pieces, usage
from antiphon.conformance.responses_stream import by_item, done_of
from antiphon.conformance.sayings import NAMESPACE, PATCH, PATCH_TEXT, READ, TIME
from antiphon.conformance.verdict import AGENTS, CODEX, EVERYONE, OPENCLAW, OPENCODE, PI, SDK_OPENAI, Check, checker, equal, require

CHECKS: list[Check] = []
check = checker(CHECKS)


@check("R20", "two calls in one turn are two items", why="clients run both", breaks=(PI, CODEX), asks=("r.parallel",))
def parallel(exchange: Exchange) -> None:
    order(exchange, pieces(exchange))


@check(
    "R21",
    "think, text, call, think, call, text stream in that order; text behind a call is a new item",
    why="text put back into an item that is done is lost",
    breaks=(CODEX, OPENCODE, PI),
    asks=("r.inter",),
)
def interleaved(exchange: Exchange) -> None:
    order(exchange, pieces(exchange))


@check(
    "R22",
    "the same turn has that order in a whole body",
    why="openai-agents asks for bodies and replays their order",
    breaks=(AGENTS,),
    asks=("r.inter.unary",),
)
def interleaved_unary(exchange: Exchange) -> None:
    order(exchange, pieces(exchange))


@check(
    "R23",
    "the limit ends a turn with response.incomplete, reason max_output_tokens",
    why="as completed, half an answer counts as whole",
    breaks=(CODEX, OPENCLAW),
    asks=("r.limit", "r.limit.unary"),
)
def incomplete(*exchanges: Exchange) -> None:
    for exchange in exchanges:
        said(exchange)
        response = final(exchange)
        equal(response["status"], "incomplete", "the status")
        equal(response["incomplete_details"]["reason"], "max_output_tokens", "the reason")
        require(usage(exchange)["output_tokens"] <= exchange.request["max_output_tokens"], f"the usage is {usage(exchange)}")
    equal(events(exchanges[0])[-1].kind, "response.incomplete", "the last event")


@check(
    "R24",
    "a call cut by the limit cannot be run",
    why="pi runs what it can parse of the deltas; Codex acts on the item before the end",
    breaks=(PI, CODEX),
    asks=("r.cut",),
)
def cut_call(exchange: Exchange) -> None:
    said(exchange)
    cut(exchange, pieces(exchange), "command")
    opened = [event for event in events(exchange) if event.kind == "response.output_item.added"]
    equal(len(items(exchange)), len(opened), "the number of finished items (beside those that were opened)")
    if not calls(pieces(exchange)):
        equal(final(exchange)["status"], "incomplete", "the status")


@check("R25", "tool_choice none: no call, no markup", why="the caller has no way to answer one", breaks=(SDK_OPENAI,), asks=("r.none",))
def choice_none(exchange: Exchange) -> None:
    no_call(exchange, pieces(exchange))


@check("R26", "tool_choice required: a call comes", why="callers index into the calls", breaks=(AGENTS,), asks=("r.required",))
def choice_required(exchange: Exchange) -> None:
    forced_call(exchange, pieces(exchange))


@check("R27", "tool_choice function: that one is called", why="callers read its arguments unseen", breaks=(AGENTS,), asks=("r.named",))
def choice_named(exchange: Exchange) -> None:
    forced_call(exchange, pieces(exchange), TIME)


@check(
    "R28",
    "parallel_tool_calls false: one call comes",
    why="a caller that runs one call at a time answers only one",
    breaks=(CODEX,),
    asks=("r.single",),
)
def one_at_a_time(single: Exchange) -> None:
    one_call(single, pieces(answered(single)))


@check(
    "R38",
    "the same: generation ends with the first call",
    why="what is generated and thrown away costs time and tokens",
    breaks=(EVERYONE,),
    asks=("r.single", "r.parallel"),
)
def ends_with_the_call(single: Exchange, parallel: Exchange) -> None:
    ended_early(single, parallel, usage(answered(single))["output_tokens"], usage(answered(parallel))["output_tokens"])


@check(
    "R29",
    "a custom tool comes back as custom_tool_call with raw input and its own events",
    why="as function_call Codex refuses the payload and the edit never happens",
    breaks=(CODEX,),
    asks=("r.custom",),
)
def custom_tool(exchange: Exchange) -> None:
    item = done_of(exchange, "custom_tool_call")[0]
    equal(item["name"], PATCH, "the tool")
    if exchange.said is not None:
        equal(item["input"].strip(), PATCH_TEXT, "the input")
    found = by_item(exchange)[items(exchange).index(item)]
    deltas = "".join(event.data["delta"] for event in found if event.kind == "response.custom_tool_call_input.delta")
    done = [event.data["input"] for event in found if event.kind == "response.custom_tool_call_input.done"]
    equal((deltas, done), (item["input"], [item["input"]]), "custom_tool_call_input delta and done")


@check(
    "R30",
    "a tool of a namespace comes back with its namespace and its own name",
    why="Codex calls an unknown tool otherwise",
    breaks=(CODEX,),
    asks=("r.namespace",),
)
def namespaced(exchange: Exchange) -> None:
    item = done_of(exchange, "function_call")[0]
    equal((item.get("namespace"), item["name"]), (NAMESPACE, READ), "namespace and name")


@check(
    "R31",
    "text.format json_schema: the text is JSON of the schema",
    why="callers parse it unseen",
    breaks=(SDK_OPENAI,),
    asks=("r.format",),
)
def structured(exchange: Exchange) -> None:
    fits_schema(exchange, pieces(answered(exchange)))


@check(
    "R32",
    "text arrives character for character",
    why="a character cut between two tokens must stay whole",
    breaks=(EVERYONE,),
    asks=("r.unicode",),
)
def unicode_text(exchange: Exchange) -> None:
    equal(joined(pieces(exchange), "text"), joined(said(exchange).pieces(), "text"), "the text")


@check(
    "R33",
    "arguments arrive byte for byte: indentation, entities, large numbers and their spelling",
    why="edit tools compare strings exactly",
    breaks=(EVERYONE,),
    asks=("r.exact",),
)
def exact_arguments(exchange: Exchange) -> None:
    equal(meanings(calls(pieces(exchange))), meanings(calls(said(exchange).pieces())), "the call")
    require("1.10" in calls(pieces(exchange))[0].arguments, "the spelling of the number 1.10 was changed")


@check(
    "R34",
    "no control text of the model reaches the client",
    why="agents show it, and send it back into the next prompt",
    breaks=(EVERYONE,),
    asks=("r.text", "r.call", "r.inter", "r.inter.unary"),
)
def markup(*exchanges: Exchange) -> None:
    for exchange in exchanges:
        no_markup(exchange, pieces(answered(exchange)))


@check(
    "R35",
    "a call is done when it is complete, not with what follows or at the end",
    why="Codex runs a tool on output_item.done, while the model still writes",
    breaks=(CODEX,),
    asks=("r.lead",),
)
def dispatch(exchange: Exchange) -> None:
    said(exchange)
    found = events(exchange)
    done = next((place for place, event in enumerate(found) if _is_done_call(event.kind, event.data)), None)
    whole = found[done].at if done is not None else None
    begun = [event.at for event in found if event.kind == "response.output_text.delta" and event.data["delta"].strip()]
    dispatched(exchange, whole, begun[0] if begun else None, exchange.ended_at)


def _is_done_call(kind: str, data: dict[str, object]) -> bool:
    item = data.get("item")
    return kind == "response.output_item.done" and isinstance(item, dict) and item["type"] == "function_call"


@check(
    "R36",
    "a silent stream is kept alive by data events",
    why="comments do not reset Codex's idle timer",
    breaks=(CODEX,),
    asks=("r.slow",),
)
def keep_alive(exchange: Exchange) -> None:
    kept_alive(exchange, exchange.silence, [frame.at for frame in exchange.events()], "a data event")


@check("R37", "a plain answer is completed", why="any other end is a failure to Codex", breaks=(CODEX,), asks=("r.text", "r.text.unary"))
def completed(*exchanges: Exchange) -> None:
    for exchange in exchanges:
        equal(final(answered(exchange))["status"], "completed", "the status")
        require(joined(pieces(exchange), "text"), "no text came")
