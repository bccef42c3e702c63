"""Checks of what Messages accepts, counts and refuses."""

import re

from antiphon.conformance.exchange import Exchange, answered
from antiphon.conformance.judging import accepted, cached, missing, said, same_count
from antiphon.conformance.messages_read import pieces, prompt_tokens, usage
from antiphon.conformance.pieces import calls, joined
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
    known,
    require,
)

CHECKS: list[Check] = []
check = checker(CHECKS)


def refused(exchange: Exchange, status: int, kind: str) -> str:
    """The vendor's error envelope with status and type; the message."""
    answered(exchange, status)
    require(
        exchange.headers.get("content-type", "").startswith("application/json"), f"an error is {exchange.headers.get('content-type')!r}"
    )
    body = exchange.json()
    require(body.get("type") == "error" and isinstance(body.get("error"), dict), f"not the vendor's envelope: {exchange.excerpt()}")
    equal(body["error"]["type"], kind, "the error's type")
    require(body["error"]["message"], "the error has no message")
    return str(body["error"]["message"])


def _asked(exchange: Exchange) -> Exchange:
    known(exchange.status != 0, exchange.failure)
    return exchange


@check(
    "M50",
    "a body with every key of Claude Code is accepted",
    why="a 400 on context_management, output_config, thinking or a system message ends the session",
    breaks=(CLAUDE_CODE,),
    asks=("m.client",),
)
def claude_code_body(exchange: Exchange) -> None:
    accepted(exchange)
    if not calls(pieces(exchange)):
        raise missing(exchange, "no call came")


@check(
    "M51",
    "a system message between messages is accepted, and is one text as string or list",
    why="Claude Code sends its agents there, as a list in one turn and as a string in the next",
    breaks=(CLAUDE_CODE,),
    asks=("m.mid", "m.mid.list"),
)
def mid_system(string: Exchange, parts: Exchange) -> None:
    accepted(string)
    accepted(parts)
    equal(prompt_tokens(usage(parts)), prompt_tokens(usage(string)), "the prompt with the list")


@check(
    "M52",
    "foreign signatures and redacted thinking in the history are accepted",
    why="a session may have begun elsewhere",
    breaks=(CLAUDE_CODE,),
    asks=("m.foreign",),
)
def foreign_thinking(exchange: Exchange) -> None:
    accepted(exchange)


@check(
    "M53",
    "blank text blocks in the history are accepted",
    why="clients replay what other servers sent",
    breaks=(OPENCODE, SDK_ANTHROPIC),
    asks=("m.blank",),
)
def blank_history(exchange: Exchange) -> None:
    accepted(exchange)


@check(
    "M54",
    "deferred tools and tool_reference results are accepted",
    why="tool search is on by default in Claude Code 2.1.332",
    breaks=(CLAUDE_CODE,),
    asks=("m.deferred",),
)
def deferred_tools(exchange: Exchange) -> None:
    accepted(exchange)


@check(
    "M55",
    "server tools are accepted beside others",
    why="the web search of Claude Code is a request with only such a tool; plain text satisfies it",
    breaks=(CLAUDE_CODE,),
    asks=("m.server_tool",),
)
def server_tools(exchange: Exchange) -> None:
    accepted(exchange)


@check(
    "M56",
    "an image is seen, or refused with a 400 that names it",
    why="dropped without a word the model answers about nothing",
    breaks=(CLAUDE_CODE,),
    asks=("m.image",),
)
def image(exchange: Exchange) -> None:
    if exchange.status == 200:
        known(False, "the request was taken; whether the model saw the image is not known")
    require(
        "image" in refused(exchange, 400, "invalid_request_error").lower(), f"the message does not name the image: {exchange.excerpt()}"
    )


@check(
    "M57",
    "a server-side thread that does not exist is refused so that the SDK starts over",
    why="the tool runner sends only the new message; an ignored `thread` loses the conversation in silence",
    breaks=(SDK_ANTHROPIC,),
    asks=("m.thread",),
)
def threads(exchange: Exchange) -> None:
    require(exchange.status != 200, "the field `thread` was ignored")
    code = exchange.json()["error"].get("details", {}).get("error_code")
    require(code in ("thread_not_found", "thread_unsupported_request"), f"error.details.error_code is {code!r}")


@check(
    "M60",
    "string and one-element list are one text",
    why="clients change the form from turn to turn; the prefix must not",
    breaks=(CLAUDE_CODE,),
    asks=("m.count.string", "m.count.list"),
)
def content_forms(string: Exchange, parts: Exchange) -> None:
    same_count(string, parts, "as a list")


@check(
    "M61",
    "cache_control leaves no trace in the prompt",
    why="the mark moves every turn and would break the prefix",
    breaks=(CLAUDE_CODE,),
    asks=("m.count.list", "m.count.cached"),
)
def cache_control(plain: Exchange, marked: Exchange) -> None:
    same_count(plain, marked, "with cache_control")


