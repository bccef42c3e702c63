"""The Responses requests of the kit."""

from collections.abc import Callable, Mapping
from typing import Any

from antiphon.conformance import sayings
from antiphon.conformance.asks import (
    OPENAI,
    OUTPUT_SCHEMA,
    OUTPUT_TOKENS,
    TOOLS,
    UNKNOWN_MODEL,
    Ask,
    Request,
    Scene,
    too_long,
    whole_context,
)
from antiphon.conformance.exchange import answered
from antiphon.conformance.responses_read import final, items
from antiphon.conformance.verdict import known

PATH = "/v1/responses"
ENCRYPTED = "reasoning.encrypted_content"
TALK = [
    {"type": "message", "role": "user", "content": "What is it?"},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "It is a test."}]},
]
PATCH_TOOL = {
    "type": "custom",
    "name": sayings.PATCH,
    "description": "Edits files.",
    "format": {"type": "grammar", "syntax": "lark", "definition": "start: /(.|\\n)+/"},
}
OUTPUT_KINDS = ("function_call", "custom_tool_call")


def tools() -> list[dict[str, Any]]:
    """The kit's tools on this wire."""
    return [{"type": "function", "name": tool.name, "description": tool.description, "parameters": tool.schema} for tool in TOOLS]


def _namespace() -> dict[str, Any]:
    schema = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
    tool = {"type": "function", "name": sayings.READ, "description": "Reads a file.", "parameters": schema}
    return {"type": "namespace", "name": sayings.NAMESPACE, "description": "Files.", "tools": [tool]}


def user(text: str) -> dict[str, Any]:
    """A user message item."""
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}


