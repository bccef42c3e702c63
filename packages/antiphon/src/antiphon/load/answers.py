"""An answer's stream, read while it comes: when text arrived, what it counted, and what of it goes into the next request. Sans-IO, one
reader a surface."""

from typing import Any, Literal, Protocol

import msgspec

SurfaceName = Literal["messages", "chat", "responses"]


class Answer(msgspec.Struct, kw_only=True):
    """What was read. `deltas`: the times at which events with text, reasoning or arguments came, in seconds of the reader's clock.
    Token counts are the server's own, None where it says none; `prompt_tokens` includes `cached_tokens`. `history`: the answer as the
    surface wants it back. `calls`: ids of the tool calls in it. `ended`: whether the stream came to its proper end."""

    deltas: list[float] = []
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    history: list[Any] = []
    calls: list[str] = []
    ended: bool = False
    error: str = ""


class Reader(Protocol):
    """Reads the events of one stream."""

    answer: Answer

    def event(self, data: dict[str, Any], at: float) -> None:
        """One event's data."""
        ...

    def done(self) -> Answer:
        """The stream is at its end; the answer with its history."""
        ...


class EventLines:
    """Bytes to the JSON of events. Comments, event names and `[DONE]` are passed over; data that is no JSON object too."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[dict[str, Any]]:
        """The events that are whole now."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        out = []
        for line in lines:
            if line.startswith(b"data:") and line[5:].strip() != b"[DONE]":
                try:
                    found = msgspec.json.decode(line[5:])
                except msgspec.DecodeError:
                    continue
                if isinstance(found, dict):
                    out.append(found)
        return out


class MessagesReader:
    """`POST /v1/messages`, streaming."""

    def __init__(self) -> None:
        self.answer = Answer()
        self._blocks: list[dict[str, Any]] = []
        self._inputs: dict[int, str] = {}

    def event(self, data: dict[str, Any], at: float) -> None:
        """One event's data."""
        kind = data.get("type")
        if kind == "content_block_delta":
            self.answer.deltas.append(at)
            self._delta(data.get("index", 0), data.get("delta") or {})
        elif kind == "content_block_start":
            self._blocks.append(dict(data.get("content_block") or {}))
        elif kind == "message_start":
            self._usage((data.get("message") or {}).get("usage") or {})
        elif kind == "message_delta":
            self._usage(data.get("usage") or {})
        elif kind == "message_stop":
            self.answer.ended = True
        elif kind == "error":
            self.answer.error = _message_of(data)

    def done(self) -> Answer:
        """The stream is at its end; the answer with its history."""
        for index, text in self._inputs.items():
            self._blocks[index]["input"] = _json_object(text)
        blocks = [block for block in self._blocks if block.get("type") != "text" or str(block.get("text", "")).strip()]
        if blocks:
            self.answer.history = [{"role": "assistant", "content": blocks}]
        self.answer.calls = [block["id"] for block in blocks if block.get("type") == "tool_use"]
        return self.answer

    def _delta(self, index: int, delta: dict[str, Any]) -> None:
        if not 0 <= index < len(self._blocks):
            return
        block = self._blocks[index]
        for name in ("text", "thinking", "signature"):
            if name in delta:
                block[name] = block.get(name, "") + delta[name]
        if "partial_json" in delta:
            self._inputs[index] = self._inputs.get(index, "") + delta["partial_json"]

    def _usage(self, usage: dict[str, Any]) -> None:
        answer = self.answer
        if "input_tokens" in usage:
            cached = usage.get("cache_read_input_tokens") or 0
            # The surface counts what was cached, and what was written to the cache, apart.
            answer.prompt_tokens = usage["input_tokens"] + cached + (usage.get("cache_creation_input_tokens") or 0)
            answer.cached_tokens = cached
        if usage.get("output_tokens") is not None:
            answer.output_tokens = usage["output_tokens"]


class ChatReader:
    """`POST /v1/chat/completions`, streaming, with usage."""

    def __init__(self) -> None:
        self.answer = Answer()
        self._texts: dict[str, str] = {}
        self._calls: dict[int, dict[str, Any]] = {}

    def event(self, data: dict[str, Any], at: float) -> None:
        """One event's data."""
        if data.get("error"):
            self.answer.error = _message_of(data)
        usage = data.get("usage")
        if usage:
            self.answer.prompt_tokens = usage.get("prompt_tokens")
            self.answer.output_tokens = usage.get("completion_tokens")
            self.answer.cached_tokens = (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
        for choice in data.get("choices") or ():
            delta = choice.get("delta") or {}
            texts = {name: delta[name] for name in ("content", "reasoning_content") if delta.get(name)}
            if texts or delta.get("tool_calls"):
                self.answer.deltas.append(at)
            for name, text in texts.items():
                self._texts[name] = self._texts.get(name, "") + text
            for call in delta.get("tool_calls") or ():
                self._call(call)
            if choice.get("finish_reason"):
                self.answer.ended = True

    def done(self) -> Answer:
        """The stream is at its end; the answer with its history."""
        message: dict[str, Any] = {"role": "assistant", "content": self._texts.get("content"), **self._texts}
        calls = [call for _, call in sorted(self._calls.items())]
        if calls:
            message["tool_calls"] = calls
        if self._texts or calls:
            self.answer.history = [message]
        self.answer.calls = [call["id"] for call in calls]
        return self.answer

    def _call(self, delta: dict[str, Any]) -> None:
        known = self._calls.setdefault(delta.get("index", 0), {"id": "", "type": "function", "function": {"name": "", "arguments": ""}})
        known["id"] = delta.get("id") or known["id"]
        function = delta.get("function") or {}
        known["function"]["name"] += function.get("name") or ""
        known["function"]["arguments"] += function.get("arguments") or ""


class ResponsesReader:
    """`POST /v1/responses`, streaming."""

    def __init__(self) -> None:
        self.answer = Answer()

    def event(self, data: dict[str, Any], at: float) -> None:
        """One event's data."""
        kind = str(data.get("type", ""))
        if kind.endswith(".delta"):
            self.answer.deltas.append(at)
        elif kind in ("response.completed", "response.incomplete"):
            response = data.get("response") or {}
            usage = response.get("usage") or {}
            self.answer.ended = True
            self.answer.prompt_tokens = usage.get("input_tokens")
            self.answer.output_tokens = usage.get("output_tokens")
            self.answer.cached_tokens = (usage.get("input_tokens_details") or {}).get("cached_tokens") or 0
            self.answer.history = list(response.get("output") or ())
            self.answer.calls = [item["call_id"] for item in self.answer.history if item.get("type") == "function_call"]
        elif kind in ("error", "response.failed"):
            self.answer.error = _message_of(data.get("response") or data)

    def done(self) -> Answer:
        """The stream is at its end; the answer with its history."""
        return self.answer


READERS: dict[SurfaceName, type[MessagesReader] | type[ChatReader] | type[ResponsesReader]] = {
    "messages": MessagesReader,
    "chat": ChatReader,
    "responses": ResponsesReader,
}


def _message_of(data: dict[str, Any]) -> str:
    error = data.get("error")
    text = error.get("message") if isinstance(error, dict) else error
    return str(text or data.get("message") or "an error without a message")


def _json_object(text: str) -> Any:
    try:
        return msgspec.json.decode(text) if text.strip() else {}
    except msgspec.DecodeError:
        return {}
