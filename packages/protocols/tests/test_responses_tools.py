"""Tools of every type as functions, which of them must be called, and the way back to the item a client runs."""

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon_protocols import responses
from antiphon_protocols.responses.freeform import FreeformReader
from antiphon_turns import (
    AssistantMessage,
    CallSegment,
    FreeformGrammar,
    SegmentDelta,
    SegmentEnd,
    SegmentStart,
    SystemMessage,
    Tool,
    ToolChoice,
    ToolMessage,
    TurnEnd,
    TurnStart,
    Usage,
)
from antiphon_turns.errors import InvalidRequest, UnsupportedFeature

USER = {"role": "user", "content": "u"}
RUN = {"type": "function", "name": "run", "description": "runs", "parameters": {"type": "object"}, "strict": True}
READ = {"type": "function", "name": "read", "parameters": {"type": "object"}}
FILES = {"type": "namespace", "name": "mcp__fs", "description": "Files.", "tools": [READ, {**RUN, "defer_loading": True}]}
PATCH = {
    "type": "custom",
    "name": "apply_patch",
    "description": "Edits.",
    "format": {"type": "grammar", "syntax": "lark", "definition": "start: X"},
}
SEARCH = {"type": "tool_search", "execution": "client", "description": "Finds tools.", "parameters": {"type": "object"}}


def ingest(**fields: Any) -> responses.ResponsesRequest:
    body = json.dumps({"model": "m", "input": "hi", **fields}).encode()
    return responses.ingest(responses.read(body, {}), open_compaction=lambda _: None)


def names(*tools: Any, **fields: Any) -> list[str]:
    return [tool.name for tool in ingest(tools=list(tools), **fields).turn.tools]


def test_functions_are_taken_verbatim() -> None:
    raw = b'{"model":"m","input":"x","tools":[{"type":"function","name":"t","description":"d","parameters":{"z": 1.50},"strict":true}]}'
    assert responses.ingest(responses.read(raw, {}), open_compaction=lambda _: None).turn.tools == (
        Tool(name="t", description="d", parameters='{"z": 1.50}', strict=True),
    )
    bare = ingest(
        tools=[{"type": "function", "name": "a"}, {"type": "function", "name": "b", "parameters": None, "strict": None}]
    ).turn.tools
    assert [(tool.schema, tool.strict) for tool in bare] == [({"type": "object", "properties": {}}, False)] * 2


def test_a_freeform_tool_is_a_function_of_one_text_and_shows_its_grammar() -> None:
    (tool,) = ingest(tools=[PATCH]).turn.tools
    assert tool.freeform == FreeformGrammar("lark", "start: X")
    assert tool.required() == ("input",)
    assert tool.description == "Edits.\n\nThe input must match this Lark grammar:\nstart: X"
    (plain,) = ingest(tools=[{"type": "custom", "name": "say"}]).turn.tools
    assert (plain.freeform, plain.description, plain.required()) == (None, None, ("input",))


def test_members_of_a_namespace_get_names_of_their_own() -> None:
    request = ingest(tools=[FILES, READ, {"type": "namespace", "name": "mcp__git__", "tools": [READ, {"type": "custom", "name": "x.y"}]}])
    assert [tool.name for tool in request.turn.tools] == ["mcp__fs__read", "mcp__fs__run", "read", "mcp__git__read", "mcp__git__x_y"]
    assert request.turn.tools[0].description == "(mcp__fs: Files.)"
    target = request.tools.target("mcp__fs__read")
    assert (target.kind, target.namespace, target.name) == ("function", "mcp__fs", "read")
    assert request.tools.target("mcp__git__x_y").name == "x.y"
    assert request.tools.target("read").namespace is None


def test_names_never_collide() -> None:
    taken = {"type": "function", "name": "fs__read"}
    space = {"type": "namespace", "name": "fs", "tools": [READ]}
    other = {"type": "namespace", "name": "fs__", "tools": [READ]}
    assert names(space, taken, other) == ["fs__read_2", "fs__read", "fs__read_3"]
    assert names({"type": "shell"}, {"type": "function", "name": "shell"}) == ["shell_2", "shell"]


