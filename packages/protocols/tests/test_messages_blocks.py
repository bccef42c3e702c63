"""Messages: blocks, typed tools, context management and answer formats."""

import json
from typing import Any

import pytest

from antiphon_protocols import messages
from antiphon_turns import OutputFormat, ReplayWish, SystemMessage, ToolMessage, TurnRequest, UserMessage
from antiphon_turns.errors import InvalidRequest, RequestError, UnsupportedFeature

HI = {"role": "user", "content": "hi"}
RUN = {"name": "run", "description": "runs", "input_schema": {"type": "object"}}


def turn(**fields: Any) -> TurnRequest:
    return messages.ingest(json.dumps({"model": "m", "max_tokens": 10, "messages": [HI], **fields}).encode(), {}).turn


def user(*blocks: dict[str, Any], **fields: Any) -> TurnRequest:
    return turn(messages=[{"role": "user", "content": list(blocks)}], **fields)


TEXT_DOCUMENT = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "body"}, "title": "T", "context": "C"}
PARTS_DOCUMENT = {
    "type": "document",
    "source": {"type": "content", "content": [{"type": "text", "text": "p1"}, {"type": "text", "text": "p2"}]},
}
PDF = {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="}, "title": "Paper"}
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
FOUND = {"type": "search_result", "source": "https://a.example", "title": "Page", "content": [{"type": "text", "text": "x"}]}


@pytest.mark.parametrize(
    ("block", "text"),
    [
        (TEXT_DOCUMENT, "T\nC\nbody"),
        (PARTS_DOCUMENT, "p1\np2"),
        ({"type": "document", "source": {"type": "content", "content": "whole"}}, "whole"),
        (FOUND, "Page (https://a.example)\nx"),
    ],
    ids=["text document", "document of parts", "document of a string", "search result"],
)
def test_what_has_text_is_text_everywhere(block: dict[str, Any], text: str) -> None:
    assert user(block).messages == (UserMessage(text),)
    result = {"type": "tool_result", "tool_use_id": "c", "content": [block]}
    assert user(result).messages == (ToolMessage("c", text),)


@pytest.mark.parametrize(
    ("block", "note", "name"),
    [
        (IMAGE, "[image (image/png) not shown: this model reads text only]", "image"),
        (PDF, "[document (Paper, application/pdf) not shown: this model reads text only]", "document"),
    ],
)
def test_what_the_model_cannot_see_is_refused_or_noted_in_a_result(block: dict[str, Any], note: str, name: str) -> None:
    with pytest.raises(UnsupportedFeature) as caught:
        user({"type": "text", "text": "see"}, block)
    assert caught.value.param == "messages.0.content.1"
    assert f"'{name}'" in caught.value.message
    request = user({"type": "tool_result", "tool_use_id": "c", "content": [{"type": "text", "text": "see"}, block]})
    assert request.messages == (ToolMessage("c", f"see\n{note}"),)
    assert request.ignored == (f"messages.0.content.0.content.1.{name}",)


@pytest.mark.parametrize(
    ("result", "text", "failed"),
    [
        ({}, "", "fine"),
        ({"content": None, "is_error": None}, "", "fine"),
        ({"content": ""}, "", "fine"),
        ({"content": []}, "", "fine"),
        ({"content": "plain", "is_error": True}, "plain", "error"),
        ({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "is_error": False}, "a\nb", "fine"),
        (
            {"content": [{"type": "tool_reference", "tool_name": "run"}]},
            '{"name":"run","description":"runs","parameters":{"type": "object"}}',
            "fine",
        ),
        ({"content": [{"type": "tool_reference", "tool_name": "gone"}]}, "gone", "fine"),
    ],
)
def test_results_in_every_form(result: dict[str, Any], text: str, failed: str) -> None:
    request = user({"type": "tool_result", "tool_use_id": "c", **result}, tools=[RUN])
    assert request.messages == (ToolMessage("c", text, None, failed == "error"),)


def test_citations_are_named() -> None:
    request = user(
        {**TEXT_DOCUMENT, "citations": {"enabled": True}}, {**FOUND, "citations": {"enabled": True}}, {**FOUND, "citations": None}
    )
    assert request.ignored == ("messages.0.content.0.citations", "messages.0.content.1.citations")


def test_what_the_vendors_servers_ran_is_left_out_by_name() -> None:
    blocks = [
        {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "q"}},
        {"type": "web_search_tool_result", "tool_use_id": "s", "content": []},
        {"type": "redacted_thinking", "data": "opaque"},
        {"type": "text", "text": "found"},
    ]
    request = turn(messages=[HI, {"role": "assistant", "content": blocks}, HI])
    assert [type(message).__name__ for message in request.messages] == ["UserMessage", "AssistantMessage", "UserMessage"]
    assert request.ignored == ("messages.1.content.0.server_tool_use", "messages.1.content.1.web_search_tool_result")
    with pytest.raises(InvalidRequest):
        user(blocks[0])


def test_tools_added_in_the_middle_are_shown_there() -> None:
    tools = [{**RUN, "defer_loading": True}]
    late = {
        "role": "system",
        "content": [{"type": "tool_addition", "tool": {"type": "tool_reference", "name": "run"}}, {"type": "tool_removal", "tool": {}}],
    }
    request = turn(messages=[HI, late], tools=tools)
    assert request.messages[1] == SystemMessage('{"name":"run","description":"runs","parameters":{"type": "object"}}')
    assert request.tools[0].deferred
    assert request.ignored == ("messages.1.content.1.tool_removal",)


