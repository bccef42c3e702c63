"""Agent clients as far as replay is concerned: what each makes of a turn when it sends it back. Bodies in, bodies out.

The forms were measured on the real clients: Claude Code moves calls behind everything else and flips content between string and list,
OpenCode spells arguments anew and keeps no item ids, OpenClaw strips call ids on Chat, SDKs return what they got.
"""

import json
from collections.abc import Callable, Sequence
from typing import Any

from antiphon_turns import Tool

Json = dict[str, Any]


def compact(arguments: str) -> str:
    """Arguments as a client spells them that has parsed them."""
    return json.dumps(json.loads(arguments), separators=(",", ":"), ensure_ascii=False)


def respelled(value: Any) -> Any:
    """A JSON value with whole numbers as a client written in JavaScript has them: 1.0 becomes 1."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {key: respelled(item) for key, item in value.items()}
    return [respelled(item) for item in value] if isinstance(value, list) else value


class Client:
    """A session of one client. `take` keeps an answer's turn as the client does, and goes on with results, or with the next question."""

    surface = ""

    def __init__(self, tools: Sequence[Tool], *, thinking: str = "on") -> None:
        self.tools = tools
        self.thinking = thinking
        self.said: list[Json] = []
        self.asked = 0
        self.ask()

    def ask(self) -> None:
        """The user's next words."""
        self.asked += 1
        self.said.append({"role": "user", "content": f"Question {self.asked}: wh\u00e4t  now?"})

    def body(self) -> bytes:
        """The next request."""
        return json.dumps(self.request(), ensure_ascii=False).encode()

    def request(self) -> Json:
        raise NotImplementedError

    def take(self, answer: bytes) -> None:
        raise NotImplementedError


class Messages(Client):
    """The vendor's SDK: blocks verbatim."""

    surface = "messages"

    def request(self) -> Json:
        tools = [{"name": t.name, "description": t.description or "", "input_schema": json.loads(t.parameters)} for t in self.tools]
        thinking = {"on": {"thinking": {"type": "adaptive"}}, "off": {"thinking": {"type": "disabled"}}}.get(self.thinking, {})
        return {"model": "m", "max_tokens": 9000, "tools": tools, "messages": self.said, **thinking}

    def take(self, answer: bytes) -> None:
        blocks = self.kept(json.loads(answer)["content"])
        results = [self.result(block) for block in blocks if block["type"] == "tool_use"]
        if blocks:
            self.said.append({"role": "assistant", "content": blocks})
        if results:
            self.said.append({"role": "user", "content": results})
        else:
            self.ask()

    def kept(self, blocks: list[Json]) -> list[Json]:
        return blocks

    def result(self, block: Json) -> Json:
        return {"type": "tool_result", "tool_use_id": block["id"], "content": "ok \u00fc"}


class ClaudeCode(Messages):
    """Calls behind all else, cache marks that move, content as string or list in turn."""

    def request(self) -> Json:
        found = super().request()
        flips = []
        for place, message in enumerate(self.said):
            content = message["content"]
            last = place == len(self.said) - 1
            if isinstance(content, str) and (last or (place + len(self.said)) % 3 == 0):
                block = {"type": "text", "text": content}
                content = [{**block, "cache_control": {"type": "ephemeral"}} if last else block]
            flips.append({**message, "content": content})
        header = {"type": "text", "text": f"x-anthropic-billing-header: cc_version=2.1.{len(self.said)}; cch={self.asked}a;"}
        return {**found, "system": [header, {"type": "text", "text": "Be brief."}], "messages": flips}

    def kept(self, blocks: list[Json]) -> list[Json]:
        return sorted(({**b, "input": respelled(b["input"])} if "input" in b else b for b in blocks), key=lambda b: b["type"] == "tool_use")

    def result(self, block: Json) -> Json:
        content = "ok \u00fc" if len(self.said) % 2 else [{"type": "text", "text": "ok \u00fc"}]
        return {**super().result(block), "content": content, "is_error": False}


class Withheld(Messages):
    """Thinking that the client does not want to see: signatures only."""

    def request(self) -> Json:
        return {**super().request(), "thinking": {"type": "adaptive", "display": "omitted"}}


class OpenCodeMessages(Messages):
    """Order kept, arguments spelled anew; thinking without a signature is dropped."""

    def kept(self, blocks: list[Json]) -> list[Json]:
        kept = [b for b in blocks if b["type"] != "thinking" or b.get("signature")]
        return [{**b, "input": respelled(b["input"])} if "input" in b else b for b in kept]


