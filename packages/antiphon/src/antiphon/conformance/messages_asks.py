"""The Messages requests of the kit."""

from collections.abc import Mapping
from typing import Any

from antiphon.conformance import sayings
from antiphon.conformance.asks import (
    ANTHROPIC,
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
from antiphon.conformance.exchange import Exchange, answered
from antiphon.conformance.messages_read import content
from antiphon.conformance.verdict import known

PATH, COUNT = "/v1/messages", "/v1/messages/count_tokens"
THINKING = {"type": "adaptive"}
BILLING = "x-anthropic-billing-header: cc_version=2.1.332.{}; cc_entrypoint=cli; cch={};"
FOREIGN = [{"type": "thinking", "thinking": "Elsewhere.", "signature": "bm90LW91cnM="}, {"type": "redacted_thinking", "data": "b3BhcXVl"}]
TALK = [{"role": "user", "content": "What is it?"}, {"role": "assistant", "content": "It is a test."}]


def tools() -> list[dict[str, Any]]:
    """The kit's tools on this wire."""
    return [{"name": tool.name, "description": tool.description, "input_schema": tool.schema} for tool in TOOLS]


def _body(scene: Scene, saying: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    body = {
        "model": scene.model,
        "max_tokens": OUTPUT_TOKENS,
        "stream": True,
        "thinking": THINKING,
        "messages": [{"role": "user", "content": scene.say(saying)}],
        **fields,
    }
    return {key: value for key, value in body.items() if value is not None}


def _turn(name: str, saying: str = "text", **fields: Any) -> Ask:
    return Ask(name=name, saying=saying, make=lambda scene: Request(path=PATH, headers=ANTHROPIC, body=_body(scene, saying, fields)))


def _shaped(name: str, shape: Any, **fields: Any) -> Ask:
    """A turn whose messages are made from the text that steers: `shape(text)`."""

    def make(scene: Scene) -> Request:
        return Request(path=PATH, headers=ANTHROPIC, body=_body(scene, "text", {**fields, "messages": shape(scene.say("text"))}))

    return Ask(name=name, saying="text", make=make)


def _count(name: str, messages: Any = None, *, saying: str = "text", **fields: Any) -> Ask:
    def make(scene: Scene) -> Request:
        body = _body(scene, saying, {"max_tokens": None, "stream": None, **fields})
        return Request(path=COUNT, headers=ANTHROPIC, body={**body, "messages": messages or body["messages"]})

    return Ask(name=name, make=make)


def _raw(name: str, body: Any, path: str = PATH) -> Ask:
    def make(scene: Scene) -> Request:
        return Request(path=path, headers={**ANTHROPIC, "content-type": "application/json"}, body=body(scene) if callable(body) else body)

    return Ask(name=name, make=make)


def _result(content: Any, **fields: Any) -> list[dict[str, Any]]:
    """A history with one call and its result."""
    call = {"type": "tool_use", "id": "toolu_01A", "name": sayings.RUN, "input": {"command": "ls"}}
    return [
        {"role": "user", "content": "List."},
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_01A", "content": content, **fields}]},
    ]


def _parts(*texts: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": text} for text in texts]


def _replay(first: str) -> Ask:
    """The second turn as Claude Code sends it: the first answer verbatim, every call answered."""

    def make(scene: Scene) -> Request:
        before: Exchange = answered(scene.past[first])
        blocks = content(before)
        ids = [block["id"] for block in blocks if block["type"] == "tool_use"]
        known(ids, "the first turn had no call to answer")
        results = [{"type": "tool_result", "tool_use_id": call_id, "content": "one", "is_error": False} for call_id in ids]
        messages = [
            *before.request["messages"],
            {"role": "assistant", "content": blocks},
            {"role": "user", "content": [*results, {"type": "text", "text": scene.say("text")}]},
        ]
        return Request(path=PATH, headers=ANTHROPIC, body={**before.request, "messages": messages})

    return Ask(name=f"{first}.replay", saying="text", make=make, after=(first,))


def _deferred(text: str) -> list[dict[str, Any]]:
    call = {"type": "tool_use", "id": "toolu_02", "name": sayings.RUN, "input": {"command": "find"}}
    reference = {"type": "tool_reference", "tool_name": sayings.TIME}
    return [
        {"role": "user", "content": "Find a tool."},
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_02", "content": [reference]}, *_parts(text)]},
    ]


def _claude_code(scene: Scene) -> Request:
    """A body with every key that Claude Code sends."""
    marked = {"type": "text", "text": scene.say("call"), "cache_control": {"type": "ephemeral"}}
    messages = [
        {"role": "user", "content": [*_parts("<system-reminder>Today.</system-reminder>"), marked]},
        {"role": "system", "content": "Available agents: none."},
    ]
    body = _body(
        scene,
        "call",
        {
            "messages": messages,
            "system": [*_parts(BILLING.format("abc", "00000")), *_parts("You are a coding agent.")],
            "tools": tools(),
            "metadata": {"user_id": '{"device_id":"d","account_uuid":"","session_id":"s"}'},
            "thinking": {"type": "adaptive", "display": "updates"},
            "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
            "output_config": {"effort": "high"},
        },
    )
    headers = {**ANTHROPIC, "anthropic-beta": "claude-code-20250219,interleaved-thinking-2025-05-14,no-such-beta-2031-01-01"}
    return Request(path=f"{PATH}?beta=true", headers=headers, body=body)


def _mid_system(system: Any) -> Any:
    return lambda text: [*TALK, {"role": "user", "content": text}, {"role": "system", "content": system}]


_IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}

ASKS = (
    _turn("m.text"),
    _turn("m.text.unary", stream=False),
    _count("m.text.count"),
    _turn("m.call", "call", tools=tools()),
    _turn("m.call.unary", "call", tools=tools(), stream=False),
    _count("m.call.count", saying="call", tools=tools()),
    _replay("m.call"),
    _turn("m.zero", "zero", tools=tools()),
    _turn("m.parallel", "parallel", tools=tools()),
    _turn("m.inter", "interleaved", tools=tools()),
    _turn("m.inter.unary", "interleaved", tools=tools(), stream=False),
    _replay("m.inter"),
    _turn("m.limit", "long", max_tokens=20),
    _turn("m.cut", "cut", max_tokens=60, tools=tools()),
    _turn("m.stop", "stopped", stop_sequences=["never", sayings.STOP_STRING]),
    _turn("m.stop.unary", "stopped", stop_sequences=["never", sayings.STOP_STRING], stream=False),
    _turn("m.stop.thinking", "stop_named", stop_sequences=["never", sayings.STOP_STRING]),
    _turn("m.none", "call", tools=tools(), tool_choice={"type": "none"}),
    _turn("m.any", "call", tools=tools(), tool_choice={"type": "any"}),
    _turn("m.named", "zero", tools=tools(), tool_choice={"type": "tool", "name": sayings.TIME}),
    _turn("m.single", "parallel", tools=tools(), tool_choice={"type": "auto", "disable_parallel_tool_use": True}),
    _turn("m.off", thinking={"type": "disabled"}),
    _turn("m.omitted", thinking={"type": "adaptive", "display": "omitted"}),
    _turn("m.budget", thinking={"type": "enabled", "budget_tokens": 1024}, max_tokens=2048),
    _turn("m.unicode", "unicode"),
    _turn("m.exact", "exact", tools=tools()),
    _turn("m.format", "structured", thinking=None, tools=[], output_config={"format": {"type": "json_schema", "schema": OUTPUT_SCHEMA}}),
    _turn("m.lead", "lead", tools=tools()),
    _turn("m.slow", "slow", tools=tools()),
    Ask(name="m.client", saying="call", make=_claude_code),
    _shaped("m.mid", _mid_system("Be brief.")),
    _shaped("m.mid.list", _mid_system(_parts("Be brief."))),
    _shaped(
        "m.foreign", lambda text: [TALK[0], {"role": "assistant", "content": [*FOREIGN, *_parts("Hm.")]}, {"role": "user", "content": text}]
    ),
    _shaped("m.blank", lambda text: [TALK[0], {"role": "assistant", "content": _parts("\n\n", "Hm.")}, {"role": "user", "content": text}]),
    _shaped("m.deferred", _deferred, tools=[tools()[0], {**tools()[1], "defer_loading": True}]),
    _turn("m.server_tool", tools=[{"type": "web_search_20250305", "name": "web_search", "max_uses": 3}, *tools()]),
    _turn("m.image", messages=[{"role": "user", "content": [*_parts("What is on it?"), _IMAGE]}]),
    _turn("m.thread", thread={"type": "continue", "previous_message_id": "msg_unknown"}),
    _count("m.count.string", [{"role": "user", "content": "One two three."}]),
    _count("m.count.list", [{"role": "user", "content": _parts("One two three.")}]),
    _count("m.count.cached", [{"role": "user", "content": [{**_parts("One two three.")[0], "cache_control": {"type": "ephemeral"}}]}]),
    _count("m.count.system", [TALK[0]], system=_parts("You are S.")),
    _count("m.count.billing", [TALK[0]], system=_parts(BILLING.format("abc", "00000"), "You are S.")),
    _count("m.count.billing2", [TALK[0]], system=_parts(BILLING.format("f9d", "1a2b3"), "You are S.")),
    _count("m.count.result", _result("one\ntwo"), tools=tools()),
    _count("m.count.result.list", _result(_parts("one\ntwo")), tools=tools()),
    _count("m.count.result.error", _result("one\ntwo", is_error=True), tools=tools()),
    _count("m.count.result.empty", _result(""), tools=tools()),
    _raw("m.greedy", lambda scene: _body(scene, "text", {"max_tokens": whole_context(scene)})),
    _raw("m.e.json", b'{"model": "x", "messages": ['),
    _raw("m.e.model", lambda scene: {"model": UNKNOWN_MODEL, "max_tokens": 16, "messages": [TALK[0]]}),
    _raw("m.e.max_tokens", lambda scene: {"model": scene.model, "messages": [TALK[0]]}),
    _raw("m.e.empty", lambda scene: {"model": scene.model, "max_tokens": 16, "messages": []}),
    _raw("m.e.tool", lambda scene: _body(scene, "text", {"tools": tools(), "tool_choice": {"type": "tool", "name": "nothing"}})),
    _raw("m.e.long", lambda scene: _body(scene, "text", {"messages": [{"role": "user", "content": too_long(scene)}]})),
)
