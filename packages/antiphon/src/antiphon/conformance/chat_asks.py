"""The Chat Completions requests of the kit."""

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
from antiphon.conformance.chat_read import message
from antiphon.conformance.exchange import answered
from antiphon.conformance.verdict import known

PATH = "/v1/chat/completions"
CROWD = 12
TALK = [{"role": "user", "content": "What is it?"}, {"role": "assistant", "content": "It is a test."}]
REFERENCED = {
    "type": "object",
    "$defs": {"K": {"enum": ["red", "blue"]}},
    "properties": {"k": {"$ref": "#/$defs/K"}},
    "required": ["k"],
}


def tools() -> list[dict[str, Any]]:
    """The kit's tools on this wire."""
    return [_function(tool.name, tool.description, tool.schema) for tool in TOOLS]


def _function(name: str, description: str, parameters: dict[str, Any]) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


def _body(scene: Scene, saying: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    body = {
        "model": scene.model,
        "max_completion_tokens": OUTPUT_TOKENS,
        "stream": True,
        "stream_options": {"include_usage": True},
        "messages": [{"role": "user", "content": scene.say(saying)}],
        **fields,
    }
    if not body["stream"]:
        body["stream_options"] = None
    return {key: value for key, value in body.items() if value is not None}


def _turn(name: str, saying: str = "text", **fields: Any) -> Ask:
    return Ask(name=name, saying=saying, make=lambda scene: Request(path=PATH, headers=OPENAI, body=_body(scene, saying, fields)))


def _shaped(name: str, shape: Callable[[str], list[Any]], **fields: Any) -> Ask:
    def make(scene: Scene) -> Request:
        return Request(path=PATH, headers=OPENAI, body=_body(scene, "text", {**fields, "messages": shape(scene.say("text"))}))

    return Ask(name=name, saying="text", make=make)


def _raw(name: str, body: Any) -> Ask:
    def make(scene: Scene) -> Request:
        headers = {**OPENAI, "content-type": "application/json"}
        return Request(path=PATH, headers=headers, body=body(scene) if callable(body) else body)

    return Ask(name=name, make=make)


def _replay(first: str, mark: str, edit: Callable[[dict[str, Any]], dict[str, Any]]) -> Ask:
    """The second turn: the assistant's message as the client keeps it, a tool message for every call."""

    def make(scene: Scene) -> Request:
        before = answered(scene.past[first])
        kept = message(before)
        known(kept.get("tool_calls"), "the first turn had no call to answer")
        edited = edit(kept)
        results = [{"role": "tool", "tool_call_id": call["id"], "content": "one"} for call in edited["tool_calls"]]
        user = {"role": "user", "content": scene.say("text")}
        messages = [*before.request["messages"], edited, *results, user]
        return Request(path=PATH, headers=OPENAI, body={**before.request, "messages": messages})

    return Ask(name=f"{first}.{mark}", saying="text", make=make, after=(first,))


def _renamed(kept: dict[str, Any]) -> dict[str, Any]:
    """With the reasoning under the other key that servers use."""
    found = {key: value for key, value in kept.items() if key != "reasoning_content"}
    return {**found, "reasoning": kept.get("reasoning_content", "")}


def _foreign(kept: dict[str, Any]) -> dict[str, Any]:
    """As another server's turn, which this one cannot have kept: what is not told cannot reach the prompt."""
    calls = [{**call, "id": f"call_x{place}"} for place, call in enumerate(kept["tool_calls"])]
    return {**kept, "content": "Said elsewhere.", "tool_calls": calls}


def _silent(kept: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in _foreign(kept).items() if key not in ("reasoning_content", "reasoning")}


def _folded_ids(kept: dict[str, Any]) -> dict[str, Any]:
    """With the ids as OpenClaw rewrites them, arguments spaced anew, and the index that SDKs leave in."""
    calls = [{**call, "index": place, "id": "".join(filter(str.isalnum, call["id"]))[:40]} for place, call in enumerate(kept["tool_calls"])]
    return {**kept, "content": kept.get("content"), "tool_calls": calls}


def _past_call(arguments: str) -> Callable[[str], list[Any]]:
    call = {"id": "call_x1", "type": "function", "function": {"name": sayings.RUN, "arguments": arguments}}
    return lambda text: [
        TALK[0],
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_x1", "content": "bad arguments"},
        {"role": "user", "content": text},
    ]


_SCHEMA = {"type": "json_schema", "json_schema": {"name": "answer", "schema": OUTPUT_SCHEMA, "strict": True}}

ASKS = (
    _turn("c.text"),
    _turn("c.text.unary", stream=False),
    _turn("c.uncounted", stream_options=None),
    _turn("c.call", "call", tools=tools()),
    _turn("c.call.unary", "call", tools=tools(), stream=False),
    _turn("c.zero", "zero", tools=tools()),
    _turn("c.parallel", "parallel", tools=tools()),
    _turn("c.inter", "interleaved", tools=tools()),
    _turn("c.inter.unary", "interleaved", tools=tools(), stream=False),
    _turn("c.limit", "long", max_completion_tokens=20),
    _turn("c.limit.old", "long", max_completion_tokens=None, max_tokens=20, stream=False),
    _turn("c.cut", "cut", max_completion_tokens=60, tools=tools()),
    _turn("c.stop", "stopped", stop=["never", sayings.STOP_STRING]),
    _turn("c.stop.thinking", "stop_named", stop=["never", sayings.STOP_STRING]),
    _turn("c.none", "call", tools=tools(), tool_choice="none"),
    _turn("c.required", "call", tools=tools(), tool_choice="required"),
    _turn("c.named", "zero", tools=tools(), tool_choice={"type": "function", "function": {"name": sayings.TIME}}),
    _turn("c.single", "parallel", tools=tools(), parallel_tool_calls=False),
    _turn("c.unicode", "unicode"),
    _turn("c.exact", "exact", tools=tools()),
    _turn("c.schema", "structured", response_format=_SCHEMA),
    _turn("c.object", "structured", response_format={"type": "json_object"}),
    _turn("c.twice", n=2),
    _turn("c.twice.unary", n=2, stream=False),
    # More turns at once than our own server of a run takes: the one way to see it busy.
    _turn("c.crowd", n=CROWD, stream=False),
    _turn("c.logprobs", logprobs=True, top_logprobs=2, stream=False),
    _turn("c.lead", "lead", tools=tools()),
    _turn("c.slow", "slow", tools=tools()),
    _replay("c.call", "replay", dict),
    _replay("c.call", "renamed", _renamed),
    _replay("c.call", "foreign", _foreign),
    _replay("c.call", "silent", _silent),
    _replay("c.call", "folded", _folded_ids),
    _shaped("c.developer", lambda text: [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": text}]),
    _shaped("c.late", lambda text: [*TALK, {"role": "user", "content": text}, {"role": "system", "content": "900 tokens left."}]),
    _shaped("c.parts", lambda text: [{"role": "user", "content": [{"type": "text", "text": text}]}]),
    _shaped("c.broken", _past_call('{"command": "ls'), tools=tools()),
    _shaped("c.null", _past_call("null"), tools=tools()),
    _turn("c.refs", tools=[_function("paint", "Paints.", REFERENCED)]),
    _turn("c.pi", store=False, reasoning_effort="medium"),
    _turn("c.unknown", no_such_field_2031=True),
    Ask(
        name="c.legacy",
        saying="text",
        make=lambda scene: Request(
            path="/v1/completions", headers=OPENAI, body={"model": scene.model, "prompt": scene.say("text"), "max_tokens": 64}
        ),
    ),
    _raw("c.greedy", lambda scene: _body(scene, "text", {"max_completion_tokens": whole_context(scene)})),
    _raw("c.e.json", b'{"model": "x", "messages": ['),
    _raw("c.e.model", lambda scene: {"model": UNKNOWN_MODEL, "messages": [TALK[0]]}),
    _raw("c.e.empty", lambda scene: {"model": scene.model, "messages": []}),
    _raw("c.e.long", lambda scene: _body(scene, "text", {"messages": [{"role": "user", "content": too_long(scene)}]})),
)
