"""Checks of what Responses accepts, keeps and refuses."""

from typing import Any

from antiphon.conformance.exchange import Exchange, answered
from antiphon.conformance.judging import accepted, cached, missing, said
from antiphon.conformance.pieces import calls, joined
from antiphon.conformance.responses_read import final, items, pieces, usage
from antiphon.conformance.verdict import AGENTS, CODEX, OPENCLAW, OPENCODE, PI, SDK_OPENAI, Check, checker, equal, known, require

CHECKS: list[Check] = []
check = checker(CHECKS)
_RUNNING = ("queued", "in_progress", "completed")


def refused(exchange: Exchange, *statuses: int) -> dict[str, Any]:
    """The vendor's envelope with one of the statuses; its `error` object."""
    require(exchange.status in statuses, f"answered {exchange.status}, not {statuses}: {exchange.excerpt()}")
    require(
        exchange.headers.get("content-type", "").startswith("application/json"), f"an error is {exchange.headers.get('content-type')!r}"
    )
    error = exchange.json().get("error")
    require(isinstance(error, dict) and error.get("message"), f"the body has no error object with a message: {exchange.excerpt()}")
    require({"type", "code", "param"} <= {*error}, f"the error has only {', '.join(error)}")
    return dict(error)


def _asked(exchange: Exchange) -> Exchange:
    known(exchange.status != 0, exchange.failure)
    return exchange


@check(
    "R50",
    "a body with every key of Codex is accepted",
    why="Codex ends on any 400: client_metadata, prompt_cache_key, include and namespaces come with every request",
    breaks=(CODEX,),
    asks=("r.codex",),
)
def codex_body(exchange: Exchange) -> None:
    accepted(exchange)
    if not calls(pieces(exchange)):
        raise missing(exchange, "no call came")


@check(
    "R51",
    "the output sent back with its results is accepted and grows the prompt by the whole turn",
    why="every second request of every agent",
    breaks=(CODEX, PI),
    asks=("r.call", "r.call.replay", "r.inter", "r.inter.replay"),
)
def replay(*exchanges: Exchange) -> None:
    for first, second in (exchanges[:2], exchanges[2:]):
        answered(first)
        accepted(_asked(second))
        least = usage(first)["total_tokens"]
        require(
            usage(second)["input_tokens"] >= least, f"{usage(second)['input_tokens']} prompt tokens behind a turn that ended at {least}"
        )


@check(
    "R52",
    "the same without item ids",
    why="OpenCode and OpenClaw drop them; reasoning without an id was refused",
    breaks=(OPENCODE, OPENCLAW),
    asks=("r.call.replay", "r.call.bare"),
)
def replay_bare(whole: Exchange, bare: Exchange) -> None:
    accepted(_asked(bare))
    equal(usage(bare)["input_tokens"], usage(answered(_asked(whole)))["input_tokens"], "the prompt")


@check(
    "R53",
    "the same with assistant messages that name no type",
    why="OpenCode sends them so",
    breaks=(OPENCODE,),
    asks=("r.call.replay", "r.call.untyped"),
)
def replay_untyped(whole: Exchange, untyped: Exchange) -> None:
    accepted(_asked(untyped))
    equal(usage(untyped)["input_tokens"], usage(answered(_asked(whole)))["input_tokens"], "the prompt")


@check(
    "R54",
    "the turn behind a result is answered",
    why="a lost result makes the model call again without end",
    breaks=(CODEX,),
    asks=("r.call.replay",),
)
def replay_answer(exchange: Exchange) -> None:
    expected = said(_asked(exchange)).pieces()
    equal(joined(pieces(exchange), "text"), joined(expected, "text"), "the text behind the result")


