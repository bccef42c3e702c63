"""One breakage for every Responses check."""

from typing import Any

from tests.conformance.breaking import (
    Breakage,
    accept,
    all_of,
    ascii_only,
    body,
    drop,
    each_event,
    errors,
    events,
    has,
    plain_text,
    put,
    refuse,
    removed,
    set_status,
    spells,
    when,
)
from tests.conformance.responses_wire import _item
from tests.conformance.wire import Answer

from antiphon.conformance.asks import Request


def finished(edit: Any, kind: str = "") -> Breakage:
    """Edits finished items of a kind, wherever they stand."""

    def one(item: dict) -> None:
        if item["type"].startswith(kind):
            edit(item)

    def whole(response: dict) -> None:
        for item in response.get("output", []):
            one(item)

    def done(data: dict) -> None:
        one(data["item"])

    # The end of a stream holds the same objects as the items' own events, so editing one edits the other.
    return all_of(events("output_item.done", done), body(whole))


def text(edit: Any) -> Breakage:
    """Edits the text of finished messages."""

    def one(item: dict) -> None:
        item["content"][0]["text"] = edit(item["content"][0]["text"])

    return finished(one, "message")


def usage(edit: Any) -> Breakage:
    return all_of(
        events("completed", lambda data: edit(data["response"]["usage"])),
        body(lambda found: edit(found["usage"]) if found.get("usage") else None),
    )


def at_index(*indices: int) -> Any:
    return lambda data: data.get("output_index") in indices


def of_kind(answer: Answer, kind: str) -> list[int]:
    return [data["output_index"] for data in answer.events("response.output_item.added") if data["item"]["type"] == kind]


def without(kind: str) -> Breakage:
    """Leaves items of a kind out of a stream."""

    def apply(request: Request, answer: Answer) -> None:
        drop("", at_index(*of_kind(answer, kind)))(request, answer)

    return apply


def add_call(request: Request, answer: Answer) -> None:
    """One more call, with arguments that look whole."""
    if answer.out is None:
        return
    index = len(answer.events("response.output_item.added"))
    item = {"id": "fc_more", "type": "function_call", "call_id": f"call_more{id(answer)}", "name": "run_command", "status": "completed"}
    item["arguments"] = '{"command":"echo wo"}'
    answer.out[-1:-1] = _item(index, item, (answer.ends, answer.ends))


def done_at_the_end(request: Request, answer: Answer) -> None:
    """All items are done together."""
    if answer.out is not None:
        done = [out for out in answer.out if out.event == "response.output_item.done"]
        rest = [out for out in answer.out if out.event != "response.output_item.done"]
        answer.out = [*rest[:-1], *done, rest[-1]]


def late_calls(request: Request, answer: Answer) -> None:
    """Calls are done at the end of the turn."""
    calls = of_kind(answer, "function_call")
    for out in answer.out or []:
        if out.event == "response.output_item.done" and out.data["output_index"] in calls:
            out.at = answer.ends


def comments(request: Request, answer: Answer) -> None:
    """Keep-alives that are comments."""
    for out in answer.out or []:
        if out.at > 0 and out.event == "response.in_progress":
            out.data = None


def as_completed(request: Request, answer: Answer) -> None:
    """A cut turn that says it is whole."""
    for out in answer.out or []:
        if out.event == "response.incomplete":
            out.event = "response.completed"
            out.data = {**out.data, "type": "response.completed", "response": {**out.data["response"], "status": "completed"}}


def bare(found: dict, kind: str, key: str) -> bool:
    return any(isinstance(item, dict) and item.get("type") == kind and key not in item for item in found.get("input", []))


def untyped(found: dict) -> bool:
    return any(item.get("role") == "assistant" and "type" not in item for item in found.get("input", []))


def late_developer(found: dict) -> bool:
    return isinstance(found.get("input"), list) and bool(found["input"]) and found["input"][-1].get("role") == "developer"


def strings(found: dict) -> bool:
    return isinstance(found.get("input"), list) and isinstance(found["input"][-1].get("content"), str)


def method(name: str, edit: Any, path: str = "") -> Breakage:
    """Answers to requests of another method."""

    def apply(request: Request, answer: Answer) -> Answer | None:
        return edit(answer) if request.method == name and path in request.path else None

    return apply


def replaced(**fields: Any) -> Any:
    return lambda answer: Answer(**fields)


def compacted(found: dict) -> None:
    if found.get("object") == "response.compaction":
        found["output"] = [*found["output"], *found["output"]]


