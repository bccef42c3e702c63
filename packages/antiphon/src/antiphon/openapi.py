"""The OpenAPI document: what is here, with the fields of a body that are read. What answers hold is the vendors' to describe."""

from collections.abc import Iterable
from typing import Any

import msgspec

from antiphon import __version__
from antiphon.wire_schemas import PREFIX, Schema, request_schemas

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
    "/live": "200 as long as this process answers at all.",
    "/antiphon/explain": "Why the cache missed: the latest requests of the same key, explained.",
    "/metrics": "Metrics in the text form of Prometheus.",
    "/openapi.json": "This document.",
    "/": "Service name and model.",
    "/api/hello": "Connection probe of Claude Code.",
    "/api/event_logging/batch": "Accepted and dropped.",
}

_PARAMETERS = {"{model_id}": "model_id", "{response_id}": "response_id"}
_MAX_TOKENS: Schema = {"allOf": [{"$ref": PREFIX + "MessagesRequest"}], "required": ["max_tokens"]}
_RESPONSES: Schema = {"$ref": PREFIX + "ResponsesRequest"}
_BODIES: dict[str, Schema] = {
    "/v1/messages": _MAX_TOKENS,
    "/v1/messages/count_tokens": {"$ref": PREFIX + "MessagesRequest"},
    "/v1/chat/completions": {"$ref": PREFIX + "ChatRequest"},
    "/v1/completions": {"$ref": PREFIX + "CompletionsRequest"},
    "/v1/responses": _RESPONSES,
    "/v1/responses/compact": _RESPONSES,
    "/v1/responses/input_tokens": _RESPONSES,
}
_STREAMED = {("POST", path) for path in ("/v1/messages", "/v1/chat/completions", "/v1/completions", "/v1/responses")} | {
    ("GET", "/v1/responses/{response_id}")
}
_TEXT_SCHEMA: Schema = {"type": "string"}
_PAGE: Schema = {"type": "integer", "minimum": 1, "maximum": 100}
_QUERIES: dict[tuple[str, str], dict[str, Schema]] = {
    ("GET", "/antiphon/explain"): {
        "session": _TEXT_SCHEMA,
        "request_id": _TEXT_SCHEMA,
        "limit": {"type": "integer", "minimum": 1, "maximum": 256},
    },
    ("GET", "/v1/models"): {
        "limit": {"type": "integer", "minimum": 1, "maximum": 1000},
        "after_id": _TEXT_SCHEMA,
        "before_id": _TEXT_SCHEMA,
    },
    ("GET", "/v1/responses/{response_id}"): {"stream": {"type": "boolean"}, "starting_after": {"type": "integer", "minimum": 0}},
    ("GET", "/v1/responses/{response_id}/input_items"): {
        "limit": _PAGE,
        "order": {"enum": ["asc", "desc"]},
        "after": _TEXT_SCHEMA,
        "before": _TEXT_SCHEMA,
    },
}
_NULLABLE: Schema = {"type": ["string", "null"]}
_ERRORS: dict[str, Schema] = {
    "MessagesError": {
        "type": "object",
        "required": ["type", "error", "request_id"],
        "properties": {
            "type": {"const": "error"},
            "request_id": _TEXT_SCHEMA,
            "error": {
                "type": "object",
                "required": ["type", "message"],
                "properties": {"type": _TEXT_SCHEMA, "message": _TEXT_SCHEMA, "details": {"type": "object"}},
            },
        },
    },
    "OpenAIError": {
        "type": "object",
        "required": ["error"],
        "properties": {
            "error": {
                "type": "object",
                "required": ["message", "type", "param", "code"],
                "properties": {"message": _TEXT_SCHEMA, "type": _TEXT_SCHEMA, "param": _NULLABLE, "code": _NULLABLE},
            },
        },
    },
}


def openapi_document(routes: Iterable[tuple[str, set[str]]]) -> bytes:
    """OpenAPI 3.1 as JSON for the routes that are really mounted."""
    paths: dict[str, Any] = {}
    for route, methods in routes:
        path = route.replace(":path}", "}")
        operations: dict[str, Any] = paths.setdefault(path, {})
        for method in sorted(methods - {"HEAD"}):
            operations[method.lower()] = _operation(method, path)
    document = {
        "openapi": "3.1.0",
        "info": {"title": "Antiphon", "version": __version__},
        "paths": paths,
        "components": {"schemas": {**request_schemas(), **_ERRORS}},
    }
    return msgspec.json.encode(document)


def _operation(method: str, path: str) -> dict[str, Any]:
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": _TEXT_SCHEMA} for place, name in _PARAMETERS.items() if place in path
    ]
    parameters += [{"name": name, "in": "query", "schema": schema} for name, schema in _QUERIES.get((method, path), {}).items()]
    operation: dict[str, Any] = {"summary": _TEXT[path], "responses": _answers(method, path)}
    if parameters:
        operation["parameters"] = parameters
    if path in _BODIES and method == "POST":
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": _BODIES[path]}}}
    return operation


def _answers(method: str, path: str) -> dict[str, Any]:
    """By status. A health that is not well answers in the shape of one that is."""
    content: dict[str, Any] = {"application/json": {"schema": {"type": "object"}}}
    if path == "/metrics":
        content = {"text/plain": {"schema": _TEXT_SCHEMA}}
    if (method, path) in _STREAMED:
        content["text/event-stream"] = {}
    name = "MessagesError" if path.startswith("/v1/messages") else "OpenAIError"
    error = {"application/json": {"schema": {"$ref": PREFIX + name}}}
    if path == "/health":
        return {"200": {"description": "Success", "content": content}, "503": {"description": "No worker", "content": content}}
    return {
        "200": {"description": "Success", "content": content},
        "default": {"description": "The surface's own error envelope", "content": error},
    }
