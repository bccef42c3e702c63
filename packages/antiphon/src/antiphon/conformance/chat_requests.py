"""Checks of what Chat accepts and refuses."""

from antiphon.conformance.chat_read import pieces, usage
from antiphon.conformance.exchange import Exchange, answered
from antiphon.conformance.judging import accepted, cached, said
from antiphon.conformance.pieces import joined
from antiphon.conformance.responses_requests import refused
from antiphon.conformance.verdict import EVERYONE, OPENCLAW, OPENCODE, PI, SDK_OPENAI, Check, checker, equal, known, require

CHECKS: list[Check] = []
check = checker(CHECKS)


def _asked(exchange: Exchange) -> Exchange:
    known(exchange.status != 0, exchange.failure)
    return exchange


def _prompt(exchange: Exchange) -> int:
    return int(usage(answered(_asked(exchange)))["prompt_tokens"])


@check(
    "C50",
    "the message sent back with its results is accepted and grows the prompt by the whole turn",
    why="every second request of every agent",
    breaks=(EVERYONE,),
    asks=("c.call", "c.call.replay"),
)
def replay(first: Exchange, second: Exchange) -> None:
    answered(first)
    accepted(_asked(second))
    require(
        _prompt(second) >= usage(first)["total_tokens"],
        f"{_prompt(second)} prompt tokens behind a turn that ended at {usage(first)['total_tokens']}",
    )


@check(
    "C51",
    "reasoning is accepted back as reasoning_content and as reasoning, and reaches the prompt",
    why="pi sends the key it got, OpenCode always reasoning_content",
    breaks=(PI, OPENCODE),
    asks=("c.call.replay", "c.call.renamed", "c.call.foreign", "c.call.silent"),
)
def reasoning_back(whole: Exchange, renamed: Exchange, foreign: Exchange, silent: Exchange) -> None:
    equal(_prompt(renamed), _prompt(whole), "the prompt with the reasoning under `reasoning`")
    require(_prompt(silent) < _prompt(foreign), "the reasoning of the last turn is not in the prompt")


@check(
    "C52",
    "ids without their punctuation, arguments spaced anew and a stray index are one prompt",
    why="OpenClaw strips ids, SDKs leave the index in",
    breaks=(OPENCLAW, SDK_OPENAI),
    asks=("c.call.replay", "c.call.folded"),
)
def folded_ids(whole: Exchange, folded: Exchange) -> None:
    equal(_prompt(folded), _prompt(whole), "the prompt")


@check(
    "C53",
    "the turn behind a result is answered",
    why="a lost result makes the model call again",
    breaks=(EVERYONE,),
    asks=("c.call.replay",),
)
def replay_answer(exchange: Exchange) -> None:
    expected = said(_asked(exchange)).pieces()
    equal(joined(pieces(exchange), "text"), joined(expected, "text"), "the text behind the result")


@check(
    "C54",
    "the second turn finds the first one's prompt in the cache",
    why="a moved prefix costs the whole prompt again",
    breaks=(OPENCLAW, OPENCODE),
    asks=("c.call", "c.call.replay"),
)
def replay_cached(first: Exchange, second: Exchange) -> None:
    counts = usage(answered(_asked(second)))
    tokens = (counts.get("prompt_tokens_details") or {}).get("cached_tokens")
    cached(second, tokens or None, counts["prompt_tokens"], usage(answered(first))["prompt_tokens"])


@check("C55", "the role developer is accepted", why="pi sends the system prompt so", breaks=(PI,), asks=("c.developer", "c.text"))
def developer(exchange: Exchange, plain: Exchange) -> None:
    accepted(exchange)
    require(_prompt(exchange) > _prompt(plain), "the developer's text is not in the prompt")


@check(
    "C56", "a system message between messages is accepted", why="agents add notes behind tool results", breaks=(EVERYONE,), asks=("c.late",)
)
def late_system(exchange: Exchange) -> None:
    accepted(exchange)


@check("C57", "string and text parts are one text", why="clients use both forms", breaks=(OPENCODE,), asks=("c.text", "c.parts"))
def content_forms(string: Exchange, parts: Exchange) -> None:
    equal(_prompt(parts), _prompt(string), "the prompt with parts")


@check(
    "C58",
    "a past call with broken arguments does not end the session",
    why="the model wrote it once; every later request has it",
    breaks=(EVERYONE,),
    asks=("c.broken", "c.null"),
)
def broken_history(*exchanges: Exchange) -> None:
    for exchange in exchanges:
        accepted(exchange)


@check("C59", "tools with $ref and $defs are accepted", why="tool servers write them", breaks=(EVERYONE,), asks=("c.refs",))
def references(exchange: Exchange) -> None:
    accepted(exchange)


@check(
    "C60",
    "the body of pi is accepted",
    why="it sends store and reasoning_effort; one 400 is fatal",
    breaks=(PI,),
    asks=("c.pi",),
)
def pi_body(exchange: Exchange) -> None:
    accepted(exchange)


@check(
    "C61",
    "fields nobody knows are accepted",
    why="clients grow fields faster than servers; one 400 ends the session",
    breaks=(EVERYONE,),
    asks=("c.unknown",),
)
def unknown_fields(exchange: Exchange) -> None:
    accepted(exchange)


@check(
    "C62",
    "more output tokens than the context has room for are cut down, not refused",
    why="clients ask for 32,000 and more, whatever the model",
    breaks=(
        OPENCODE,
        PI,
    ),
    asks=("c.greedy",),
)
def greedy(exchange: Exchange) -> None:
    accepted(_asked(exchange))


@check("C70", "bad JSON: 400 in the vendor's envelope", why="SDKs show error.message", breaks=(SDK_OPENAI,), asks=("c.e.json",))
def bad_json(exchange: Exchange) -> None:
    refused(exchange, 400)


@check(
    "C71", "an unknown model: 404, code model_not_found", why="clients name the model only then", breaks=(SDK_OPENAI,), asks=("c.e.model",)
)
def unknown_model(exchange: Exchange) -> None:
    equal(refused(exchange, 404)["code"], "model_not_found", "the code")


@check("C72", "no messages: 400", why="an empty prompt must not reach the model", breaks=(SDK_OPENAI,), asks=("c.e.empty",))
def no_messages(exchange: Exchange) -> None:
    refused(exchange, 400)


@check(
    "C73",
    "a prompt that is too long: 400, code context_length_exceeded",
    why="OpenCode and pi compact on it",
    breaks=(OPENCODE, PI),
    asks=("c.e.long",),
)
def too_long(exchange: Exchange) -> None:
    equal(refused(_asked(exchange), 400)["code"], "context_length_exceeded", "the code")
