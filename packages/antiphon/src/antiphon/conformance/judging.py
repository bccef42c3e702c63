"""What judges of all surfaces share."""

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import msgspec

from antiphon.conformance.exchange import Exchange, answered
from antiphon.conformance.pieces import Piece, arguments_of, calls, meanings
from antiphon.conformance.sayings import JSON_TEXT, Saying
from antiphon.conformance.verdict import Broken, Unclear, equal, known, require

SAFE_CALL_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
MARKUP = ("<think>", "</think>", "<tool_call>", "</tool_call>", "<function=", "</function>", "<parameter=", "</parameter>")
# A gap that only a token's own time explains is at least this part of it.
_OF_A_TOKEN = 0.4
# Tokens; the blocks of prefix caches are no larger.
_BLOCK = 64


def said(exchange: Exchange) -> Saying:
    """What the model was made to say. Raises Unclear where it was only asked to."""
    answered(exchange)
    if exchange.said is None:
        raise Unclear("the model cannot be steered, so what it should have said is not known")
    return exchange.said


def missing(exchange: Exchange, what: str) -> Exception:
    """What to raise when something did not come: Broken where the model was made to say it, else Unclear."""
    return Broken(what) if exchange.said is not None else Unclear(f"{what}, and the model could not be made to")


def order(exchange: Exchange, found: Sequence[Piece]) -> None:
    """Every piece that was said, in the order it was said, and nothing else."""
    equal(meanings(found), meanings(said(exchange).pieces()), "the turn")


def same(stream: Exchange, unary: Exchange, first: Any, second: Any, what: str) -> None:
    """What streamed is what came whole; two samplings of an ordinary model are not compared."""
    said(stream)
    said(unary)
    equal(first, second, f"{what} of the stream (beside the one that came whole)")


def no_call(exchange: Exchange, found: Sequence[Piece]) -> None:
    """No call reached the client."""
    answered(exchange)
    require(not calls(found), f"a call of {', '.join(piece.name for piece in calls(found))} came")


def ended_early(single: Exchange, parallel: Exchange, spent: int, whole: int) -> None:
    """A turn held to one call cost less than the same turn with two."""
    said(single)
    said(parallel)
    require(spent < whole, "the second call was generated and thrown away")


def forced_call(exchange: Exchange, found: Sequence[Piece], name: str | None = None) -> None:
    """A call came, whatever the model wished; of the tool that had to be called."""
    answered(exchange)
    require(calls(found), "no call came, though one was forced")
    if name is not None:
        equal({piece.name for piece in calls(found)}, {name}, "the called tools")
    for piece in calls(found):
        arguments_of(piece)


def one_call(exchange: Exchange, found: Sequence[Piece]) -> None:
    """There is only one call."""
    answered(exchange)
    if not calls(found):
        raise missing(exchange, "no call came")
    equal(len(calls(found)), 1, "the number of calls")
    arguments_of(calls(found)[0])


def cut(exchange: Exchange, found: Sequence[Piece], key: str) -> None:
    """A call cut by the limit cannot be run: it is left out, or its arguments do not fit the tool."""
    answered(exchange)
    for piece in calls(found):
        value = arguments_of(piece)
        require(not isinstance(value.get(key), str), f"a cut call came out as a whole one: {piece.arguments[:120]}")


def call_ids(exchanges: Iterable[tuple[Exchange, Sequence[Piece]]]) -> None:
    """Ids of calls are safe for every client, and never the same twice, in a turn or in the next."""
    ids: list[str] = []
    for exchange, found in exchanges:
        answered(exchange)
        ids += [piece.id for piece in calls(found)]
    known(ids, "no call came")
    for call_id in ids:
        require(isinstance(call_id, str) and SAFE_CALL_ID.fullmatch(call_id), f"{call_id!r} is no id that every client keeps")
    require(len(set(ids)) == len(ids), f"an id stands for two calls: {', '.join(ids)}")


def no_markup(exchange: Exchange, found: Sequence[Piece]) -> None:
    """No control text of the model reached the client."""
    answered(exchange)
    shown = "\n".join(piece.text + piece.arguments for piece in found)
    require(not [marker for marker in MARKUP if marker in shown], f"control text of the model in the answer: {shown[:120]!r}")


def fits_schema(exchange: Exchange, found: Sequence[Piece]) -> None:
    """The visible text is JSON of the asked schema."""
    answered(exchange)
    text = "".join(piece.text for piece in found if piece.kind == "text").strip()
    try:
        value = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise Broken(f"the text is no JSON: {text[:120]!r}") from error
    expected = msgspec.json.decode(JSON_TEXT)
    require(isinstance(value, dict) and {*value} == {*expected}, f"not the asked keys: {text[:120]}")
    require(isinstance(value["title"], str) and type(value["size"]) is int, f"not the asked types: {text[:120]}")


def dispatched(exchange: Exchange, whole_at: float | None, next_at: float | None, ended_at: float) -> None:
    """The call left when it was complete: before the first token of what follows, and long before the end of the turn."""
    saying = said(exchange)
    if whole_at is None:
        raise missing(exchange, "no complete call came")
    if next_at is None:
        raise missing(exchange, "nothing came behind the call")
    token = saying.delay_ms / 1000
    gap, lead = next_at - whole_at, ended_at - whole_at
    when = f"{1000 * gap:.0f} ms before" if gap >= 0 else f"{-1000 * gap:.0f} ms behind"
    require(gap >= _OF_A_TOKEN * token, f"the call was whole {when} the text that follows it, {1000 * lead:.0f} ms before the end")


def kept_alive(exchange: Exchange, allowed: float, arrivals: Sequence[float], what: str) -> None:
    """No longer silence than a client bears, in a turn that is silent for longer."""
    saying = said(exchange)
    require(
        exchange.ended_at > allowed,
        f"the turn took {exchange.ended_at:.1f} s, though {saying.name} was to take longer than {allowed:.0f} s",
    )
    times = [0.0, *arrivals, exchange.ended_at]
    longest = max(after - before for before, after in pairwise(times))
    require(longest <= allowed, f"{longest:.1f} s without {what}; a client waits {allowed:.0f} s")


def cached(exchange: Exchange, tokens: Any, prompt: int, at_least: int) -> None:
    """Tokens of an already seen prefix are reported as cached; a cache works in blocks, so some may be missing."""
    answered(exchange)
    known(tokens, "the server reported no cached tokens for a prompt that continues one it has just seen")
    known(at_least > 2 * _BLOCK, f"a prompt of {at_least} tokens is too short to tell")
    require(type(tokens) is int and 0 <= tokens <= prompt, f"{tokens!r} cached tokens of a prompt of {prompt}")
    require(tokens >= at_least - _BLOCK, f"{tokens} cached tokens, though the prompt continues one of {at_least}: the prefix moved")


def accepted(exchange: Exchange) -> None:
    """The server takes the request and answers it whole."""
    answered(exchange)
    require(exchange.body().strip(), "an empty answer")


def same_count(first: Exchange, second: Exchange, what: str) -> None:
    """Two spellings of one prompt have the same tokens."""
    one, two = (answered(exchange).json()["input_tokens"] for exchange in (first, second))
    equal(two, one, f"the prompt's length {what}")
