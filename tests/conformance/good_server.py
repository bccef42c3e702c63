"""A small server that does everything the kit checks, without sockets: requests in, answers out, time counted and not waited for."""

from typing import Any

from tests.conformance import chat_wire, messages_wire, responses_wire
from tests.conformance.model import Turn, Want, speak, tokens
from tests.conformance.wire import Answer

from antiphon.conformance import sayings
from antiphon.conformance.asks import Request
from antiphon.conformance.exchange import Exchange

MODEL = "small"
CONTEXT = 4000


class GoodServer:
    """Answers requests as the clients need it. `silence` is that of the run, in seconds."""

    def __init__(self, silence: float = 20.0) -> None:
        self._sayings = sayings.table(silence)
        self._turns = 0
        self._seen: list[list[str]] = []
        self._stored: dict[str, tuple[list[dict], dict]] = {}

    async def __call__(self, request: Request) -> Exchange:
        """The transport of a run."""
        return self.answer(request).exchange()

    def answer(self, request: Request) -> Answer:
        path = request.path.partition("?")[0]
        openai = not path.startswith("/v1/messages")
        if path == "/" or path.startswith("/v1/models"):
            return catalog(path, request)
        if request.method != "POST":
            return self._stored_response(path, request)
        body = request.body
        if isinstance(body, bytes):
            return _refusal(400, "invalid_json", "the body is no JSON", openai=openai)
        if body["model"] != MODEL:
            return _refusal(404, "model_not_found", f"no model {body['model']!r}", openai=openai)
        match path:
            case "/v1/messages" | "/v1/messages/count_tokens":
                return self._messages(body, count=path.endswith("count_tokens"))
            case "/v1/chat/completions":
                return self._chat(body)
            case "/v1/completions":
                choice = {"index": 0, "text": "Fine.", "finish_reason": "stop", "logprobs": None}
                return Answer(body={"id": "cmpl-1", "object": "text_completion", "created": 1, "model": MODEL, "choices": [choice]})
            case "/v1/responses" | "/v1/responses/compact":
                return self._responses(body, compact=path.endswith("compact"))
        return _refusal(404, "not_found", f"nothing at {path}", openai=True)

    def _turn(self, want: Want) -> Turn:
        self._turns += 1
        turn = speak(want, self._turns, self._sayings)
        words = tokens(want.prompt)
        turn.cached_tokens = max((_common(words, seen) for seen in self._seen), default=0)
        self._seen.append(words)
        return turn

    def _messages(self, body: dict, *, count: bool) -> Answer:
        if problem := _messages_problem(body, count=count):
            return problem
        if count:
            return Answer(body={"input_tokens": len(tokens(messages_wire.prompt(body)))})
        want = messages_wire.read(body)
        if (long := len(tokens(want.prompt))) > CONTEXT:
            text = f"prompt is too long: {long} tokens > {CONTEXT} maximum"
            return messages_wire.error(400, "invalid_request_error", text)
        return messages_wire.answer(self._turn(want), body)

    def _chat(self, body: dict) -> Answer:
        if not body["messages"]:
            return _refusal(400, "invalid_value", "messages: at least one is needed", openai=True)
        want = chat_wire.read(body)
        return _too_long(want) or chat_wire.answer(self._turn(want), body)

    def _responses(self, body: dict, *, compact: bool) -> Answer:
        if "input" not in body:
            return _refusal(400, "missing_required_parameter", "input: field required", openai=True)
        before = body.get("previous_response_id")
        if before is not None and before not in self._stored:
            return _refusal(404, "previous_response_not_found", f"no response {before!r}", openai=True)
        past = self._chain(before)
        want = responses_wire.read(body, past)
        if problem := _too_long(want):
            return problem
        turn = self._turn(want)
        output = responses_wire.items(turn, body)
        triggered = responses_wire.input_items(body)[-1].get("type") == "compaction_trigger"
        if compact or triggered:
            turn.spoken = []
            output = [{"id": f"cmp_t{turn.number}", "type": "compaction", "encrypted_content": "seal.summary"}]
        if compact:
            return Answer(body={"id": f"resp_t{turn.number}", "object": "response.compaction", "output": output})
        found = responses_wire.answer(turn, output)
        if body.get("store", True):
            self._stored[f"resp_t{turn.number}"] = ([*past, *responses_wire.input_items(body)], responses_wire.response(turn, output))
        return found

    def _chain(self, before: str | None) -> list[dict]:
        if before is None:
            return []
        given, response = self._stored[before]
        return [*given, *response["output"]]

    def _stored_response(self, path: str, request: Request) -> Answer:
        if "upgrade" in request.headers:
            return Answer(status=426, body={"error": {"message": "no WebSocket here"}})
        response_id, _, rest = path.removeprefix("/v1/responses/").partition("/")
        if response_id not in self._stored:
            return _refusal(404, "not_found", f"no response {response_id!r}", openai=True)
        if request.method == "DELETE":
            del self._stored[response_id]
            return Answer(body={"id": response_id, "object": "response", "deleted": True})
        given, response = self._stored[response_id]
        if rest == "input_items":
            data = [{"id": f"msg_in{place}", **item} for place, item in enumerate(given)]
            return Answer(body={"object": "list", "data": data, "first_id": "msg_in0", "last_id": data[-1]["id"], "has_more": False})
        return Answer(body=response)