@check(
    "R55",
    "the second turn finds the first one's prompt in the cache",
    why="a prefix that moves costs the whole prompt again, every turn",
    breaks=(CODEX, OPENCLAW),
    asks=("r.call", "r.call.replay"),
)
def replay_cached(first: Exchange, second: Exchange) -> None:
    answered(first)
    counts = usage(answered(_asked(second)))
    tokens = counts["input_tokens_details"]["cached_tokens"]
    cached(second, tokens or None, counts["input_tokens"], usage(first)["input_tokens"])


@check(
    "R56",
    "string content and content parts are one text",
    why="clients use both forms",
    breaks=(OPENCODE,),
    asks=("r.string", "r.parts"),
)
def content_forms(string: Exchange, parts: Exchange) -> None:
    accepted(string)
    accepted(parts)
    equal(usage(parts)["input_tokens"], usage(string)["input_tokens"], "the prompt with parts")


@check(
    "R57", "a developer message late in the input is accepted", why="Codex sends one after compaction", breaks=(CODEX,), asks=("r.late",)
)
def late_developer(exchange: Exchange) -> None:
    accepted(exchange)


@check(
    "R58",
    "reasoning with a foreign encrypted_content is accepted",
    why="a session may have begun elsewhere",
    breaks=(CODEX,),
    asks=("r.foreign",),
)
def foreign_reasoning(exchange: Exchange) -> None:
    accepted(exchange)


@check(
    "R59",
    "a web_search tool is accepted beside others",
    why="Codex offers one in every request unless it is switched off",
    breaks=(CODEX,),
    asks=("r.web_search",),
)
def web_search(exchange: Exchange) -> None:
    accepted(exchange)


@check(
    "R60",
    "previous_response_id stands for the whole conversation",
    why="SDK sessions send only what is new",
    breaks=(SDK_OPENAI, CODEX),
    asks=("r.continued", "r.whole"),
)
def previous_response(continued: Exchange, whole: Exchange) -> None:
    accepted(_asked(continued))
    equal(usage(continued)["input_tokens"], usage(answered(_asked(whole)))["input_tokens"], "the prompt")


@check(
    "R61",
    "an unknown previous_response_id is refused",
    why="ignored, the model answers without the conversation",
    breaks=(SDK_OPENAI,),
    asks=("r.e.previous",),
)
def unknown_previous(exchange: Exchange) -> None:
    refused(exchange, 400, 404)


@check(
    "R62", "a stored response can be read again", why="background and resuming clients do", breaks=(SDK_OPENAI,), asks=("r.stored", "r.get")
)
def retrieve(stored: Exchange, got: Exchange) -> None:
    body, kept = answered(_asked(got)).json(), final(answered(stored))
    for key in ("id", "object", "status", "output", "usage"):
        equal(body[key], kept[key], f"`{key}` of the stored response")


@check(
    "R63",
    "its input items can be listed",
    why="clients rebuild a conversation from them",
    breaks=(SDK_OPENAI,),
    asks=("r.stored", "r.items"),
)
def input_items(stored: Exchange, listed: Exchange) -> None:
    body = answered(_asked(listed)).json()
    equal(body["object"], "list", "the object")
    equal(len(body["data"]), len(stored.request["input"]), "the number of input items")
    require(all(item.get("id") for item in body["data"]), "an item without id")


@check(
    "R64",
    "it can be deleted, and is gone then",
    why="people delete what they must not keep",
    breaks=(SDK_OPENAI,),
    asks=("r.delete", "r.deleted"),
)
def delete(deleted: Exchange, gone: Exchange) -> None:
    require(answered(_asked(deleted)).json()["deleted"] is True, "`deleted` is not true")
    require(_asked(gone).status == 404, f"the deleted response is answered with {gone.status}")


@check("R65", "store false: nothing is kept", why="Codex asks for it in every request", breaks=(CODEX,), asks=("r.text", "r.unstored"))
def not_stored(turn: Exchange, got: Exchange) -> None:
    answered(turn)
    require(_asked(got).status == 404, f"the response is answered with {got.status}")


