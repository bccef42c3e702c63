"""What a chat template can do, found out by rendering sentinels. Reading its text would be guessing."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

import msgspec

from antiphon_turns.errors import InvalidRequest

_SYSTEM = {"role": "system", "content": "qzsystem"}
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
_REASONING_FIELDS = ("reasoning_content", "reasoning", "thinking")
_BRIDGES = ("", "OK.")


class Abilities(msgspec.Struct, frozen=True, kw_only=True):
    """`renders_tools`: tools passed in appear. `accepts_tool_role`: results have a form of their own, rather than any role's name being
    echoed; `lone_results`: one without a call before it, too, or none is shown as one. `accepts_system`: a leading system message appears;
    `system_anywhere`: a later one too, in place. `consecutive_systems`, `consecutive_users`, `consecutive_assistants`: two messages in
    a row are accepted. `user_behind_result`: a user message may follow a result; `bridge` is the assistant text that makes it possible
    where it may not, None where none does. `opens_without_user`: a conversation may do without a user's text, and need not begin with
    one. `arguments`: the form in which calls' arguments are passed. `reads_reasoning`: the message field from which the last turn's
    reasoning is rendered. `generation_prompt`: add_generation_prompt changes the text."""

    renders_tools: bool
    accepts_tool_role: bool
    lone_results: bool
    accepts_system: bool
    system_anywhere: bool
    consecutive_systems: bool
    consecutive_users: bool
    consecutive_assistants: bool
    user_behind_result: bool
    bridge: str | None
    opens_without_user: bool
    arguments: Literal["string", "mapping"]
    reads_reasoning: str | None
    generation_prompt: bool


def call_message(arguments: Any) -> dict[str, Any]:
    """An assistant message with one call, in the shape templates expect."""
    call = {"id": "callqzid1", "type": "function", "function": {"name": "qztool", "arguments": arguments}}
    return {"role": "assistant", "content": "", "tool_calls": [call]}


def in_parts(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """The message with its text as a list of one part."""
    content = message.get("content")
    return {**message, "content": [{"type": "text", "text": content}]} if isinstance(content, str) else message


def roles_in_parts(render: Callable[..., str]) -> frozenset[str]:
    """The roles whose content the template reads only as a list of parts."""
    attempt = _attempts(render)
    call = call_message(dict(_ARGUMENTS))
    cases: list[tuple[str, str, list[Mapping[str, Any]]]] = [
        ("user", "qzuser1", [_USER]),
        ("system", "qzsystem", [_SYSTEM, _USER]),
        ("assistant", "qzreply", [_USER, _REPLY, _LATER]),
        ("tool", "qzmark", [_USER, call, {**_RESULT, "role": "tool"}]),
    ]
    found: set[str] = set()
    for role, sentinel, messages in cases:
        shown = [in_parts(message) if message["role"] in found else message for message in messages]
        listed = [in_parts(message) if message["role"] in {*found, role} else message for message in messages]
        # Templates that take both forms, and those that print a list as it is, get text.
        text = attempt(*listed)
        if sentinel not in attempt(*shown) and sentinel in text and "'text'" not in text and '"text"' not in text:
            found.add(role)
    return frozenset(found)


def probe(render: Callable[..., str]) -> Abilities:
    """Renders sentinel conversations with `render(messages, tools, **variables)`; a refusal is an answer too."""
    attempt = _attempts(render)
    form = _arguments_form(attempt)
    call = call_message(_ARGUMENT_TEXT if form == "string" else dict(_ARGUMENTS))
    result = {**_RESULT, "role": "tool"}

    def own_form(role: str, *before: Mapping[str, Any]) -> bool:
        for behind in ((_LATER,), ()):
            known = attempt(*before, {**_RESULT, "role": role}, *behind)
            if "qzmark" in known:
                return known != attempt(*before, {**_RESULT, "role": "qzrole"}, *behind).replace("qzrole", role)
        return False

    tool_role = own_form("tool", _USER, call)
    system = "qzsystem" in attempt(_SYSTEM, _USER)
    late = {"role": "system", "content": "qzmark"}
    in_place = ((_USER, _REPLY, late, _LATER), (_USER, late, _LATER), (_USER, _REPLY, _LATER, late))
    behind = _in_order(attempt(_USER, call, result, _LATER), "qzmark", "qzuser2")
    return Abilities(
        renders_tools="qztool" in attempt(_USER, tools=[_TOOL]),
        accepts_tool_role=tool_role,
        lone_results=not tool_role or all("qzmark" in attempt(*before, result) for before in ((_USER,), (_USER, _REPLY))),
        accepts_system=system,
        system_anywhere=all(_in_order(attempt(*said), *(str(message["content"]) for message in said)) for said in in_place),
        consecutive_systems=_in_order(attempt(_SYSTEM, late, _USER), "qzsystem", "qzmark", "qzuser1"),
        consecutive_users=_in_order(attempt(_USER, _LATER), "qzuser1", "qzuser2"),
        consecutive_assistants=_in_order(attempt(_USER, _REPLY, {**_REPLY, "content": "qzmark"}, _LATER), "qzreply", "qzmark", "qzuser2"),
        user_behind_result=behind or not tool_role,
        bridge=_bridge(attempt, call, result),
        opens_without_user=_in_order(attempt(_REPLY, _LATER), "qzreply", "qzuser2")
        and (not tool_role or "qzmark" in attempt(call, result))
        and (not system or "qzsystem" in attempt(_SYSTEM)),
        arguments=form,
        reads_reasoning=_reasoning_field(attempt, call),
        generation_prompt=attempt(_USER, prompt=True) != attempt(_USER),
    )


def _attempts(render: Callable[..., str]) -> Callable[..., str]:
    def attempt(*messages: Mapping[str, Any], tools: Sequence[Mapping[str, Any]] | None = None, prompt: bool = False) -> str:
        try:
            return render(list(messages), tools, add_generation_prompt=prompt)
        except InvalidRequest:
            return ""

    return attempt


def _in_order(text: str, *words: str) -> bool:
    places = [text.find(word) for word in words]
    return places[0] >= 0 and places == sorted(set(places))


def _arguments_form(attempt: Callable[..., str]) -> Literal["string", "mapping"]:
    """A string where the template passes it through: nothing is lost then. An object where the template does not, and where it
    writes the members of one in its own way, which says that it was made for objects."""
    if _ARGUMENT_TEXT not in attempt(_USER, call_message(_ARGUMENT_TEXT), tools=[_TOOL]):
        return "mapping"
    shown = attempt(_USER, call_message(dict(_ARGUMENTS)))
    members = "qzkey" in shown and "qzvalue" in shown and "'qzkey'" not in shown and '"qzkey"' not in shown
    return "mapping" if members else "string"


def _bridge(attempt: Callable[..., str], call: Mapping[str, Any], result: Mapping[str, Any]) -> str | None:
    for text in _BRIDGES:
        if _in_order(attempt(_USER, call, result, {"role": "assistant", "content": text}, _LATER), "qzmark", "qzuser2"):
            return text
    return None


def _reasoning_field(attempt: Callable[..., str], call: Mapping[str, Any]) -> str | None:
    return next(_read_fields(attempt, call), None)


def _read_fields(attempt: Callable[..., str], call: Mapping[str, Any]) -> Iterator[str]:
    for turn in (_REPLY, call):
        for field in _REASONING_FIELDS:
            if "qzthought" in attempt(_USER, {**turn, field: "qzthought"}):
                yield field