def _messages_problem(body: dict, *, count: bool) -> Answer | None:
    def invalid(text: str, **more: Any) -> Answer:
        return messages_wire.error(400, "invalid_request_error", text, **more)

    if "max_tokens" not in body and not count:
        return invalid("max_tokens: Field required")
    if not body["messages"]:
        return invalid("messages: at least one message is required")
    if "thread" in body:
        return invalid("thread: not supported", details={"error_code": "thread_not_found"})
    named = (body.get("tool_choice") or {}).get("name")
    if named and named not in [tool["name"] for tool in body.get("tools") or []]:
        return invalid(f"tool_choice: no tool {named!r}")
    blocks = [block for message in body["messages"] if isinstance(message["content"], list) for block in message["content"]]
    if any(block["type"] == "image" for block in blocks):
        return invalid("messages.0.content.1: this model cannot see an image")
    return None


def _too_long(want: Want) -> Answer | None:
    long = len(tokens(want.prompt))
    text = f"The maximum context length is {CONTEXT} tokens; this prompt has {long}."
    return _refusal(400, "context_length_exceeded", text, openai=True) if long > CONTEXT else None


def _refusal(status: int, code: str, message: str, *, openai: bool) -> Answer:
    if openai:
        return responses_wire.error(status, code, message)
    return messages_wire.error(status, "not_found_error" if status == 404 else "invalid_request_error", message)


def _common(one: list[str], two: list[str]) -> int:
    return next((place for place, (a, b) in enumerate(zip(one, two, strict=False)) if a != b), min(len(one), len(two)))


def catalog(path: str, request: Request) -> Answer:
    """The model list for everybody, one model, or what stands at the root."""
    if path == "/":
        return Answer(body={"service": "good"})
    entry = {"id": MODEL, "type": "model", "display_name": "Small", "created_at": "2030-01-01T00:00:00Z", "max_input_tokens": CONTEXT}
    entry |= {"object": "model", "created": 1_800_000_000, "owned_by": "nobody"}
    if path != "/v1/models":
        wanted = path.removeprefix("/v1/models/")
        return Answer(body=entry) if wanted == MODEL else _refusal(404, "model_not_found", f"no model {wanted!r}", openai=True)
    codex = {
        "slug": MODEL,
        "display_name": "Small",
        "supported_reasoning_levels": [{"effort": "medium", "description": "some"}],
        "shell_type": "unified_exec",
        "visibility": "list",
        "supported_in_api": True,
        "priority": 1,
        "support_verbosity": False,
        "truncation_policy": {"mode": "bytes", "limit": 10_000},
        "experimental_supported_tools": [],
        "base_instructions": "Work with care.",
    }
    body = {"object": "list", "data": [entry], "has_more": False, "first_id": MODEL, "last_id": MODEL, "models": [codex]}
    return Answer(body=body)