def test_a_model_may_leave_the_namespace_out_where_that_is_clear() -> None:
    tools = ingest(tools=[FILES, PATCH]).tools
    assert tools.target("read").namespace == "mcp__fs"
    assert tools.target("nobody_declared").name == "nobody_declared"
    both = ingest(tools=[FILES, {"type": "namespace", "name": "b", "tools": [READ]}]).tools
    assert both.target("read").namespace is None


@pytest.mark.parametrize(
    "tool",
    [
        {"type": "web_search", "external_web_access": True},
        {"type": "web_search_preview"},
        {"type": "file_search", "vector_store_ids": []},
        {"type": "code_interpreter", "container": {"type": "auto"}},
        {"type": "image_generation"},
        {"type": "computer"},
        {"type": "computer_use_preview", "display_width": 1, "display_height": 1, "environment": "linux"},
        {"type": "mcp", "server_label": "s", "server_url": "u"},
        {"type": "tool_search"},
        {"type": "shell", "environment": {"type": "container_auto"}},
        {"type": "made_up_next_year"},
    ],
    ids=lambda tool: tool["type"],
)
def test_tools_the_server_would_have_to_run_are_accepted_not_offered_and_named(tool: dict[str, Any]) -> None:
    request = ingest(tools=[RUN, tool])
    assert [offered.name for offered in request.turn.tools] == ["run"]
    assert request.turn.ignored == (f"tools.1.{tool['type']}",)


@pytest.mark.parametrize(
    ("tools", "param"),
    [
        ([RUN, RUN], "tools.1.name"),
        ([RUN, {"type": "custom", "name": "run"}], "tools.1.name"),
        ([{"type": "function"}], "tools.0.name"),
        ([{"type": "custom", "name": ""}], "tools.0.name"),
        ([{"type": "namespace", "tools": []}], "tools.0.name"),
        ([{**RUN, "parameters": [1]}], "tools.0.parameters"),
        ([{**FILES, "tools": [READ, {"type": "function"}]}], "tools.0.tools.1.name"),
        ([{**PATCH, "format": {"type": "grammar", "syntax": "ebnf", "definition": "x"}}], "tools.0.format.syntax"),
    ],
)
def test_broken_tools_are_refused_by_name(tools: list[Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        ingest(tools=tools)
    assert refused.value.param == param


ALL = [RUN, FILES, PATCH, {"type": "local_shell"}, SEARCH]


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (None, ToolChoice()),
        ("auto", ToolChoice()),
        ("none", ToolChoice(mode="none")),
        ("required", ToolChoice(mode="any")),
        ({"type": "function", "name": "run"}, ToolChoice(mode="named", name="run")),
        ({"type": "function", "name": "read"}, ToolChoice(mode="named", name="mcp__fs__read")),
        ({"type": "function", "name": "run", "namespace": "mcp__fs"}, ToolChoice(mode="named", name="mcp__fs__run")),
        ({"type": "function", "name": "mcp__fs__read"}, ToolChoice(mode="named", name="mcp__fs__read")),
        ({"type": "custom", "name": "apply_patch"}, ToolChoice(mode="named", name="apply_patch")),
        ({"type": "local_shell"}, ToolChoice(mode="named", name="local_shell")),
    ],
)
def test_tool_choice(choice: Any, expected: ToolChoice) -> None:
    assert ingest(tools=ALL, tool_choice=choice).turn.tool_choice == expected
    alone = ingest(tools=ALL, tool_choice=choice, parallel_tool_calls=False).turn.tool_choice
    assert not alone.parallel


