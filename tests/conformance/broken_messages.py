"""One breakage for every Messages check."""

from typing import Any

from tests.conformance.breaking import (
    Breakage,
    accept,
    all_of,
    any_body,
    ascii_only,
    body,
    drop,
    each_event,
    errors,
    events,
    has,
    headers,
    no_keepalive,
    plain_text,
    put,
    refuse,
    set_status,
    spells,
    when,
)
from tests.conformance.wire import Answer, Out

from antiphon.conformance.asks import Request


def deltas(kind: str, key: str, edit: Any, fits: Any = any_body) -> Breakage:
    """Edits the text of every delta of a kind."""

    def one(data: dict) -> None:
        if data["delta"].get("type") == kind:
            data["delta"][key] = edit(data["delta"][key])

    return events("content_block_delta", one, fits)


def text(edit: Any) -> Breakage:
    """Edits visible text, streamed or whole."""

    def whole(found: dict) -> None:
        for block in found.get("content", []):
            if block["type"] == "text":
                block["text"] = edit(block["text"])

    return all_of(deltas("text_delta", "text", edit), body(whole))


def reason(old: str, new: str) -> Breakage:
    """Another stop reason."""

    def edit(found: dict) -> None:
        if found.get("stop_reason") == old:
            found["stop_reason"] = new

    return all_of(events("message_delta", lambda data: edit(data["delta"])), body(edit))


def kinds(answer: Answer) -> dict[int, str]:
    return {data["index"]: data["content_block"]["type"] for data in answer.events("content_block_start")}


def without(kind: str, *, but_first: bool = False) -> Breakage:
    """Leaves blocks of a kind out of a stream."""

    def apply(request: Request, answer: Answer) -> None:
        gone = [index for index, found in kinds(answer).items() if found == kind][1 if but_first else 0 :]
        drop("", lambda data: data.get("index") in gone)(request, answer)

    return apply


def add_call(request: Request, answer: Answer) -> None:
    """One more call, with arguments that look whole."""
    if answer.out is None:
        return
    index, at = len(kinds(answer)), answer.ends
    block = {"type": "tool_use", "id": f"call_more{id(answer)}", "name": "run_command", "input": {}}
    more = [
        Out(at, "content_block_start", {"type": "content_block_start", "index": index, "content_block": block}),
        Out(
            at,
            "content_block_delta",
            {"type": "content_block_delta", "index": index, "delta": {"type": "input_json_delta", "partial_json": '{"command":"echo wo"}'}},
        ),
        Out(at, "content_block_stop", {"type": "content_block_stop", "index": index}),
    ]
    answer.out[-2:-2] = more


def late_calls(request: Request, answer: Answer) -> None:
    """Calls leave with the text behind them."""
    calls = [index for index, kind in kinds(answer).items() if kind == "tool_use"]
    for out in answer.out or []:
        if isinstance(out.data, dict) and out.data.get("index") in calls:
            following = [
                other.at for other in answer.out or [] if isinstance(other.data, dict) and other.data.get("index") == out.data["index"] + 1
            ]
            out.at = min(following, default=answer.ends)


def stops_at_the_end(request: Request, answer: Answer) -> None:
    """All blocks are closed together."""
    if answer.out is not None:
        stops = [out for out in answer.out if out.event == "content_block_stop"]
        rest = [out for out in answer.out if out.event != "content_block_stop"]
        answer.out = [*rest[:-2], *stops, *rest[-2:]]


def whole_input(request: Request, answer: Answer) -> None:
    """The input is in the start of the block and nowhere else."""
    for start in answer.events("content_block_start"):
        if start["content_block"]["type"] == "tool_use":
            start["content_block"]["input"] = {"command": "echo one"}
    drop("content_block_delta", lambda data: data["delta"]["type"] == "input_json_delta")(request, answer)


def counts(add: int, fits: Any) -> Breakage:
    """count_tokens answers something else for fitting requests."""

    def edit(found: dict) -> None:
        if "input_tokens" in found:
            found["input_tokens"] += add

    return when(fits, body(edit))


def usage(edit: Any) -> Breakage:
    return all_of(
        events("message_start", lambda data: edit(data["message"]["usage"])),
        events("message_delta", lambda data: edit(data["usage"])),
        body(lambda found: edit(found["usage"]) if "usage" in found else None),
    )


def ids(found: dict) -> None:
    found["content_block"] = {**found["content_block"], "id": "call_0"}


