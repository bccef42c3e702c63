"""One breakage for every Chat check, for the catalog and for what spans surfaces."""

from typing import Any

from tests.conformance.breaking import (
    Breakage,
    accept,
    all_of,
    ascii_only,
    body,
    each_event,
    errors,
    has,
    headers,
    no_keepalive,
    plain_text,
    put,
    refuse,
    removed,
    set_status,
    spells,
    when,
)
from tests.conformance.wire import Answer, Out

from antiphon.conformance.asks import Request


def choices(edit: Any) -> Breakage:
    """Edits every choice of every chunk and body."""

    def one(data: Any) -> None:
        for entry in data.get("choices", []) if isinstance(data, dict) else []:
            edit(entry)

    return all_of(each_event(lambda out: one(out.data)), body(one))


def content(edit: Any) -> Breakage:
    """Edits visible text, streamed or whole."""

    def one(entry: dict) -> None:
        found = entry.get("delta") or entry.get("message") or {}
        if found.get("content"):
            found["content"] = edit(found["content"])

    return choices(one)


def calls(edit: Any) -> Breakage:
    """Edits every call, streamed or whole."""

    def one(entry: dict) -> None:
        for call in (entry.get("delta") or entry.get("message") or {}).get("tool_calls", []):
            edit(call)

    return choices(one)


def finish(old: str, new: str) -> Breakage:
    return choices(lambda entry: entry.update(finish_reason=new) if entry["finish_reason"] == old else None)


def usage(edit: Any) -> Breakage:
    def one(data: Any) -> None:
        if isinstance(data, dict) and data.get("usage"):
            edit(data["usage"])

    return all_of(each_event(lambda out: one(out.data)), body(one))


def chunks(fits: Any) -> Breakage:
    """Leaves out the chunks that fit."""

    def apply(request: Request, answer: Answer) -> None:
        if answer.out is not None:
            answer.out = [out for out in answer.out if not (isinstance(out.data, dict) and fits(out.data))]

    return apply


def delta_of(data: dict) -> dict:
    return (data["choices"] or [{}])[0].get("delta") or {}


def add_call(request: Request, answer: Answer) -> None:
    """One more call, with arguments that look whole."""
    function = {"name": "run_command", "arguments": '{"command":"echo wo"}'}
    call = {"index": 1, "id": f"call_more{id(answer)}", "type": "function", "function": function}
    if answer.out is not None:
        chunk = {**answer.out[0].data, "choices": [{"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": None}]}
        answer.out.insert(1, Out(answer.ends, None, chunk))


def side_event(request: Request, answer: Answer) -> None:
    """A typed event whose data is no chunk."""
    if answer.out is not None:
        answer.out.insert(1, Out(0.0, "reasoning_dispatch", {"index": 0, "reasoning_content": "x"}))


def second_id(request: Request, answer: Answer) -> None:
    if answer.out is not None:
        answer.out[1].data["id"] = "chatcmpl-other"


def twice_counted(request: Request, answer: Answer) -> None:
    if answer.out is not None:
        answer.out[0].data["usage"] = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}


def late_calls(request: Request, answer: Answer) -> None:
    """Calls leave at the end of the turn."""
    for out in answer.out or []:
        if isinstance(out.data, dict) and delta_of(out.data).get("tool_calls"):
            out.at = answer.ends


def text_behind_calls(request: Request, answer: Answer) -> None:
    """What the model says behind a call is lost."""
    called = False
    kept = []
    for out in answer.out or []:
        delta = delta_of(out.data) if isinstance(out.data, dict) else {}
        called = called or "tool_calls" in delta
        if not (called and delta.get("content")):
            kept.append(out)
    answer.out = kept if answer.out is not None else None


def renamed(entry: dict) -> None:
    found = entry.get("delta") or entry.get("message") or {}
    if "reasoning_content" in found:
        found["reasoning"] = found.pop("reasoning_content")


def function(**fields: Any) -> Breakage:
    return calls(lambda call: call["function"].update(fields))


def arguments(edit: Any) -> Breakage:
    return calls(lambda call: call["function"].update(arguments=edit(call["function"]["arguments"])))


def no_calls(entry: dict) -> None:
    (entry.get("delta") or entry.get("message") or {}).pop("tool_calls", None)


def prompt(add: int, fits: Any) -> Breakage:
    return when(
        fits, usage(lambda found: found.update(prompt_tokens=found["prompt_tokens"] + add, total_tokens=found["total_tokens"] + add))
    )


def developer(found: dict) -> bool:
    return bool(found["messages"]) and found["messages"][0]["role"] == "developer"


def late_system(found: dict) -> bool:
    return any(message["role"] == "system" for message in found["messages"][1:])


