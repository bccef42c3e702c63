"""One session's side of its requests: planned requests to bodies, with the real answers in the history. Sans-IO."""

from typing import Any, Literal

import msgspec

from antiphon.load import text
from antiphon.load.answers import Answer, SurfaceName
from antiphon.load.trace import PlannedRequest

PATHS: dict[SurfaceName, str] = {"messages": "/v1/messages", "chat": "/v1/chat/completions", "responses": "/v1/responses"}
Lengths = Literal["limit", "ignore-eos", "mock"]
"""How answers get their length: by the token limit alone; also with `ignore_eos`, which vLLM and SGLang know; by an order to our mock
engine in the text."""


_LIMITS: dict[SurfaceName, str] = {"messages": "max_tokens", "chat": "max_tokens", "responses": "max_output_tokens"}
# What a server cannot do a second time: it has not stored what the recorded one had, and nobody fetches what runs in the background.
_ONCE = ("previous_response_id", "conversation", "background")


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """One HTTP request."""

    path: str
    headers: dict[str, str]
    body: bytes


class Dialogue:
    """Made by a session's first request; a child is given its parent's `messages` at the time it begins. Mutable."""

    def __init__(
        self, request: PlannedRequest, *, surface: SurfaceName, model: str, lengths: Lengths, parent: "Dialogue | None" = None
    ) -> None:
        self._surface = surface
        self._model = model
        self._lengths = lengths
        self._system, self._tools = text.head(request.head or request.session, request.head_tokens)
        self.messages: list[Any] = []
        self._pending: list[str] = []
        self._parent = request.parent
        self.root: str = parent.root if parent is not None else request.session
        if parent is not None and request.share == "history":
            self._system, self._tools = parent._system, parent._tools
            self.messages = list(parent.messages)
            self._pending = list(parent._pending)

    def ask(self, request: PlannedRequest) -> Call:
        """The next request: its new text answers the calls of the answer before, or is said by the user; or it is a recorded body."""
        if request.body is not None:
            surface = request.surface or self._surface
            body = recorded_body(request.body, surface, model=self._model)
            if self._lengths == "ignore-eos":
                body |= {"ignore_eos": True, _LIMITS[surface]: request.output_tokens}
            return self._call(request, surface, body)
        said = request.text if request.text is not None else text.words(request.new_tokens, f"{request.session}/{request.turn}")
        if self._lengths == "mock":
            said = f"{said} @@REPEAT:{max(request.output_tokens - 1, 1)}@@"
        self.messages += self._results(said) if self._pending else self._user(said)
        self._pending = []
        body = self._body(request)
        body["nvext"] = {
            "agent_hints": {"priority": request.priority, "strict_priority": request.strict_priority, "osl": request.output_tokens}
        }
        if self._lengths == "ignore-eos":
            body["ignore_eos"] = True
        return self._call(request, self._surface, body)

    def _call(self, request: PlannedRequest, surface: SurfaceName, body: dict[str, Any]) -> Call:
        headers = {"x-dynamo-session-id": request.session, "content-type": "application/json"}
        if self._parent is not None:
            headers["x-dynamo-parent-session-id"] = self._parent
        if request.final:
            headers["x-dynamo-session-final"] = "true"
        if surface == "messages":
            headers["anthropic-version"] = "2023-06-01"
        return Call(path=PATHS[surface], headers=headers, body=msgspec.json.encode(body))

    def answered(self, answer: Answer) -> None:
        """The answer enters the history. One without content is told as such, since surfaces want turns to alternate."""
        self.messages += answer.history or self._assistant("(nothing)")
        self._pending = list(answer.calls)

    def _body(self, request: PlannedRequest) -> dict[str, Any]:
        body: dict[str, Any] = {"model": self._model, "stream": True}
        limit = request.output_tokens + (16 if self._lengths == "mock" else 0)
        if self._surface == "messages":
            body |= {"max_tokens": limit, "messages": self.messages, "system": self._system}
            tools = [{"name": tool["name"], "description": tool["description"], "input_schema": tool["schema"]} for tool in self._tools]
        elif self._surface == "chat":
            body |= {"max_tokens": limit, "messages": [{"role": "system", "content": self._system}, *self.messages]}
            body["stream_options"] = {"include_usage": True}
            tools = [
                {"type": "function", "function": {"name": tool["name"], "description": tool["description"], "parameters": tool["schema"]}}
                for tool in self._tools
            ]
        else:
            body |= {"max_output_tokens": max(limit, 16), "input": self.messages, "instructions": self._system, "store": False}
            body["include"] = ["reasoning.encrypted_content"]
            tools = [
                {
                    "type": "function",
                    "name": tool["name"],
                    "description": tool["description"],
                    "parameters": tool["schema"],
                    "strict": False,
                }
                for tool in self._tools
            ]
        if tools:
            body["tools"] = tools
        return body

    def _user(self, said: str) -> list[dict[str, Any]]:
        if self._surface == "responses":
            return [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": said}]}]
        return [{"role": "user", "content": said}]

    def _assistant(self, said: str) -> list[dict[str, Any]]:
        if self._surface == "responses":
            return [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": said}]}]
        return [{"role": "assistant", "content": said}]

    def _results(self, said: str) -> list[dict[str, Any]]:
        """The new text as the result of the first call; the others say that they are done."""
        texts = [said, *["done"] * (len(self._pending) - 1)]
        pairs = list(zip(self._pending, texts, strict=True))
        if self._surface == "messages":
            return [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": call, "content": each} for call, each in pairs]}]
        if self._surface == "chat":
            return [{"role": "tool", "tool_call_id": call, "content": each} for call, each in pairs]
        return [{"type": "function_call_output", "call_id": call, "output": each} for call, each in pairs]


def recorded_body(body: dict[str, Any], surface: SurfaceName, *, model: str) -> dict[str, Any]:
    """A recorded body to be asked again: of this model, streamed, with its usage told, and nothing stored."""
    again = {name: value for name, value in body.items() if name not in _ONCE} | {"model": model, "stream": True}
    if surface == "chat":
        again["stream_options"] = {**(body.get("stream_options") or {}), "include_usage": True}
    if surface == "responses":
        again["store"] = False
    return again