def unordered(found: dict) -> None:
    if "output" in found:
        found["output"].sort(key=lambda item: item["type"])


def function(item: dict) -> None:
    item |= {"type": "function_call", "arguments": item.pop("input")}


BREAKAGES: dict[str, Breakage] = {
    "R01": drop("response.completed"),
    "R02": each_event(lambda out: setattr(out, "event", None)),
    "R03": each_event(lambda out: isinstance(out.data, dict) and out.data.update(sequence_number=0)),
    "R04": done_at_the_end,
    "R05": drop("content_part.added"),
    "R06": drop("function_call_arguments.delta"),
    "R07": events(".delta", put(item_id="msg_other")),
    "R08": events("response.completed", lambda data: data.update(response={**data["response"], "output": []})),
    "R09": finished(put(call_id="call_0"), "function_call"),
    "R10": usage(removed("total_tokens")),
    "R11": usage(lambda found: found["output_tokens_details"].update(reasoning_tokens=0)),
    "R12": finished(lambda item: item.update(arguments="" if item["arguments"] == "{}" else item["arguments"]), "function_call"),
    "R13": when(lambda found: "reasoning" not in found, without("reasoning")),
    "R14": finished(removed("encrypted_content"), "reasoning"),
    "R15": body(lambda found: found.update(output=[]) if found.get("object") == "response" else None),
    "R16": finished(put(status="in_progress"), "function_call"),
    "R20": drop("", at_index(2)),
    "R21": drop("", at_index(5)),
    "R22": body(unordered),
    "R23": as_completed,
    "R24": when(has("max_output_tokens", 60), add_call),
    "R25": when(has("tool_choice", "none"), add_call),
    "R26": when(has("tool_choice", "required"), without("function_call")),
    "R27": when(lambda found: isinstance(found.get("tool_choice"), dict), finished(put(name="other"), "function_call")),
    "R28": when(has("parallel_tool_calls", False), add_call),
    "R29": finished(function, "custom_tool_call"),
    "R30": finished(lambda item: item.update(name=item.pop("namespace", "") + item["name"]), "function_call"),
    "R31": when(spells("json_schema"), text(lambda old: "Certainly.")),
    "R32": text(ascii_only),
    "R33": finished(lambda item: item.update(arguments=item["arguments"].replace("1.10", "1.1")), "function_call"),
    "R34": text(lambda old: f"<think>{old}"),
    "R35": late_calls,
    "R36": comments,
    "R37": body(lambda found: found.update(status="failed") if "status" in found else None),
    "R38": when(has("parallel_tool_calls", False), usage(put(output_tokens=9_999))),
    "R59": refuse(spells("web_search")),
    "R40": refuse(has("max_output_tokens", 4000)),
    "R41": when(has("instructions"), usage(put(input_tokens=5))),
    "R42": when(has("background"), body(put(status="failed"))),
    "R50": refuse(has("client_metadata")),
    "R51": refuse(spells("function_call_output")),
    "R52": refuse(lambda found: bare(found, "reasoning", "id") and "bm90" not in repr(found)),
    "R53": refuse(untyped),
    "R54": when(spells("function_call_output"), text(lambda old: "I see nothing.")),
    "R55": usage(lambda found: found["input_tokens_details"].update(cached_tokens=3)),
    "R56": when(strings, usage(lambda found: found.update(input_tokens=found["input_tokens"] + 1))),
    "R57": refuse(late_developer),
    "R58": refuse(spells("bm90LW91cnM=")),
    "R60": when(has("previous_response_id"), usage(put(input_tokens=5))),
    "R61": accept(has("previous_response_id")),
    "R62": method("GET", replaced(status=501, body={"error": {"message": "no"}})),
    "R63": method("GET", replaced(body={"object": "list", "data": []}), "input_items"),
    "R64": method("DELETE", replaced(body={"deleted": False})),
    "R65": method("GET", replaced(body={"id": "resp_1"})),
    "R66": body(compacted),
    "R67": refuse(lambda found: any(item.get("type") == "compaction" for item in found.get("input", []) if isinstance(item, dict))),
    "R68": when(spells("compaction_trigger"), finished(put(type="message"), "compaction")),
    "R69": method("GET", replaced(status=404, body={})),
    "R70": errors(plain_text),
    "R71": errors(lambda answer: answer.body["error"].update(code=None)),
    "R72": errors(set_status(500)),
    "R73": errors(set_status(500)),
}
