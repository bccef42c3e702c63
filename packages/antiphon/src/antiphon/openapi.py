"""The OpenAPI document: what is here, in the vendors' own terms. Bodies are described by reference to the vendors' APIs."""

from collections.abc import Iterable
from typing import Any

import msgspec

from antiphon import __version__

_TEXT: dict[str, str] = {
    "/v1/messages": "Anthropic Messages: one turn, streamed (`stream: true`) or whole.",
    "/v1/messages/count_tokens": "Exact number of prompt tokens the same /v1/messages request would have.",
    "/v1/chat/completions": "OpenAI Chat Completions: one turn, streamed (`stream: true`) or whole.",
    "/v1/responses": "OpenAI Responses: one turn, streamed (`stream: true`), whole, or in the background; an upgrade to WebSocket.",
    "/v1/responses/{response_id}": "A stored response; `stream=true` follows a background one from `starting_after`.",
    "/v1/responses/{response_id}/cancel": "Ends a background response.",
    "/v1/responses/{response_id}/input_items": "The input items of a stored response, by page.",
    "/v1/responses/compact": "A conversation as one compaction item.",
    "/v1/responses/input_tokens": "Exact number of prompt tokens the same /v1/responses request would have.",
    "/v1/models": "The served model and its plain aliases, for OpenAI's, Anthropic's and Codex's clients.",
    "/v1/completions": "Legacy OpenAI Completions: text behind a raw prompt, streamed (`stream: true`) or whole.",
    "/v1/models/{model_id}": "One model; ids may contain slashes.",
    "/health": "200 when a turn could start now, else 503.",
    "/antiphon/explain": "Why the cache missed: the latest requests of the same key, explained.",
    "/metrics": "Metrics in the text form of Prometheus.",
    "/openapi.json": "This document.",
    "/": "Service name and model.",
    "/api/hello": "Connection probe of Claude Code.",
    "/api/event_logging/batch": "Accepted and dropped.",
}

_PARAMETERS = {"{model_id}": "model_id", "{response_id}": "response_id"}
_INPUT = {"description": "a string, or a list of items"}
_RESPONSES_BODY: dict[str, Any] = {
    "type": "object",
    "required": ["model"],
    "properties": {
        "model": {"type": "string"},
        "input": _INPUT,
        "instructions": {"type": "string"},
        "previous_response_id": {"type": "string"},
        "tools": {"type": "array"},
        "tool_choice": {"description": "auto, none, required, or a named tool"},
        "reasoning": {"type": "object"},
        "text": {"type": "object"},
        "max_output_tokens": {"type": "integer", "minimum": 1},
        "store": {"type": "boolean"},
        "background": {"type": "boolean"},
        "stream": {"type": "boolean"},
    },
}
_MESSAGE_LIST = {"type": "array", "minItems": 1, "items": {"type": "object", "required": ["role"]}}
_BODIES: dict[str, dict[str, Any]] = {
    "/v1/responses": _RESPONSES_BODY,
    "/v1/responses/compact": _RESPONSES_BODY,
    "/v1/responses/input_tokens": _RESPONSES_BODY,
    "/v1/messages": {
        "type": "object",
        "required": ["model", "max_tokens", "messages"],
        "properties": {
            "model": {"type": "string"},
            "max_tokens": {"type": "integer", "minimum": 1},
            "messages": _MESSAGE_LIST,
            "system": {"description": "string or text blocks"},
            "tools": {"type": "array"},
            "tool_choice": {"type": "object"},
            "thinking": {"type": "object"},
            "output_config": {"type": "object"},
            "context_management": {"type": "object"},
            "stop_sequences": {"type": "array", "items": {"type": "string"}},
            "temperature": {"type": "number"},
            "stream": {"type": "boolean"},
        },
    },
    "/v1/messages/count_tokens": {
        "type": "object",
        "required": ["model", "messages"],
        "properties": {"model": {"type": "string"}, "messages": _MESSAGE_LIST, "system": {}, "tools": {"type": "array"}},
    },
    "/v1/chat/completions": {
        "type": "object",
        "required": ["model", "messages"],
        "properties": {
            "model": {"type": "string"},
            "messages": _MESSAGE_LIST,
            "tools": {"type": "array"},
            "tool_choice": {"description": "auto, none, required, or a named function"},
            "max_completion_tokens": {"type": "integer", "minimum": 1},
            "reasoning_effort": {"type": "string"},
            "stop": {"description": "string or list of strings"},
            "stream": {"type": "boolean"},
            "stream_options": {"type": "object"},
            "n": {"type": "integer", "minimum": 1},
            "response_format": {"type": "object"},
            "logprobs": {"type": "boolean"},
            "top_logprobs": {"type": "integer", "minimum": 0, "maximum": 20},
        },
    },
    "/v1/completions": {
        "type": "object",
        "required": ["model", "prompt"],
        "properties": {
            "model": {"type": "string"},
            "prompt": {"description": "text, list of texts, token ids, or list of lists of token ids"},
            "max_tokens": {"type": "integer", "minimum": 1},
            "n": {"type": "integer", "minimum": 1},
            "echo": {"type": "boolean"},
            "logprobs": {"type": "integer", "minimum": 0, "maximum": 20},
            "stop": {"description": "string or list of strings"},
            "stream": {"type": "boolean"},
        },
    },
}

_QUERIES: dict[str, dict[str, Any]] = {
    "/antiphon/explain": {
        "session": {"type": "string"},
        "request_id": {"type": "string"},
        "limit": {"type": "integer", "minimum": 1, "maximum": 256},
    },
    "/v1/models": {
        "limit": {"type": "integer", "minimum": 1, "maximum": 1000},
        "after_id": {"type": "string"},
        "before_id": {"type": "string"},
    },
}


def openapi_document(routes: Iterable[tuple[str, set[str]]]) -> bytes:
    """OpenAPI 3.1 as JSON for the routes that are really mounted."""
    paths: dict[str, Any] = {}
    for route, methods in routes:
        path = route.replace(":path}", "}")
        operations: dict[str, Any] = paths.setdefault(path, {})
        for method in sorted(methods - {"HEAD"}):
            operation: dict[str, Any] = {
                "summary": _TEXT[path],
                "responses": {"200": {"description": "Success"}, "default": {"description": "The surface's own error envelope"}},
            }
            parameters = [
                {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
                for place, name in _PARAMETERS.items()
                if place in path
            ]
            parameters += [{"name": name, "in": "query", "schema": schema} for name, schema in _QUERIES.get(path, {}).items()]
            if parameters:
                operation["parameters"] = parameters
            if path in _BODIES and method == "POST":
                operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": _BODIES[path]}}}
            operations[method.lower()] = operation
    return msgspec.json.encode({"openapi": "3.1.0", "info": {"title": "Antiphon", "version": __version__}, "paths": paths})