@pytest.mark.parametrize(
    ("mode", "allowed", "left", "expected"),
    [
        ("auto", [{"type": "function", "name": "run"}], ["run"], ToolChoice()),
        ("required", [{"type": "custom", "name": "apply_patch"}], ["apply_patch"], ToolChoice(mode="any")),
        ("auto", [{"type": "namespace", "name": "mcp__fs"}], ["mcp__fs__read", "mcp__fs__run"], ToolChoice()),
        ("auto", [{"type": "local_shell"}, {"type": "tool_search"}], ["local_shell", "tool_search"], ToolChoice()),
    ],
)
def test_allowed_tools_are_those_that_stay(mode: str, allowed: list[Any], left: list[str], expected: ToolChoice) -> None:
    turn = ingest(tools=ALL, tool_choice={"type": "allowed_tools", "mode": mode, "tools": allowed}).turn
    assert [tool.name for tool in turn.tools] == left
    assert turn.tool_choice == expected


def test_when_no_allowed_tool_is_there_none_is_called() -> None:
    turn = ingest(tools=ALL, tool_choice={"type": "allowed_tools", "mode": "auto", "tools": [{"type": "web_search"}]}).turn
    assert turn.tool_choice.mode == "none"


@pytest.mark.parametrize(
    ("choice", "kind", "param"),
    [
        ("always", InvalidRequest, "tool_choice"),
        ({"type": "function"}, InvalidRequest, "tool_choice.name"),
        ({"type": "function", "name": "nobody"}, InvalidRequest, "tool_choice.name"),
        ({"type": "shell"}, InvalidRequest, "tool_choice"),
        ({"type": "web_search_preview"}, UnsupportedFeature, "tool_choice"),
        ({"type": "mcp", "server_label": "s"}, UnsupportedFeature, "tool_choice"),
        ({"type": "allowed_tools", "mode": "required", "tools": [{"type": "mcp"}]}, InvalidRequest, "tool_choice"),
    ],
)
def test_choices_that_cannot_be_met_are_refused_by_name(choice: Any, kind: type[Exception], param: str) -> None:
    with pytest.raises(kind) as refused:
        ingest(tools=ALL, tool_choice=choice)
    assert refused.value.param == param  # type: ignore[attr-defined]
    with pytest.raises(InvalidRequest):
        ingest(tools=[{"type": "web_search"}], tool_choice="required")
    with pytest.raises(InvalidRequest, match="several namespaces"):
        ingest(tools=[FILES, {**FILES, "name": "b"}], tool_choice={"type": "function", "name": "read"})


def deferred(turn: Any) -> dict[str, bool]:
    return {tool.name: tool.deferred for tool in turn.tools}


def test_tools_loaded_before_the_conversation_are_simply_its_tools() -> None:
    loaded = {"type": "additional_tools", "role": "developer", "tools": [READ, PATCH]}
    turn = ingest(input=[loaded, {"role": "developer", "content": "base"}, USER]).turn
    assert deferred(turn) == {"read": False, "apply_patch": False}
    assert len(turn.messages) == 2


def test_tools_loaded_later_are_shown_where_they_are_loaded() -> None:
    loaded = {"type": "additional_tools", "role": "developer", "tools": [READ, RUN]}
    turn = ingest(tools=[RUN], input=[USER, loaded, loaded, USER]).turn
    assert deferred(turn) == {"run": False, "read": True}
    assert isinstance(turn.messages[1], SystemMessage)
    assert '"name":"read"' in turn.messages[1].text
    assert '"name":"run"' not in turn.messages[1].text


def test_a_client_s_search_finds_tools_for_the_turns_after_it() -> None:
    call = {"type": "tool_search_call", "call_id": "c", "execution": "client", "arguments": {"query": "files"}}
    found = {"type": "tool_search_output", "call_id": "c", "tools": [FILES]}
    late = {**RUN, "name": "late", "defer_loading": True}
    turn = ingest(tools=[SEARCH, late], input=[USER, call, found]).turn
    assert deferred(turn) == {"tool_search": False, "late": True, "mcp__fs__read": True, "mcp__fs__run": True}
    result = turn.messages[2]
    assert isinstance(result, ToolMessage)
    assert (result.call_id, result.name) == ("c", "tool_search")
    assert '"name":"mcp__fs__read"' in result.text
    assert deferred(ingest(tools=[late]).turn) == {"late": False}, "nothing could ever load it"
    assert ingest(tools=[SEARCH], input=[USER, call, {**found, "tools": []}]).turn.messages[2].text == "No tool was found."  # type: ignore[union-attr]