def _body(scene: Scene, saying: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    body = {
        "model": scene.model,
        "max_output_tokens": OUTPUT_TOKENS,
        "stream": True,
        "store": False,
        "reasoning": {"effort": "medium", "summary": "auto"},
        "input": [user(scene.say(saying))],
        **fields,
    }
    return {key: value for key, value in body.items() if value is not None}


def _turn(name: str, saying: str = "text", **fields: Any) -> Ask:
    return Ask(name=name, saying=saying, make=lambda scene: Request(path=PATH, headers=OPENAI, body=_body(scene, saying, fields)))


def _shaped(name: str, shape: Callable[[str], list[Any]], **fields: Any) -> Ask:
    def make(scene: Scene) -> Request:
        return Request(path=PATH, headers=OPENAI, body=_body(scene, "text", {**fields, "input": shape(scene.say("text"))}))

    return Ask(name=name, saying="text", make=make)


def _raw(name: str, body: Any) -> Ask:
    def make(scene: Scene) -> Request:
        headers = {**OPENAI, "content-type": "application/json"}
        return Request(path=PATH, headers=headers, body=body(scene) if callable(body) else body)

    return Ask(name=name, make=make)


def _outputs(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """An output item for every call, as the kind of call asks."""
    return [
        {"type": f"{item['type']}_output", "call_id": item["call_id"], "output": "one"} for item in found if item["type"] in OUTPUT_KINDS
    ]


def _replay(first: str, edit: Callable[[dict[str, Any]], dict[str, Any]] = dict, mark: str = "replay") -> Ask:
    """The second turn as Codex sends it: the whole input again, the output items as they came, the outputs of the calls."""

    def make(scene: Scene) -> Request:
        before = answered(scene.past[first])
        found = items(before)
        outputs = _outputs(found)
        known(outputs, "the first turn had no call to answer")
        whole = [*before.request["input"], *map(edit, found), *outputs, user(scene.say("text"))]
        return Request(path=PATH, headers=OPENAI, body={**before.request, "input": whole})

    return Ask(name=f"{first}.{mark}", saying="text", make=make, after=(first,))


def _without_id(item: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in item.items() if key not in ("id", "status")}


def _bare_message(item: dict[str, Any]) -> dict[str, Any]:
    kept = _without_id(item)
    return {"role": kept["role"], "content": kept["content"]} if kept.get("type") == "message" else kept


def _continued(scene: Scene) -> Request:
    """Only the new items, behind a stored response."""
    before = answered(scene.past["r.stored"])
    new = [*_outputs(items(before)), user(scene.say("text"))]
    known(len(new) > 1, "the first turn had no call to answer")
    fields = {"store": True, "tools": tools(), "input": new, "previous_response_id": final(before)["id"]}
    return Request(path=PATH, headers=OPENAI, body=_body(scene, "text", fields))


def _whole(scene: Scene) -> Request:
    """The same conversation as `_continued`, sent whole."""
    before = answered(scene.past["r.stored"])
    whole = [*before.request["input"], *items(before), *_outputs(items(before)), user(scene.say("text"))]
    return Request(path=PATH, headers=OPENAI, body=_body(scene, "text", {"tools": tools(), "input": whole}))


def _stored(name: str, path: str, *, method: str = "GET", first: str = "r.stored", after: tuple[str, ...] = ()) -> Ask:
    """A request on a response of an earlier ask; `path` has {} for its id."""

    def make(scene: Scene) -> Request:
        return Request(method=method, path=f"{PATH}/{path.format(final(answered(scene.past[first]))['id'])}", headers=OPENAI)

    return Ask(name=name, make=make, after=(first, *after))


def _compacted(scene: Scene) -> Request:
    output = answered(scene.past["r.compact"]).json()["output"]
    return Request(path=PATH, headers=OPENAI, body=_body(scene, "text", {"input": [*output, user(scene.say("text"))]}))


def _codex(scene: Scene) -> Request:
    """A body with every key and kind of tool that Codex sends."""
    developer = {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "You are a coding agent."}]}
    fields = {
        "max_output_tokens": None,
        "input": [{**developer, "id": "msg_dev1"}, {**user(scene.say("call")), "id": "msg_user1"}],
        "tools": [*tools(), _namespace()],
        "tool_choice": "auto",
        "parallel_tool_calls": True,
        "include": [ENCRYPTED],
        "prompt_cache_key": "0193-thread",
        "text": {"verbosity": "low"},
        "client_metadata": {"session_id": "s", "thread_id": "t", "turn_id": "u"},
    }
    headers = {**OPENAI, "session-id": "0193-thread", "originator": "codex_exec", "user-agent": "codex_exec/0.171.0 (conformance)"}
    return Request(path=PATH, headers=headers, body=_body(scene, "call", fields))


_FOREIGN = {
    "id": "rs_elsewhere",
    "type": "reasoning",
    "summary": [{"type": "summary_text", "text": "Elsewhere."}],
    "encrypted_content": "bm90LW91cnM=",
}
_FORMAT = {"format": {"type": "json_schema", "name": "answer", "schema": OUTPUT_SCHEMA, "strict": True}}
_UPGRADE = {
    **OPENAI,
    "connection": "Upgrade",
    "upgrade": "websocket",
    "sec-websocket-version": "13",
    "sec-websocket-key": "Y29uZm9ybWFuY2Uta2V5IQ==",
    "openai-beta": "responses_websockets=2026-02-06",
}

