"""Request bodies as JSON schemas, made from the wire structs that read them, so that the document cannot promise other fields than are
read. What the structs cannot say (ranges, the kinds of an open object) stands in the tables here.

`msgspec.json.schema_components` makes the same out of structs, but not out of fields whose default is raw JSON.
"""

from collections.abc import Collection, Iterable
from types import ModuleType
from typing import Any

import msgspec
from msgspec import inspect

from antiphon_protocols.chat import wire as chat_wire
from antiphon_protocols.completions import wire as completions_wire
from antiphon_protocols.messages import wire as messages_wire
from antiphon_protocols.responses import wire as responses_wire
from antiphon_protocols.responses.history import COMPACTIONS
from antiphon_protocols.sampling import MAX_TOP_LOGPROBS

Schema = dict[str, Any]

PREFIX = "#/components/schemas/"
SURFACES: dict[str, ModuleType] = {
    "Messages": messages_wire,
    "Chat": chat_wire,
    "Completions": completions_wire,
    "Responses": responses_wire,
}
ABOUT = "Fields of the vendor's API that are not listed change nothing, or a 400 names them."

ITEMS: dict[type[msgspec.Struct], tuple[str, ...]] = {
    responses_wire.MessageItem: ("message",),
    responses_wire.AgentItem: ("agent_message",),
    responses_wire.ReasoningItem: ("reasoning",),
    responses_wire.FunctionCallItem: ("function_call",),
    responses_wire.CustomCallItem: ("custom_tool_call",),
    responses_wire.NativeCallItem: ("local_shell_call", "shell_call", "apply_patch_call", "tool_search_call"),
    responses_wire.OutputItem: (
        "function_call_output",
        "custom_tool_call_output",
        "local_shell_call_output",
        "shell_call_output",
        "apply_patch_call_output",
    ),
    responses_wire.LoadedToolsItem: ("tool_search_output", "additional_tools"),
    responses_wire.CompactionItem: COMPACTIONS,
    responses_wire.ReferenceItem: ("item_reference",),
    responses_wire.ItemHead: ("compaction_trigger",),
}
"""The items of a Responses input that are read, by the struct that reads them."""