CHAT: dict[str, Breakage] = {
    "C01": side_event,
    "C02": choices(lambda entry: (entry.get("delta") or {}).pop("role", None)),
    "C03": second_id,
    "C04": choices(put(finish_reason=None)),
    "C05": twice_counted,
    "C06": when(lambda found: "stream_options" not in found, twice_counted),
    "C07": usage(removed("completion_tokens_details")),
    "C08": choices(renamed),
    "C09": calls(removed("index")),
    "C10": arguments(lambda old: "" if old == "{}" else old),
    "C11": when(has("stream", False), content(lambda old: "Other.")),
    "C12": calls(lambda call: call.update(id="call_0")),
    "C13": headers("content-type", "text/html", streams=False),
    "C20": chunks(lambda data: any(call.get("index") == 1 for call in delta_of(data).get("tool_calls", []))),
    "C21": text_behind_calls,
    "C22": when(has("stream", False), content(lambda old: "")),
    "C23": finish("stop", "length"),
    "C24": finish("tool_calls", "stop"),
    "C25": finish("length", "stop"),
    "C26": when(has("stop"), content(lambda old: f"{old}END")),
    "C27": when(has("max_completion_tokens", 60), add_call),
    "C28": when(has("tool_choice", "none"), add_call),
    "C29": when(has("tool_choice", "required"), choices(no_calls)),
    "C30": when(lambda found: isinstance(found.get("tool_choice"), dict), function(name="other")),
    "C31": when(has("parallel_tool_calls"), add_call),
    "C32": when(spells("json_schema"), content(lambda old: "Certainly.")),
    "C33": when(spells("json_object"), content(lambda old: "Certainly.")),
    "C34": when(has("n"), body(lambda found: found["choices"].pop())),
    "C35": choices(lambda entry: entry.update(logprobs=None) if "logprobs" in entry else None),
    "C36": content(ascii_only),
    "C37": arguments(lambda old: old.replace("1.10", "1.1")),
    "C38": content(lambda old: f"{old}</tool_call>"),
    "C39": late_calls,
    "C40": no_keepalive(None),
    "C41": body(put(object="chat.completion")),
    "C42": when(has("stop"), content(lambda old: "")),
    "C43": when(has("parallel_tool_calls"), usage(put(completion_tokens=9_999))),
    "C50": refuse(spells("'role': 'tool'")),
    "C51": prompt(-5, spells("'reasoning'")),
    "C52": prompt(1, spells("'index': 0")),
    "C53": when(spells("'role': 'tool'"), content(lambda old: "I see nothing.")),
    "C54": usage(lambda found: found["prompt_tokens_details"].update(cached_tokens=3)),
    "C55": refuse(developer),
    "C56": refuse(late_system),
    "C57": prompt(1, lambda found: isinstance(found["messages"][0]["content"], list)),
    "C58": refuse(spells("bad arguments")),
    "C59": refuse(spells("$ref")),
    "C60": refuse(has("store")),
    "C61": refuse(has("no_such_field_2031")),
    "C62": refuse(has("max_completion_tokens", 4000)),
    "C70": errors(plain_text),
    "C71": errors(lambda answer: answer.body["error"].update(code=None)),
    "C72": accept(has("messages", [])),
    "C73": errors(set_status(500)),
}


def entries(edit: Any) -> Breakage:
    """Edits every entry of the catalog and every single model."""
    return body(lambda found: [edit(entry) for entry in found.get("data", [found])])


def codex(edit: Any) -> Breakage:
    return body(lambda found: [edit(model) for model in found.get("models", [])])


def only(fits: Any, edit: Any) -> Breakage:
    """Answers to requests that fit, as requests."""
    return lambda request, answer: edit(answer) if fits(request) else None


CATALOG: dict[str, Breakage] = {
    "K01": entries(removed("created")),
    "K02": body(removed("has_more")),
    "K03": entries(removed("display_name")),
    "K04": codex(removed("base_instructions")),
    "K05": codex(put(shell_type="fancy")),
    "K06": entries(removed("max_input_tokens")),
    "K07": only(lambda request: request.path.endswith("/small"), lambda answer: Answer(status=404, body={})),
    "K08": only(lambda request: request.path.endswith("/small"), lambda answer: removed("type")(answer.body)),
    "K09": only(lambda request: "no-such" in request.path, lambda answer: Answer(body={})),
    "K10": only(lambda request: request.method == "HEAD", lambda answer: Answer(status=0, body={}, broken="the connection broke")),
}


def surface(path: str, breakage: Breakage) -> Breakage:
    return lambda request, answer: breakage(request, answer) if request.path.startswith(path) else None


def same_ids(request: Request, answer: Answer) -> None:
    """One id for the first call of every turn, whatever the surface."""
    for out in answer.out or []:
        data = out.data if isinstance(out.data, dict) else {}
        for holder in (data.get("content_block"), data.get("item"), *delta_of({"choices": data.get("choices")}).get("tool_calls", [])):
            for key in ("id", "call_id"):
                if holder and str(holder.get(key, "")).startswith("call_"):
                    holder[key] = "call_0"


def all_at_the_end(request: Request, answer: Answer) -> None:
    """A stream that is held back until the turn is whole."""
    for out in answer.out or []:
        out.at = answer.ends


def empty(request: Request) -> bool:
    return isinstance(request.body, dict) and request.body.get("messages") == []


CROSS: dict[str, Breakage] = {
    "X01": surface("/v1/chat", prompt(5, lambda found: True)),
    "X02": surface(
        "/v1/messages",
        only(
            lambda request: True,
            lambda answer: setattr(
                answer, "out", answer.out and [out for out in answer.out if not (isinstance(out.data, dict) and out.data.get("index") == 3)]
            ),
        ),
    ),
    "X03": same_ids,
    "X04": only(empty, set_status(500)),
    "X05": lambda request, answer: setattr(answer, "broken", "the connection broke") if answer.out else None,
    "X07": all_at_the_end,
    "X06": only(empty, set_status(503)),
}