ASKS = (
    _turn("r.text"),
    _turn("r.text.unary", stream=False),
    _turn("r.call", "call", tools=tools(), include=[ENCRYPTED]),
    _turn("r.call.unary", "call", tools=tools(), stream=False),
    _turn("r.zero", "zero", tools=tools()),
    _turn("r.parallel", "parallel", tools=tools()),
    _turn("r.inter", "interleaved", tools=tools(), include=[ENCRYPTED]),
    _turn("r.inter.unary", "interleaved", tools=tools(), stream=False),
    _turn("r.limit", "long", max_output_tokens=20),
    _turn("r.limit.unary", "long", max_output_tokens=20, stream=False),
    _turn("r.cut", "cut", max_output_tokens=60, tools=tools()),
    _turn("r.none", "call", tools=tools(), tool_choice="none"),
    _turn("r.required", "call", tools=tools(), tool_choice="required"),
    _turn("r.named", "zero", tools=tools(), tool_choice={"type": "function", "name": sayings.TIME}),
    _turn("r.single", "parallel", tools=tools(), parallel_tool_calls=False),
    _turn("r.custom", "patched", tools=[PATCH_TOOL]),
    _turn("r.namespace", "namespaced", tools=[_namespace()]),
    _turn("r.web_search", tools=[*tools(), {"type": "web_search", "external_web_access": True}]),
    _turn("r.noreason", "call", tools=tools(), reasoning=None),
    _turn("r.unicode", "unicode"),
    _turn("r.exact", "exact", tools=tools()),
    _turn("r.format", "structured", text=_FORMAT),
    _turn("r.lead", "lead", tools=tools()),
    _turn("r.slow", "slow", tools=tools()),
    Ask(name="r.codex", saying="call", make=_codex),
    _replay("r.call"),
    _replay("r.call", _without_id, "bare"),
    _replay("r.call", _bare_message, "untyped"),
    _replay("r.inter"),
    _shaped("r.string", lambda text: [{"role": "user", "content": text}]),
    _shaped("r.parts", lambda text: [user(text)]),
    _shaped("r.late", lambda text: [*TALK, user(text), {"type": "message", "role": "developer", "content": "Be brief."}]),
    _shaped("r.foreign", lambda text: [TALK[0], _FOREIGN, TALK[1], user(text)]),
    _turn("r.stored", "call", tools=tools(), store=True),
    Ask(name="r.continued", saying="text", make=_continued, after=("r.stored",)),
    Ask(name="r.whole", saying="text", make=_whole, after=("r.stored",)),
    _stored("r.get", "{}"),
    _stored("r.items", "{}/input_items"),
    _turn("r.doomed", store=True),
    _stored("r.delete", "{}", method="DELETE", first="r.doomed"),
    _stored("r.deleted", "{}", first="r.doomed", after=("r.delete",)),
    _stored("r.unstored", "{}", first="r.text"),
    _turn("r.e.previous", previous_response_id="resp_unknown", store=True),
    Ask(
        name="r.compact",
        saying="summary",
        make=lambda scene: Request(
            path=f"{PATH}/compact",
            headers=OPENAI,
            body={"model": scene.model, "input": [*TALK, user(scene.say("summary"))]},
        ),
    ),
    Ask(name="r.compacted", saying="text", make=_compacted, after=("r.compact",)),
    Ask(
        name="r.trigger",
        saying="summary",
        make=lambda scene: Request(
            path=PATH,
            headers=OPENAI,
            body=_body(scene, "summary", {"input": [*TALK, user(scene.say("summary")), {"type": "compaction_trigger"}]}),
        ),
    ),
    Ask(name="r.socket", make=lambda scene: Request(method="GET", path=PATH, headers=_UPGRADE)),
    _raw("r.greedy", lambda scene: _body(scene, "text", {"max_output_tokens": whole_context(scene)})),
    Ask(
        name="r.instructions",
        saying="text",
        make=lambda scene: Request(
            path=PATH, headers=OPENAI, body={"model": scene.model, "input": scene.say("text"), "instructions": "Answer in one sentence."}
        ),
    ),
    _turn("r.background", stream=False, background=True, store=True),
    _stored("r.background.get", "{}", first="r.background"),
    _raw("r.e.json", b'{"model": "x", "input": ['),
    _raw("r.e.model", lambda scene: {"model": UNKNOWN_MODEL, "input": "hi"}),
    _raw("r.e.input", lambda scene: {"model": scene.model}),
    _raw("r.e.long", lambda scene: _body(scene, "text", {"input": [user(too_long(scene))]})),
)