class Chat(Client):
    """The vendor's SDK: the dumped message, reasoning field included."""

    surface = "chat"

    def request(self) -> Json:
        tools = [
            {"type": "function", "function": {"name": t.name, "description": t.description or "", "parameters": json.loads(t.parameters)}}
            for t in self.tools
        ]
        thinking = {"on": {"reasoning_effort": "medium"}, "off": {"reasoning_effort": "none"}}.get(self.thinking, {})
        return {"model": "m", "messages": self.said, "tools": tools, **thinking}

    def take(self, answer: bytes) -> None:
        message = self.kept(json.loads(answer)["choices"][0]["message"])
        calls = message.get("tool_calls") or []
        self.said.append(message)
        self.said += [{"role": "tool", "tool_call_id": call["id"], "content": "ok \u00fc"} for call in calls]
        if not calls:
            self.ask()

    def kept(self, message: Json) -> Json:
        return message

    @staticmethod
    def spelled(message: Json, spell: Callable[[str], str], name: Callable[[str], str] = str) -> Json:
        """The message with its calls' arguments and ids in another form."""
        calls = [
            {"id": name(c["id"]), "type": "function", "function": {**c["function"], "arguments": spell(c["function"]["arguments"])}}
            for c in message.get("tool_calls") or []
        ]
        return {**{k: v for k, v in message.items() if k != "tool_calls"}, **({"tool_calls": calls} if calls else {})}


class OpenCodeChat(Chat):
    """Compact arguments, `reasoning_content`, an empty content where there is no text."""

    def kept(self, message: Json) -> Json:
        found = self.spelled(message, compact)
        kept = {key: found[key] for key in ("role", "reasoning_content", "tool_calls") if found.get(key)}
        return {**kept, "content": found.get("content") or ""}


class PiChat(Chat):
    """The reasoning key it received, arguments spelled anew, no content where there is no text."""

    def kept(self, message: Json) -> Json:
        return self.spelled(message, lambda arguments: json.dumps(respelled(json.loads(arguments)), separators=(",", ":")))


class OpenClawChat(Chat):
    """Call ids without what is not alphanumeric, cut at 40."""

    def kept(self, message: Json) -> Json:
        return self.spelled(message, compact, lambda name: "".join(c for c in name if c.isalnum())[:40])


class PlainChat(Chat):
    """An application that knows no reasoning."""

    def kept(self, message: Json) -> Json:
        return {key: message[key] for key in ("role", "content", "tool_calls") if message.get(key) is not None}


class Responses(Client):
    """The vendor's SDK: every item as it came."""

    surface = "responses"

    def request(self) -> Json:
        tools = [
            {"type": "function", "name": t.name, "description": t.description or "", "parameters": json.loads(t.parameters)}
            for t in self.tools
        ]
        thinking = {"on": {"reasoning": {"effort": "medium"}}, "off": {"reasoning": {"effort": "none"}}}.get(self.thinking, {})
        return {
            "model": "m",
            "input": self.said,
            "tools": tools,
            "store": False,
            "include": ["reasoning.encrypted_content"],
            **thinking,
        }

    def take(self, answer: bytes) -> None:
        items = [self.kept(item) for item in json.loads(answer)["output"] if self.keeps(item)]
        calls = [item for item in items if item["type"] == "function_call"]
        self.said += [*items, *({"type": "function_call_output", "call_id": c["call_id"], "output": "ok \u00fc"} for c in calls)]
        if not calls:
            self.ask()

    def keeps(self, item: Json) -> bool:
        return True

    def kept(self, item: Json) -> Json:
        return item


class Codex(Responses):
    """Items with their ids; `content: null` in reasoning."""

    def kept(self, item: Json) -> Json:
        kept = {key: value for key, value in item.items() if key != "status"}
        return {**kept, "content": None} if item["type"] == "reasoning" else kept


class OpenClawResponses(Responses):
    """Item ids dropped, arguments spelled anew."""

    def kept(self, item: Json) -> Json:
        kept = {key: value for key, value in item.items() if key not in ("id", "status")}
        return {**kept, "arguments": compact(item["arguments"])} if item["type"] == "function_call" else kept


class PlainResponses(Responses):
    """An application that drops reasoning items."""

    def keeps(self, item: Json) -> bool:
        return bool(item["type"] != "reasoning")


CLIENTS: dict[str, type[Client]] = {
    "anthropic sdk": Messages,
    "claude code": ClaudeCode,
    "thinking withheld": Withheld,
    "opencode messages": OpenCodeMessages,
    "openai sdk chat": Chat,
    "opencode chat": OpenCodeChat,
    "pi chat": PiChat,
    "openclaw chat": OpenClawChat,
    "chat without reasoning": PlainChat,
    "openai sdk responses": Responses,
    "codex": Codex,
    "openclaw responses": OpenClawResponses,
    "responses without reasoning": PlainResponses,
}
