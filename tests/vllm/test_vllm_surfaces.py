"""A real vLLM behind a real frontend, through the vendors' SDKs: text, tool calls, structured output, prefix reuse."""

import json
from typing import Any, Literal

import anthropic
import jsonschema
import openai
import pytest

Surface = Literal["messages", "chat", "responses"]
SURFACES: tuple[Surface, ...] = ("messages", "chat", "responses")
MODEL = "SmolLM2-135M-Instruct"
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 20}, "unit": {"enum": ["c", "f"]}, "days": {"type": "integer"}},
    "required": ["city", "unit", "days"],
    "additionalProperties": False,
}


class Asked:
    """One answer, whatever the surface calls its parts."""

    def __init__(self, *, text: str = "", calls: list[tuple[str, str]] | None = None, prompt: int = 0, cached: int = 0) -> None:
        self.text = text
        self.calls = calls or []
        self.prompt = prompt
        self.cached = cached


def ask(url: str, surface: Surface, prompt: str, *, system: str = "", stream: bool = False, tokens: int = 32, **more: Any) -> Asked:
    """One turn at temperature 0."""
    return {"messages": ask_messages, "chat": ask_chat, "responses": ask_responses}[surface](
        url, prompt, system=system, stream=stream, tokens=tokens, **more
    )


def ask_messages(url: str, prompt: str, *, system: str, stream: bool, tokens: int, tool: bool = False, output: bool = False) -> Asked:
    client = anthropic.Anthropic(base_url=url, api_key="none", max_retries=0, timeout=300)
    body: dict[str, Any] = {"model": MODEL, "max_tokens": tokens, "messages": [{"role": "user", "content": prompt}]}
    body["extra_body"] = {"temperature": 0}
    if system:
        body["system"] = system
    if tool:
        body["tools"] = [{"name": "weather", "description": "Looks it up.", "input_schema": SCHEMA}]
        body["tool_choice"] = {"type": "any"}
    if output:
        body["extra_body"]["output_config"] = {"format": {"type": "json_schema", "schema": SCHEMA}}
    if stream:
        with client.messages.stream(**body) as events:
            message = events.get_final_message()
    else:
        message = client.messages.create(**body)
    text = "".join(block.text for block in message.content if block.type == "text")
    calls = [(block.name, json.dumps(block.input)) for block in message.content if block.type == "tool_use"]
    cached = message.usage.cache_read_input_tokens or 0
    return Asked(text=text, calls=calls, prompt=message.usage.input_tokens + cached, cached=cached)


def ask_chat(url: str, prompt: str, *, system: str, stream: bool, tokens: int, tool: bool = False, output: bool = False) -> Asked:
    client = openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0, timeout=300)
    turns = [{"role": "system", "content": system}] if system else []
    body: dict[str, Any] = {
        "model": MODEL,
        "max_tokens": tokens,
        "temperature": 0,
        "messages": [*turns, {"role": "user", "content": prompt}],
    }
    if tool:
        body["tools"] = [{"type": "function", "function": {"name": "weather", "description": "Looks it up.", "parameters": SCHEMA}}]
        body["tool_choice"] = "required"
    if output:
        body["response_format"] = {"type": "json_schema", "json_schema": {"name": "w", "schema": SCHEMA, "strict": True}}
    if stream:
        return folded(client.chat.completions.create(**body, stream=True, stream_options={"include_usage": True}))
    answer = client.chat.completions.create(**body)
    message = answer.choices[0].message
    calls = [(call.function.name, call.function.arguments) for call in message.tool_calls or []]
    return Asked(text=message.content or "", calls=calls, prompt=answer.usage.prompt_tokens, cached=cached_of(answer.usage))


def folded(chunks: Any) -> Asked:
    """A stream of Chat as its body; the SDK's own helper refuses answers that reach their limit."""
    answer = Asked()
    for chunk in chunks:
        if chunk.usage is not None:
            answer.prompt, answer.cached = chunk.usage.prompt_tokens, cached_of(chunk.usage)
        for choice in chunk.choices:
            answer.text += choice.delta.content or ""
            for call in choice.delta.tool_calls or []:
                name, arguments = answer.calls[call.index] if call.index < len(answer.calls) else ("", "")
                function = call.function
                answer.calls[call.index :] = [(name + (function.name or ""), arguments + (function.arguments or ""))]
    return answer


def cached_of(usage: Any) -> int:
    """Cached tokens as Chat tells them."""
    return (usage.prompt_tokens_details.cached_tokens or 0) if usage.prompt_tokens_details else 0


def ask_responses(url: str, prompt: str, *, system: str, stream: bool, tokens: int, tool: bool = False, output: bool = False) -> Asked:
    client = openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0, timeout=300)
    body: dict[str, Any] = {"model": MODEL, "max_output_tokens": tokens, "temperature": 0, "input": prompt, "store": False}
    if system:
        body["instructions"] = system
    if tool:
        body["tools"] = [{"type": "function", "name": "weather", "description": "Looks it up.", "parameters": SCHEMA, "strict": True}]
        body["tool_choice"] = "required"
    if output:
        body["text"] = {"format": {"type": "json_schema", "name": "w", "schema": SCHEMA, "strict": True}}
    if stream:
        ended = [
            event for event in client.responses.create(**body, stream=True) if event.type in ("response.completed", "response.incomplete")
        ]
        answer = ended[-1].response
    else:
        answer = client.responses.create(**body)
    calls = [(item.name, item.arguments) for item in answer.output if item.type == "function_call"]
    assert answer.usage is not None
    cached = answer.usage.input_tokens_details.cached_tokens
    return Asked(text=answer.output_text, calls=calls, prompt=answer.usage.input_tokens, cached=cached)


@pytest.mark.parametrize("surface", SURFACES)
def test_text_streamed_and_whole_is_the_same(frontend: str, surface: Surface) -> None:
    whole = ask(frontend, surface, "Name three colours.")
    streamed = ask(frontend, surface, "Name three colours.", stream=True)
    assert whole.text.strip()
    assert streamed.text == whole.text


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("surface", SURFACES)
def test_a_forced_call_fits_its_schema(frontend: str, surface: Surface, stream: bool) -> None:  # noqa: FBT001 - a parameter of the table
    answer = ask(frontend, surface, "What is the weather in Paris?", stream=stream, tokens=200, tool=True)
    ((name, arguments),) = answer.calls
    assert name == "weather"
    jsonschema.validate(json.loads(arguments), SCHEMA)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("surface", SURFACES)
def test_structured_output_fits_its_schema(frontend: str, surface: Surface, stream: bool) -> None:  # noqa: FBT001 - a parameter of the table
    answer = ask(frontend, surface, "The weather in Paris, please.", stream=stream, tokens=200, output=True)
    jsonschema.validate(json.loads(answer.text), SCHEMA)


@pytest.mark.parametrize("surface", SURFACES)
def test_a_prefix_is_computed_once(frontend: str, surface: Surface) -> None:
    system = f"You help on {surface}. " + " ".join(f"Rule {n}: never say {n * 7}." for n in range(40))
    first = ask(frontend, surface, "Hello", system=system, tokens=4)
    second = ask(frontend, surface, "And now?", system=system, tokens=4)
    assert first.cached < 64
    assert second.prompt - second.cached < 64, "only the last blocks are new"