@check(
    "M62",
    "the billing header is not part of the prompt",
    why="it changes with every prompt and sub-agent, and so the prefix cache misses from the first tokens",
    breaks=(CLAUDE_CODE,),
    asks=("m.count.system", "m.count.billing", "m.count.billing2"),
)
def billing_header(plain: Exchange, first: Exchange, second: Exchange) -> None:
    same_count(plain, first, "with a billing header")
    same_count(plain, second, "with another billing header")


@check(
    "M63",
    "a tool result is one text as string or list, and may be empty",
    why="clients use both forms",
    breaks=(CLAUDE_CODE, OPENCODE),
    asks=("m.count.result", "m.count.result.list", "m.count.result.empty"),
)
def result_forms(string: Exchange, parts: Exchange, empty: Exchange) -> None:
    same_count(string, parts, "with the result as a list")
    require(answered(empty).json()["input_tokens"] < string.json()["input_tokens"], "the text of a result is not in the prompt")


@check(
    "M64",
    "is_error reaches the model",
    why="without it the model takes an error text for output",
    breaks=(CLAUDE_CODE,),
    asks=("m.count.result", "m.count.result.error"),
)
def result_errors(plain: Exchange, failed: Exchange) -> None:
    one, two = (answered(exchange).json()["input_tokens"] for exchange in (plain, failed))
    require(two != one, "the prompt is the same with and without is_error")


@check(
    "M65",
    "the answer sent back with its results is accepted and grows the prompt by the whole turn",
    why="every second request of every agent",
    breaks=(EVERYONE,),
    asks=("m.call", "m.call.replay", "m.inter", "m.inter.replay"),
)
def replay(*exchanges: Exchange) -> None:
    for first, second in (exchanges[:2], exchanges[2:]):
        answered(first)
        accepted(_asked(second))
        before, after = usage(first), usage(second)
        least = prompt_tokens(before) + before["output_tokens"]
        require(
            prompt_tokens(after) >= least,
            f"{prompt_tokens(after)} prompt tokens behind a turn that ended at {least}: something was dropped",
        )


@check(
    "M66",
    "the second turn finds the first one's prompt in the cache",
    why="a prefix that moves costs the whole prompt again, every turn",
    breaks=(CLAUDE_CODE, OPENCLAW, PI),
    asks=("m.call", "m.call.replay"),
)
def replay_cached(first: Exchange, second: Exchange) -> None:
    answered(first)
    counts = usage(answered(_asked(second)))
    cached(second, counts.get("cache_read_input_tokens") or None, prompt_tokens(counts), prompt_tokens(usage(first)))


@check(
    "M67",
    "the turn behind a result is answered",
    why="a lost result makes the model call again without end",
    breaks=(EVERYONE,),
    asks=("m.call.replay",),
)
def replay_answer(exchange: Exchange) -> None:
    expected = said(_asked(exchange)).pieces()
    equal(joined(pieces(exchange), "text"), joined(expected, "text"), "the text behind the result")


@check(
    "M58",
    "more output tokens than the context has room for are cut down, not refused",
    why="clients ask for 32,000 and more, whatever the model",
    breaks=(
        CLAUDE_CODE,
        OPENCODE,
    ),
    asks=("m.greedy",),
)
def greedy(exchange: Exchange) -> None:
    accepted(_asked(exchange))


@check("M70", "bad JSON: 400 in the vendor's envelope", why="clients show error.message", breaks=(CLAUDE_CODE,), asks=("m.e.json",))
def bad_json(exchange: Exchange) -> None:
    refused(exchange, 400, "invalid_request_error")


@check(
    "M71",
    "an unknown model: 404 not_found_error",
    why="Claude Code says what is wrong only for a 404",
    breaks=(CLAUDE_CODE,),
    asks=("m.e.model",),
)
def unknown_model(exchange: Exchange) -> None:
    refused(exchange, 404, "not_found_error")


@check(
    "M72", "max_tokens missing: 400 that names it", why="callers must see what to mend", breaks=(SDK_ANTHROPIC,), asks=("m.e.max_tokens",)
)
def no_max_tokens(exchange: Exchange) -> None:
    require("max_tokens" in refused(exchange, 400, "invalid_request_error"), "the message does not name max_tokens")


@check("M73", "no messages: 400", why="an empty prompt must not reach the model", breaks=(SDK_ANTHROPIC,), asks=("m.e.empty",))
def no_messages(exchange: Exchange) -> None:
    refused(exchange, 400, "invalid_request_error")


@check(
    "M74",
    "tool_choice for a tool that is not there: 400",
    why="ignored, the caller waits for it",
    breaks=(SDK_ANTHROPIC,),
    asks=("m.e.tool",),
)
def unknown_tool(exchange: Exchange) -> None:
    refused(exchange, 400, "invalid_request_error")


@check(
    "M75",
    "a prompt that is too long: 400 `prompt is too long: N tokens > M maximum`",
    why="Claude Code compacts on exactly this text, and loops without it",
    breaks=(CLAUDE_CODE,),
    asks=("m.e.long",),
)
def too_long(exchange: Exchange) -> None:
    message = refused(_asked(exchange), 400, "invalid_request_error")
    require(re.match(r"prompt is too long: \d+ tokens > \d+ maximum", message), f"the message is {message[:120]!r}")