def test_a_prompt_without_any_tool_in_its_head_would_not_teach_how_to_call() -> None:
    turn = ingest(input=[USER, {"type": "additional_tools", "role": "developer", "tools": [READ]}, USER]).turn
    assert deferred(turn) == {"read": False}
    assert len(turn.messages) == 2


def test_past_calls_bear_the_name_the_model_sees() -> None:
    items = [
        {"type": "function_call", "call_id": "a", "namespace": "mcp__fs", "name": "read", "arguments": "{}"},
        {"type": "custom_tool_call", "call_id": "b", "name": "apply_patch", "input": "x"},
        {"type": "function_call", "call_id": "c", "namespace": "gone", "name": "read", "arguments": "{}"},
        {"type": "function_call", "call_id": "d", "namespace": "run", "name": "run", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "a", "output": "1"},
    ]
    turn = ingest(tools=ALL, input=items).turn
    assert isinstance(turn.messages[0], AssistantMessage)
    called = [segment.name for segment in turn.messages[0].segments if isinstance(segment, CallSegment)]
    assert called == ["mcp__fs__read", "apply_patch", "gone__read", "run"]
    assert turn.messages[1] == ToolMessage("a", "1", "mcp__fs__read")


def called(tool: Any, name: str, arguments: str, headers: dict[str, str] | None = None, **more: Any) -> list[dict[str, Any]]:
    """The events of a turn that is one call, without the first two."""
    body = json.dumps({"model": "m", "input": "hi", "tools": [tool]}).encode()
    request = responses.ingest(responses.read(body, headers or {}), open_compaction=lambda _: None)
    projector = responses.Projector(request.options(response_id="resp_1", created=1))
    events = [
        TurnStart("tag", "m", 1),
        SegmentStart(0, "tool_call", "call_tag0", name),
        SegmentDelta(0, arguments),
        SegmentEnd(0, **more),
        TurnEnd("tool_use", Usage(prompt_tokens=1, output_tokens=1)),
    ]
    return [json.loads(payload) for event in events for payload in projector.push_events(event)][2:]


@pytest.mark.parametrize(
    ("tool", "name", "arguments", "item"),
    [
        (FILES, "mcp__fs__read", '{"a":1}', {"type": "function_call", "namespace": "mcp__fs", "name": "read", "arguments": '{"a":1}'}),
        (PATCH, "apply_patch", '{"input": "a\\nb"}', {"type": "custom_tool_call", "name": "apply_patch", "input": "a\nb"}),
        (
            {"type": "namespace", "name": "n", "tools": [{"type": "custom", "name": "x"}]},
            "n__x",
            '{"input":""}',
            {"type": "custom_tool_call", "namespace": "n", "name": "x", "input": ""},
        ),
        (
            {"type": "local_shell"},
            "local_shell",
            '{"command": ["ls"], "timeout_ms": 5}',
            {"type": "local_shell_call", "action": {"type": "exec", "command": ["ls"], "env": {}, "timeout_ms": 5}},
        ),
        (
            {"type": "local_shell"},
            "local_shell",
            '{"command": "ls -l"}',
            {"type": "local_shell_call", "action": {"type": "exec", "command": ["bash", "-lc", "ls -l"], "env": {}}},
        ),
        (
            {"type": "shell"},
            "shell",
            '{"commands": ["ls"]}',
            {"type": "shell_call", "action": {"commands": ["ls"], "timeout_ms": None, "max_output_length": None}},
        ),
        (
            {"type": "apply_patch"},
            "apply_patch",
            '{"type": "delete_file", "path": "a", "diff": ""}',
            {"type": "apply_patch_call", "operation": {"type": "delete_file", "path": "a"}},
        ),
        (SEARCH, "tool_search", '{\n"query": "q"\n}', {"type": "tool_search_call", "execution": "client", "arguments": {"query": "q"}}),
    ],
)
def test_a_call_comes_back_as_the_client_declared_its_tool(tool: Any, name: str, arguments: str, item: dict[str, Any]) -> None:
    events = called(tool, name, arguments)
    assert events[0]["type"] == "response.output_item.added"
    done = events[-2]
    assert done["type"] == "response.output_item.done"
    assert {key: done["item"][key] for key in item} == item
    assert (done["item"]["call_id"], done["item"]["status"]) == ("call_tag0", "completed")
    assert events[-1]["response"]["status"] == "completed"