def unordered(found: dict) -> None:
    if "content" in found:
        found["content"].sort(key=lambda block: block["type"])


def choice(kind: str) -> Any:
    return lambda found: (found.get("tool_choice") or {}).get("type") == kind


def display(found: dict) -> bool:
    return (found.get("thinking") or {}).get("display") == "omitted"


def is_call(data: dict) -> bool:
    return bool(data["content_block"]["type"] == "tool_use")


BREAKAGES: dict[str, Breakage] = {
    "M01": drop("message_stop"),
    "M02": each_event(lambda out: setattr(out, "event", None)),
    "M03": headers("content-type", "text/plain", streams=False),
    "M04": stops_at_the_end,
    "M05": deltas("thinking_delta", "type", lambda kind: "text_delta"),
    "M06": events("message_start", lambda data: data["message"]["usage"].update(input_tokens=7)),
    "M07": events("message_delta", lambda data: data["usage"].update(cache_creation_input_tokens=None)),
    "M08": counts(3, any_body),
    "M09": events("message_start", lambda data: data["message"].update(id="msg_same")),
    "M10": whole_input,
    "M11": drop("content_block_delta", lambda data: data["delta"].get("partial_json") == "{}"),
    "M12": deltas("signature_delta", "signature", lambda old: ""),
    "M13": when(has("tools"), text(lambda old: "\n")),
    "M14": body(lambda found: found.update(content=[]) if "content" in found else None),
    "M15": events("content_block_start", ids, is_call),
    "M16": text(ascii_only),
    "M20": without("tool_use", but_first=True),
    "M21": without("thinking", but_first=True),
    "M22": body(unordered),
    "M23": reason("end_turn", "stop"),
    "M24": reason("tool_use", "end_turn"),
    "M25": reason("max_tokens", "end_turn"),
    "M26": events("message_delta", lambda data: data["delta"].update(stop_sequence=None)),
    "M27": deltas("thinking_delta", "thinking", lambda old: old.partition("END")[0]),
    "M28": when(has("max_tokens", 60), add_call),
    "M29": when(choice("none"), add_call),
    "M30": when(choice("any"), without("tool_use")),
    "M31": when(choice("tool"), events("content_block_start", lambda data: data["content_block"].update(name="other"), is_call)),
    "M32": when(spells("disable_parallel_tool_use"), add_call),
    "M33": without("thinking"),
    "M34": when(spells("disabled"), text(lambda old: f"<think>{old}")),
    "M35": when(display, deltas("thinking_delta", "thinking", lambda old: "A greeting.")),
    "M36": when(spells("json_schema"), text(lambda old: "Certainly.")),
    "M37": deltas("input_json_delta", "partial_json", lambda old: old.replace("    def", "def")),
    "M38": text(lambda old: f"{old}</think>"),
    "M39": late_calls,
    "M41": when(spells("disable_parallel_tool_use"), usage(put(output_tokens=9_999))),
    "M40": no_keepalive("ping"),
    "M50": refuse(has("context_management")),
    "M51": refuse(spells("'role': 'system'")),
    "M52": refuse(spells("redacted_thinking")),
    "M53": refuse(spells("'text': '\\n\\n'")),
    "M54": refuse(spells("tool_reference")),
    "M55": refuse(spells("web_search")),
    "M56": when(spells("'image'"), errors(lambda answer: answer.body["error"].update(message="Invalid request"))),
    "M57": accept(has("thread")),
    "M58": refuse(has("max_tokens", 4000)),
    "M60": counts(1, lambda found: isinstance(found["messages"][0]["content"], list)),
    "M61": counts(1, spells("cache_control")),
    "M62": counts(9, spells("x-anthropic-billing-header")),
    "M63": counts(1, spells("'content': [{'type': 'text', 'text': 'one")),
    "M64": counts(-3, spells("is_error")),
    "M65": refuse(spells("tool_result")),
    "M66": usage(
        lambda found: found.update(input_tokens=found["input_tokens"] + found["cache_read_input_tokens"] - 3, cache_read_input_tokens=3)
    ),
    "M67": when(spells("tool_result"), text(lambda old: "I see nothing.")),
    "M70": errors(plain_text),
    "M71": errors(set_status(400)),
    "M72": errors(lambda answer: answer.body["error"].update(message="Field required")),
    "M73": accept(has("messages", [])),
    "M74": accept(spells("'nothing'")),
    "M75": errors(lambda answer: answer.body["error"].update(message="The context is full.")),
}