@check(
    "R66",
    "/responses/compact answers with exactly one compaction item",
    why="Codex has no other way when its window is full",
    breaks=(CODEX,),
    asks=("r.compact",),
)
def compact(exchange: Exchange) -> None:
    kinds = [item["type"] for item in answered(exchange).json()["output"]]
    equal(kinds.count("compaction"), 1, "the number of compaction items")


@check("R67", "a compacted conversation goes on", why="the next turn sends the item back", breaks=(CODEX,), asks=("r.compacted",))
def compacted(exchange: Exchange) -> None:
    accepted(_asked(exchange))
    require(joined(pieces(exchange), "text"), "no text came")


@check(
    "R68",
    "a compaction_trigger item is answered with exactly one compaction item",
    why="Codex compacts so with its own provider",
    breaks=(CODEX,),
    asks=("r.trigger",),
)
def trigger(exchange: Exchange) -> None:
    kinds = [item["type"] for item in items(answered(exchange))]
    equal(kinds.count("compaction"), 1, "the number of compaction items")


@check(
    "R69",
    "a WebSocket is taken (101) or refused with 426",
    why="behind any other status Codex tries for seven seconds",
    breaks=(CODEX,),
    asks=("r.socket",),
)
def socket(exchange: Exchange) -> None:
    require(exchange.status in (101, 426), f"answered {exchange.status}")


@check(
    "R40",
    "more output tokens than the context has room for are cut down, not refused",
    why="clients ask for 32,000 and more, whatever the model",
    breaks=(
        OPENCODE,
        PI,
    ),
    asks=("r.greedy",),
)
def greedy(exchange: Exchange) -> None:
    accepted(_asked(exchange))


@check(
    "R41",
    "input may be a string, instructions stand beside it and reach the prompt; without `stream` and `store` the answer is whole",
    why="openai-agents asks so",
    breaks=(AGENTS,),
    asks=("r.instructions", "r.text"),
)
def instructions(exchange: Exchange, plain: Exchange) -> None:
    accepted(exchange)
    require(joined(pieces(exchange), "text"), "no text came")
    require(usage(exchange)["input_tokens"] > usage(answered(plain))["input_tokens"], "the instructions are not in the prompt")


@check(
    "R42",
    "background: the answer is a stored response that can be asked for",
    why="long turns outlive connections",
    breaks=(SDK_OPENAI,),
    asks=("r.background", "r.background.get"),
)
def background(begun: Exchange, got: Exchange) -> None:
    require(answered(begun).json()["status"] in _RUNNING, f"the status is {begun.json()['status']!r}")
    body = answered(_asked(got)).json()
    equal(body["id"], begun.json()["id"], "the id of the stored response")
    require(body["status"] in _RUNNING, f"the status is {body['status']!r}")


@check("R70", "bad JSON: 400 in the vendor's envelope", why="SDKs show error.message", breaks=(SDK_OPENAI,), asks=("r.e.json",))
def bad_json(exchange: Exchange) -> None:
    refused(exchange, 400)


@check(
    "R71",
    "an unknown model: 404, code model_not_found",
    why="clients name the model only then",
    breaks=(SDK_OPENAI, CODEX),
    asks=("r.e.model",),
)
def unknown_model(exchange: Exchange) -> None:
    equal(refused(exchange, 404)["code"], "model_not_found", "the code")


@check("R72", "input missing: 400", why="an empty prompt must not reach the model", breaks=(AGENTS,), asks=("r.e.input",))
def no_input(exchange: Exchange) -> None:
    refused(exchange, 400)


@check(
    "R73",
    "a prompt that is too long: 400, code context_length_exceeded",
    why="OpenCode and pi compact on it; a 500 is tried again thirty times",
    breaks=(OPENCODE, PI, CODEX),
    asks=("r.e.long",),
)
def too_long(exchange: Exchange) -> None:
    equal(refused(_asked(exchange), 400)["code"], "context_length_exceeded", "the code")
