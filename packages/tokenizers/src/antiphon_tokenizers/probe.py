"""What a chat template can do, found out by rendering sentinels. Reading its text would be guessing."""

from collections.abc import Callable, Mapping
from typing import Any, Literal

import msgspec

from antiphon_turns.errors import InvalidRequest

_USER = {"role": "user", "content": "qzuser1"}
_LATER = {"role": "user", "content": "qzuser2"}
_REPLY = {"role": "assistant", "content": "qzreply"}
_RESULT = {"content": "qzmark", "tool_call_id": "callqzid1", "name": "qztool"}
_ARGUMENTS = {"qzkey": "qzvalue"}
_ARGUMENT_TEXT = '{"qzkey": "qzvalue"}'
_TOOL = {
    "type": "function",
    "function": {
        "name": "qztool",
        "description": "qzabout",
        "parameters": {"type": "object", "properties": {"qzkey": {"type": "string", "description": "qzfield"}}, "required": ["qzkey"]},
    },
}


class Abilities(msgspec.Struct, frozen=True, kw_only=True):
    """`renders_tools`: tools passed in appear. `accepts_tool_role`: results have a form of their own, rather than any
    role's name being echoed. `accepts_system`: a leading system message appears; `system_anywhere`: a later one too, in
    place. `consecutive_users`: two user messages in a row are
    accepted. `arguments`: the form in which calls' arguments are passed. `reads_reasoning`: the message field from
    which the last turn's reasoning is rendered. `generation_prompt`: add_generation_prompt changes the text."""

    renders_tools: bool
    accepts_tool_role: bool
    accepts_system: bool
    system_anywhere: bool
    consecutive_users: bool
    arguments: Literal["string", "mapping"]
    reads_reasoning: str | None
    generation_prompt: bool


def call_message(arguments: Any) -> dict[str, Any]:
    """An assistant message with one call, in the shape templates expect."""
    call = {"id": "callqzid1", "type": "function", "function": {"name": "qztool", "arguments": arguments}}
    return {"role": "assistant", "content": "", "tool_calls": [call]}


def probe(render: Callable[..., str]) -> Abilities:
    """Renders sentinel conversations with `render(messages, tools, **variables)`; a refusal is an answer too."""

    def attempt(*messages: Mapping[str, Any], tools: list[dict[str, Any]] | None = None, prompt: bool = False) -> str:
        try:
            return render(list(messages), tools, add_generation_prompt=prompt)
        except InvalidRequest:
            return ""

    def own_form(role: str, *before: Mapping[str, Any]) -> bool:
        known = attempt(*before, {**_RESULT, "role": role}, _LATER)
        echoed = attempt(*before, {**_RESULT, "role": "qzrole"}, _LATER)
        return "qzmark" in known and known != echoed.replace("qzrole", role)

    form = _arguments_form(attempt)
    call = call_message(_ARGUMENT_TEXT if form == "string" else dict(_ARGUMENTS))
    late = attempt(_USER, _REPLY, {"role": "system", "content": "qzmark"}, _LATER)
    return Abilities(
        renders_tools="qztool" in attempt(_USER, tools=[_TOOL]),
        accepts_tool_role=own_form("tool", _USER, call),
        accepts_system="qzmark" in attempt({"role": "system", "content": "qzmark"}, _USER),
        system_anywhere=0 <= late.find("qzreply") < late.find("qzmark") < late.find("qzuser2"),
        consecutive_users=_in_order(attempt(_USER, _LATER), "qzuser1", "qzuser2"),
        arguments=form,
        reads_reasoning=_reasoning_field(attempt),
        generation_prompt=attempt(_USER, prompt=True) != attempt(_USER),
    )


def _in_order(text: str, first: str, second: str) -> bool:
    return 0 <= text.find(first) < text.find(second)


def _arguments_form(attempt: Callable[..., str]) -> Literal["string", "mapping"]:
    """A string where the template passes it through: nothing is lost then. Else an object."""
    as_string = attempt(_USER, call_message(_ARGUMENT_TEXT), tools=[_TOOL])
    return "string" if _ARGUMENT_TEXT in as_string else "mapping"


def _reasoning_field(attempt: Callable[..., str]) -> str | None:
    for field in ("reasoning_content", "reasoning", "thinking"):
        if "qzthought" in attempt(_USER, _REPLY | {field: "qzthought"}):
            return field
    return None