CLIENT_TOOLS = [
    ("bash_20241022", "bash", {"command", "restart"}),
    ("bash_20250124", "bash", {"command", "restart"}),
    ("text_editor_20241022", "str_replace_editor", {"command", "path", "view_range", "file_text", "old_str", "new_str", "insert_line"}),
    (
        "text_editor_20250728",
        "str_replace_based_edit_tool",
        {"command", "path", "view_range", "file_text", "old_str", "new_str", "insert_line", "insert_text"},
    ),
    (
        "memory_20250818",
        "memory",
        {"command", "path", "view_range", "file_text", "old_str", "new_str", "insert_line", "insert_text", "old_path", "new_path"},
    ),
    (
        "computer_20251124",
        "computer",
        {"action", "coordinate", "text", "start_coordinate", "scroll_direction", "scroll_amount", "duration", "region"},
    ),
    ("computer_20241022", "computer", {"action", "coordinate", "text"}),
]


@pytest.mark.parametrize(("kind", "name", "parameters"), CLIENT_TOOLS)
def test_typed_tools_that_the_client_runs_are_functions(kind: str, name: str, parameters: set[str]) -> None:
    request = turn(
        tools=[{"type": kind, "name": name, "display_width_px": 800, "display_height_px": 600}], tool_choice={"type": "tool", "name": name}
    )
    (tool,) = request.tools
    assert (tool.name, set(tool.schema["properties"])) == (name, parameters)
    assert tool.description and request.ignored == ()
    assert ("800 by 600" in tool.description) == (name == "computer")


def test_undo_is_offered_only_where_the_tool_has_it() -> None:
    def commands(kind: str) -> list[str]:
        found: list[str] = turn(tools=[{"type": kind, "name": "e"}]).tools[0].schema["properties"]["command"]["enum"]
        return found

    assert "undo_edit" in commands("text_editor_20250124")
    assert "undo_edit" not in commands("text_editor_20250429")


SERVER_TOOLS = [
    "web_search_20250305",
    "web_fetch_20250910",
    "code_execution_20250825",
    "advisor_20260301",
    "tool_search_tool_bm25_20251119",
]


@pytest.mark.parametrize("kind", SERVER_TOOLS)
def test_tools_that_the_vendors_servers_run_are_named_and_not_offered(kind: str) -> None:
    request = turn(tools=[{"type": kind, "name": "x"}, RUN])
    assert [tool.name for tool in request.tools] == ["run"]
    assert request.ignored == (f"tools.0.{kind}",)


def test_a_toolset_needs_no_name() -> None:
    assert turn(tools=[{"type": "mcp_toolset", "mcp_server_name": "s"}]).ignored == ("tools.0.mcp_toolset",)
    with pytest.raises(InvalidRequest, match=r"tools\.0\.name"):
        turn(tools=[{"input_schema": {}}])


def test_deferred_tools_are_offered_at_once_where_nothing_here_would_load_them() -> None:
    deferred = {**RUN, "defer_loading": True}
    assert turn(tools=[deferred]).tools[0].deferred
    assert not turn(tools=[deferred, {"type": "tool_search_tool_regex_20251119", "name": "s"}]).tools[0].deferred


def test_strict_tools() -> None:
    assert [tool.strict for tool in turn(tools=[{**RUN, "strict": True}, {**RUN, "name": "b"}]).tools] == [True, False]


@pytest.mark.parametrize(
    ("edit", "kept"),
    [
        ({"keep": "all"}, "all"),
        ({"keep": {"type": "all"}}, "all"),
        ({"keep": {"type": "thinking_turns", "value": 3}}, 3),
        ({}, 1),
    ],
)
def test_kept_thinking(edit: dict[str, Any], kept: Any) -> None:
    assert turn(context_management={"edits": [{"type": "clear_thinking_20251015", **edit}]}).replay == ReplayWish(turns=kept)


def test_other_edits_are_named() -> None:
    request = turn(context_management={"edits": [{"type": "clear_tool_uses_20250919", "trigger": {"type": "input_tokens", "value": 1}}]})
    assert (request.replay, request.ignored) == (ReplayWish(), ("context_management.clear_tool_uses_20250919",))
    assert turn(context_management={}).replay == turn(context_management=None).replay == ReplayWish()


SCHEMA = {"type": "object", "properties": {"a": {"const": 1.10}}}


@pytest.mark.parametrize(
    "place",
    [
        {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}},
        {"output_format": {"type": "json_schema", "schema": SCHEMA}},
    ],
)
def test_answer_formats(place: dict[str, Any]) -> None:
    assert turn(**place).output == OutputFormat(schema=json.dumps(SCHEMA))


BAD: list[tuple[dict[str, Any], str]] = [
    ({"output_config": {"format": {"type": "regex"}}}, "output_config.format.type"),
    ({"output_config": {"format": {"type": "json_schema"}}}, "output_config.format.schema"),
    ({"output_format": {"type": "json_schema", "schema": 4}}, "output_format.schema"),
    ({"context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": 0}]}}, "context_management.edits.0.keep"),
    (
        {"context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": {"type": "thinking_turns", "value": 0}}]}},
        "context_management.edits.0.keep.value",
    ),
    ({"context_management": {"edits": 3}}, "context_management.edits"),
    ({"thinking": {"type": "sometimes"}}, "thinking"),
]


@pytest.mark.parametrize(("fields", "param"), BAD, ids=[case[1] for case in BAD])
def test_bad_wishes_are_refused_with_their_path(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(RequestError) as caught:
        turn(**fields)
    assert caught.value.param == param