_OBJECT: Schema = {"type": "object"}
_JSON_SCHEMA: Schema = {"type": "object", "description": "a JSON schema"}
_RAW: dict[str, Schema] = {
    "input_schema": _JSON_SCHEMA,
    "schema": _JSON_SCHEMA,
    "parameters": {"type": ["object", "null"], "description": "a JSON schema"},
    "input": _OBJECT,
    "action": _OBJECT,
    "operation": _OBJECT,
    "arguments": {"type": ["string", "object"], "description": "a JSON object, as text or as it is"},
}
_FORMATS: Schema = {"enum": ["text", "json_object", "json_schema"]}
_FUNCTION: Schema = {"const": "function"}
_TEXT: Schema = {"type": "string"}
_IDS: Schema = {"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 1}
_FIELDS: dict[str, Schema] = {
    "ResponsesPart.type": {"enum": ["input_text", "output_text", "text", "summary_text", "reasoning_text", "refusal"]},
    "ResponsesTextFormat.type": _FORMATS,
    "ChatResponseFormat.type": _FORMATS,
    "ChatTool.type": _FUNCTION,
    "ChatNamedChoice.type": _FUNCTION,
    "ChatCall.type": _FUNCTION,
    "MessagesFormat.type": {"const": "json_schema"},
    "CompletionsRequest.prompt": {
        "description": "text, a list of texts, token ids, or a list of lists of token ids",
        "anyOf": [_TEXT, {"type": "array", "items": _TEXT, "minItems": 1}, _IDS, {"type": "array", "items": _IDS, "minItems": 1}],
    },
}
_SAID: Schema = {"content": {"type": ["string", "array"]}}
_RULES: dict[str, list[Schema]] = {
    "ChatMessage": [
        {"properties": {"role": {"const": "assistant"}}},
        {"properties": {"role": {"const": "tool"}, "tool_call_id": _TEXT, **_SAID}, "required": ["tool_call_id", "content"]},
        {"properties": {"role": {"enum": ["system", "developer", "user"]}, **_SAID}, "required": ["content"]},
    ],
    "ChatTool": [{"required": ["function"]}, {"required": ["name"]}],
    "ChatNamedChoice": [{"required": ["function"]}],
    "ChatCall": [{"required": ["function"]}],
    "ResponsesRequest": [{"required": ["input"]}, {"required": ["instructions"]}, {"required": ["previous_response_id"]}],
}
"""What one field asks of another: at least one of these holds."""

_REFUSED = ("thread",)
_COUNT: Schema = {"minimum": 1}
_SHARE: Schema = {"minimum": 0, "maximum": 1}
_PENALTY: Schema = {"minimum": -2, "maximum": 2}
_LIMITS: dict[str, Schema] = {
    "model": {"minLength": 1},
    "messages": {"minItems": 1},
    "ResponsesRequest.input": {"minItems": 1, "minLength": 1},
    "max_tokens": _COUNT,
    "max_completion_tokens": _COUNT,
    "max_output_tokens": _COUNT,
    "budget_tokens": _COUNT,
    "n": _COUNT,
    "top_p": _SHARE,
    "min_p": _SHARE,
    "temperature": {"minimum": 0, "maximum": 2},
    "MessagesRequest.temperature": _SHARE,
    "presence_penalty": _PENALTY,
    "frequency_penalty": _PENALTY,
    "top_logprobs": {"minimum": 0, "maximum": MAX_TOP_LOGPROBS},
    "CompletionsRequest.logprobs": {"minimum": 0, "maximum": MAX_TOP_LOGPROBS},
}
_SIMPLE: dict[type[inspect.Type], str] = {
    inspect.StrType: "string",
    inspect.IntType: "integer",
    inspect.FloatType: "number",
    inspect.BoolType: "boolean",
    inspect.NoneType: "null",
}


def request_schemas() -> dict[str, Schema]:
    """The components: one a struct, named by surface. `MessagesRequest` and so on are whole bodies."""
    made = _Components()
    for module in SURFACES.values():
        made.reference(module.WireRequest)
    return made.schemas


class _Components:
    """Schemas by name; each struct is made once, also where it holds itself."""

    def __init__(self) -> None:
        self.schemas: dict[str, Schema] = {}

    def reference(self, struct: type[msgspec.Struct]) -> Schema:
        name = component_name(struct)
        if name not in self.schemas:
            self.schemas[name] = {}
            self.schemas[name] = self._object(struct, name)
        return {"$ref": PREFIX + name}

    def _object(self, struct: type[msgspec.Struct], name: str) -> Schema:
        kind = inspect.type_info(struct)
        assert isinstance(kind, inspect.StructType)
        refused = refused_fields(struct)
        fields = [field for field in kind.fields if field.encode_name not in refused]
        properties = {field.encode_name: self._field(field, name) for field in fields}
        required = [field.encode_name for field in fields if field.required]
        if kind.tag is not None:
            properties, required = {"type": {"const": kind.tag}, **properties}, ["type", *required]
        elif struct in ITEMS:
            properties = {"id": {"type": ["string", "null"]}, **properties, "type": {"enum": list(ITEMS[struct])}}
            required = list(dict.fromkeys(["type", *required]))
        found: Schema = {"type": "object", "properties": properties}
        if struct.__name__ == "WireRequest":
            found["description"] = ABOUT
        if name in _RULES:
            found["anyOf"] = _RULES[name]
        return {**found, "required": required} if required else found

    def _field(self, field: inspect.Field, owner: str) -> Schema:
        name, place = field.encode_name, f"{owner}.{field.encode_name}"
        if place in _FIELDS:
            return _FIELDS[place]
        made = self._schema(field.type, name)
        return {**made, **_LIMITS.get(place, _LIMITS.get(name, {}))}

    def _schema(self, kind: inspect.Type, name: str) -> Schema:
        match kind:
            case inspect.StructType():
                return self.reference(kind.cls)
            case inspect.ListType():
                return {"type": "array", "items": self._element(kind.item_type, name)}
            case inspect.DictType():
                return {"type": "object", "additionalProperties": self._schema(kind.value_type, name)}
            case inspect.LiteralType():
                return {"enum": list(kind.values)}
            case inspect.UnionType():
                return self._union(kind.types, name)
            case inspect.RawType():
                return _RAW.get(name, {})
            case inspect.AnyType():
                return {}
            case _:
                return {"type": _SIMPLE[type(kind)]}

    def _element(self, kind: inspect.Type, name: str) -> Schema:
        """Raw elements of a list are the items of the Responses surface."""
        return {"anyOf": [self.reference(struct) for struct in ITEMS]} if isinstance(kind, inspect.RawType) else self._schema(kind, name)

    def _union(self, members: Iterable[inspect.Type], name: str) -> Schema:
        made = [self._schema(member, name) for member in members]
        if len(made) == 1:
            return made[0]
        if all(set(schema) == {"type"} for schema in made):
            return {"type": [schema["type"] for schema in made]}
        return {"anyOf": made}


def component_name(struct: type[msgspec.Struct]) -> str:
    """`MessagesTool` for the struct `WireTool` of the Messages surface; what the surfaces share has no surface in its name."""
    surface = next((name for name, module in SURFACES.items() if module.__name__ == struct.__module__), "")
    return surface + struct.__name__.removeprefix("Wire")


def refused_fields(struct: type[msgspec.Struct]) -> Collection[str]:
    """Fields of a body that are read only to be refused by name."""
    return next(((*module.REFUSED, *_REFUSED) for module in SURFACES.values() if module.WireRequest is struct), ())