def test_the_events_of_a_freeform_call() -> None:
    kinds = [
        (event["type"], event.get("delta"), event.get("input")) for event in called(PATCH, "apply_patch", '{"input": "*** Begin\\n+é"}')
    ]
    assert kinds[:4] == [
        ("response.output_item.added", None, None),
        ("response.custom_tool_call_input.delta", "*** Begin\n+é", None),
        ("response.custom_tool_call_input.done", None, "*** Begin\n+é"),
        ("response.output_item.done", None, None),
    ]


@pytest.mark.parametrize("tool", [PATCH, {"type": "local_shell"}, {"type": "shell"}])
def test_what_stands_in_for_a_cut_call_never_looks_like_one_to_run(tool: dict[str, Any]) -> None:
    """I12: `{}` fails the schema of a function, but an empty text or an empty command fails nothing."""
    name = tool.get("name", tool["type"])
    (event,) = called(tool, name, "{}", status="recovered")
    assert (event["type"], event["response"]["output"]) == ("response.incomplete", [])
    (event,) = called(tool, name, "{}", {"originator": "codex_exec"}, status="recovered")
    assert (event["type"], event["response"]["end_turn"]) == ("response.completed", False)


def test_a_native_call_that_says_nothing_to_do_fails_the_turn() -> None:
    (event,) = called({"type": "apply_patch"}, "apply_patch", '{"type": "rename", "path": "a"}')
    assert (event["type"], event["response"]["error"]["code"]) == ("response.failed", "server_error")


def pieces(text: str, cuts: list[int]) -> list[str]:
    places = sorted({cut % (len(text) + 1) for cut in cuts} | {0, len(text)})
    return [text[start:end] for start, end in itertools.pairwise(places)]


@given(st.text(), st.lists(st.integers(0, 500), max_size=6), st.booleans(), st.sampled_from(["", " ", "\n  "]))
def test_freeform_input_is_decoded_whatever_the_pieces(value: str, cuts: list[int], escaped: object, space: str) -> None:
    encoded = json.dumps(value, ensure_ascii=bool(escaped))
    arguments = f'{space}{{{space}"input"{space}:{space}{encoded}{space}}}{space}'
    if any(0xD800 <= ord(char) < 0xE000 for char in value):
        return
    reader = FreeformReader()
    shown = [reader.feed(piece) for piece in pieces(arguments, cuts)]
    assert "".join([*shown, reader.finish()]) == value


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ('{"input": "a", "note": "b"}', "a"),
        ('{"patch": "a"}', "a"),
        ('{"other": 1, "input": "a"}', "a"),
        ('{"input": 3}', '{"input": 3}'),
        ('{"a": "x", "b": "y"}', '{"a": "x", "b": "y"}'),
        ("{}", "{}"),
        ('{"input": "a\\ud83d b"}', "a\ufffd b"),
        ('{"input": "\\udc00"}', "\ufffd"),
        ('{"input": "a\\/b\\\\"}', "a/b\\"),
        ('{"input": "cut', "cut"),
    ],
)
def test_freeform_input_of_other_forms(arguments: str, expected: str) -> None:
    for size in (1, 3, len(arguments)):
        reader = FreeformReader()
        shown = [reader.feed(arguments[at : at + size]) for at in range(0, len(arguments), size)]
        assert "".join([*shown, reader.finish()]) == expected


def test_freeform_input_streams() -> None:
    reader = FreeformReader()
    assert [reader.feed(piece) for piece in ('{"in', 'put": "a', "b\\", "n", 'c", "x": 1}')] == ["", "a", "b", "\n", "c"]
    assert reader.finish() == ""
