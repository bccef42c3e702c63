"""Checks that look at several surfaces, or at everything that was answered."""

from antiphon.conformance import chat_read, messages_read, responses_read
from antiphon.conformance.exchange import Exchange, answered
from antiphon.conformance.judging import said
from antiphon.conformance.pieces import calls, meanings
from antiphon.conformance.verdict import CODEX, EVERYONE, OPENCODE, Check, checker, equal, known, require

CHECKS: list[Check] = []
check = checker(CHECKS)
# A sample of everything that is asked; the refusals of R69 and K09 are among what it leaves out.
TURNS = ("m.text", "m.call", "m.inter", "r.text", "r.call", "r.inter", "c.text", "c.call", "c.inter")
ODD = ("m.e.json", "m.e.model", "m.e.max_tokens", "m.e.empty", "r.e.json", "r.e.model", "r.e.input", "c.e.json", "c.e.model", "c.e.empty")
LONG = ("m.e.long", "r.e.long", "c.e.long")


def _there(*exchanges: Exchange) -> None:
    absent = [exchange.path for exchange in exchanges if exchange.status in (0, 404, 405, 501)]
    known(not absent, f"not on this server: {', '.join(absent)}")


@check(
    "X01",
    "one conversation is one prompt on all three surfaces",
    why="what one client has warmed serves the next; a difference is text added by a surface",
    breaks=(EVERYONE,),
    asks=("m.text", "r.text", "c.text"),
)
def one_prompt(messages: Exchange, responses: Exchange, chat: Exchange) -> None:
    _there(messages, responses, chat)
    counts = {
        "Messages": messages_read.prompt_tokens(messages_read.usage(answered(messages))),
        "Responses": responses_read.usage(answered(responses))["input_tokens"],
        "Chat": chat_read.usage(answered(chat))["prompt_tokens"],
    }
    equal(len(set(counts.values())), 1, f"the number of different prompt lengths ({counts})")


@check(
    "X02",
    "one saying is one turn on Messages and Responses",
    why="both wires hold order; a difference is a loss",
    breaks=(EVERYONE,),
    asks=("m.inter", "r.inter"),
)
def one_turn(messages: Exchange, responses: Exchange) -> None:
    _there(messages, responses)
    known(messages.said is not None and responses.said is not None, "the model cannot be steered")
    equal(meanings(responses_read.pieces(answered(responses))), meanings(messages_read.pieces(answered(messages))), "the turn on Responses")


@check(
    "X03",
    "call ids differ over all turns and surfaces",
    why="a result that names a repeated id answers the wrong call",
    breaks=(EVERYONE,),
    asks=("m.call", "r.call", "c.call", "m.parallel", "r.parallel", "c.parallel"),
)
def all_ids(*exchanges: Exchange) -> None:
    readers = {"m": messages_read.pieces, "r": responses_read.pieces, "c": chat_read.pieces}
    there = [exchange for exchange in exchanges if exchange.status == 200]
    found = [piece.id for exchange in there for piece in calls(readers[exchange.ask[0]](exchange))]
    known(found, "no call came")
    equal(len(set(found)), len(found), "the number of different ids")


@check(
    "X04",
    "no request, however odd, is answered with a 5xx or a broken line",
    why="clients try a 5xx again and again: a bad request becomes load",
    breaks=(CODEX, OPENCODE),
    asks=(*ODD, *LONG),
)
def no_faults(*exchanges: Exchange) -> None:
    for exchange in exchanges:
        require(exchange.status < 500 or exchange.status == 501, f"{exchange.ask}: answered {exchange.status}: {exchange.excerpt()}")
        require(exchange.status == 0 or not exchange.failure, f"{exchange.ask}: {exchange.failure}")


@check(
    "X05",
    "every stream ends as HTTP says, without a broken line",
    why="a reset inside a turn makes clients ask for the whole turn again",
    breaks=(EVERYONE,),
    asks=TURNS,
)
def clean_ends(*exchanges: Exchange) -> None:
    for exchange in exchanges:
        require(exchange.status == 0 or not exchange.failure, f"{exchange.ask}: {exchange.failure}")
    known(any(exchange.status == 200 for exchange in exchanges), "nothing was answered")


@check(
    "X06",
    "a busy server says when to try again",
    why="Codex ends at once on a 429 without retry-after",
    breaks=(CODEX,),
    asks=(*TURNS, *ODD, "c.crowd"),
)
def retry_after(*exchanges: Exchange) -> None:
    busy = [exchange for exchange in exchanges if exchange.status in (429, 503, 529)]
    known(busy, "the server was never busy during the run")
    for exchange in busy:
        require(exchange.headers.get("retry-after"), f"{exchange.status} without retry-after")


@check(
    "X07",
    "text streams as it is decoded",
    why="held back to the end, a stream is a slow body",
    breaks=(EVERYONE,),
    asks=("m.lead", "r.lead", "c.lead"),
)
def streams(messages: Exchange, responses: Exchange, chat: Exchange) -> None:
    readers = (_text_times_messages, _text_times_responses, _text_times_chat)
    there = [(exchange, read) for exchange, read in zip((messages, responses, chat), readers, strict=True) if exchange.status == 200]
    known(there, "nothing was answered")
    for exchange, read in there:
        saying = said(exchange)
        # Every word is a token at least; half of their time is enough to tell.
        words = len(saying.pieces()[-1].text.split())
        times = read(exchange)
        require(times, f"{exchange.path}: the text did not come")
        ahead = exchange.ended_at - times[0]
        require(ahead >= words * saying.delay_ms / 2000, f"{exchange.path}: the first text came {1000 * ahead:.0f} ms before the end")


def _text_times_messages(exchange: Exchange) -> list[float]:
    return [block.opened_at for block in messages_read.blocks(exchange) if block.start["type"] == "text"]


def _text_times_responses(exchange: Exchange) -> list[float]:
    return [
        event.at for event in responses_read.events(exchange) if event.kind == "response.output_text.delta" and event.data["delta"].strip()
    ]


def _text_times_chat(exchange: Exchange) -> list[float]:
    return [chunk.at for chunk in chat_read.deltas(exchange) if (chunk.data["delta"].get("content") or "").strip()]
