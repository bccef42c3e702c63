"""What the tests of field reports share: the handed reports, our own versions of their essentials, and requests to a scripted server.

Every report is checked twice: on our own version (`OWN`), which needs nothing but this repository, and on the handed one where
ANTIPHON_SHARED names the folder with `cases/field_reports.jsonl`.
"""

import json
import os
from pathlib import Path

import pytest

READ = {"name": "read", "schema": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}}
CLOCK = {"name": "clock", "schema": {"type": "object", "properties": {}, "required": []}}


def anthropic_tool(tool):
    return {"name": tool["name"], "description": "own", "input_schema": tool["schema"]}


def openai_tool(tool):
    return {"type": "function", "function": {"name": tool["name"], "parameters": tool["schema"]}}


def use(call_id, name="clock"):
    return {"type": "tool_use", "id": call_id, "name": name, "input": {}}


def result_of(call_id, content, **extra):
    return {"type": "tool_result", "tool_use_id": call_id, "content": content, **extra}


def message(role, content, **extra):
    return {"role": role, "content": content, **extra}


def body(*messages, **fields):
    return {"model": "m", "max_tokens": 400, "messages": list(messages), **fields}


ASK = message("user", "please")
QWEN_CALL = "<tool_call>\n<function={}>\n{}</function>\n</tool_call>"
NOW_CALL = QWEN_CALL.format("clock", "")
READ_CALL = QWEN_CALL.format("read", "<parameter=path>\n{}\n</parameter>\n")
PIXEL = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "R0lGODdhAQ=="}}
CLOCK_A, CLOCK_O = [anthropic_tool(CLOCK)], [openai_tool(CLOCK)]
READ_A, READ_O = [anthropic_tool(READ)], [openai_tool(READ)]
THINKING = {"type": "enabled", "budget_tokens": 1024}
BROKEN = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": '{"path": "note'}}

OWN = {
    46: {"request": body(message("user", "hello /no_think")), "model_output": "Good day."},
    49: {
        "request": body(message("user", "one"), message("assistant", "done"), message("user", "two")),
        "model_output": "weigh it\n</think>\n\nSettled.",
        "right": {"reasoning": "weigh it", "content": "Settled."},
    },
    53: {
        "request": body(message("user", "capital of France?")),
        "model_output": "<|channel|>analysis<|message|>Easy one.<|end|><|start|>assistant<|channel|>final<|message|>Paris<|return|>",
        "right": {"content": "Paris", "reasoning": "Easy one.", "content_must_not_contain": ["analysis", "assistantfinal"]},
    },
    55: {
        "request": body(
            ASK,
            message(
                "assistant",
                [{"type": "thinking", "thinking": "FIRSTLY", "signature": "sig"}, {"type": "text", "text": "SPOKEN"}, use("c1")],
            ),
            message("user", [result_of("c1", "noon")]),
            tools=CLOCK_A,
            thinking=THINKING,
        ),
        "right": {"rendered_order": ["FIRSTLY", "SPOKEN", "clock"]},
    },
    56: {"request": body(ASK, stream=True), "model_output": "a thought</think>\nfine"},
    58: {
        "request": body(ASK, stream=True, thinking=THINKING),
        "model_output": "ponder</think>\nNo.",
        "right": {"thinking_block": {"thinking": "ponder"}},
    },
    62: {
        "request": body(ASK, stream=True, tools=READ_A),
        "model_output": READ_CALL.format("b.h"),
        "right": {"blocks": [["tool_use", "read", {"path": "b.h"}]], "stop_reason": "tool_use"},
    },
    63: {
        "request": body(ASK, stream=True, tools=CLOCK_A),
        "model_output": f"reason</think>words {NOW_CALL}",
        "right": {"block_types": ["thinking", "text", "tool_use"]},
    },
    66: {"request": body(ASK, stream=True, tools=CLOCK_A)},
    67: {"request": body(message("user", "what time?"), stream=True, tools=CLOCK_O), "model_output": NOW_CALL},
    68: {"request": body(message("user", "how long is this"), stream=True), "model_output": "short"},
    71: {"request": {"model": "m", "system": "T " * 60, "tools": READ_A, "messages": [message("user", "yo")]}},
    74: {"request": body(ASK, stream=True, stream_options={"include_usage": True}), "model_output": "x y z w"},
    76: {
        "request": body(
            ASK,
            message("assistant", [use("c1")]),
            message("user", [result_of("c1", [{"type": "text", "text": "look"}, PIXEL])]),
            tools=CLOCK_A,
        ),
        "before": "look",
    },
    77: {
        "request": body(
            ASK,
            message("assistant", [use("c9")]),
            message(
                "user",
                [result_of("c9", [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]), {"type": "text", "text": "next?"}],
            ),
            tools=CLOCK_A,
        ),
        "right": {"tool_message": {"for_call": "c9", "text": "one\ntwo"}, "then_user": "next?"},
    },
    78: {
        "request": body(
            ASK,
            message("assistant", [use("c1")]),
            message("user", [result_of("c1", "crash", is_error=True)]),
            tools=CLOCK_A,
            tool_choice={"type": "auto", "disable_parallel_tool_use": True},
        ),
        "model_output": NOW_CALL + "\n" + NOW_CALL,
        "result": "crash",
    },
    80: {
        "request": body(ASK, tools=[{"type": "web_search_20250305", "name": "web_search"}, *CLOCK_A]),
        "right": {"tools_rendered": ["clock"]},
    },
    98: {
        "request": body(
            ASK,
            message("assistant", None, tool_calls=[BROKEN]),
            message("tool", "unreadable", tool_call_id="c1"),
            message("user", "go on"),
            tools=READ_O,
        ),
        "right": {"prompt_contains": "note"},
    },
    99: {
        "request": body(
            ASK,
            message("assistant", None, tool_calls=[{**BROKEN, "function": {"name": "clock", "arguments": "null"}}]),
            message("tool", "7", tool_call_id="c1"),
            tools=CLOCK_O,
        )
    },
    126: {
        "request": body(ASK, tools=READ_O),
        "model_output": 'well <tool_call>\n{"name": "read", "argum',
        "right": {"content": "well"},
    },
    128: {
        "request": body(ASK, stop_sequences=["HALT"], thinking=THINKING),
        "model_output": "HALT must wait.</think>Part one. HALT rest",
        "right": {"reasoning": "HALT must wait.", "text": "Part one. ", "stop_sequence": "HALT"},
    },
    129: {
        "request": body(ASK, stop_sequences=["BREAK", "%%"], stream=True),
        "model_output": "one two BREAK three",
        "right": {"text": "one two ", "stop_sequence": "BREAK"},
    },
    130: {"request": body(ASK, tools=CLOCK_O), "model_output": NOW_CALL},
    131: {"request": body(ASK, tools=CLOCK_O), "model_output": "Boil eggs."},
    141: {
        "request": body(ASK, tools=CLOCK_O, tool_choice="required", stream=True),
        "model_output": "so {{ }}</think>" + NOW_CALL,
        "right": {"reasoning": "so {{ }}", "tool_calls": ["clock"]},
    },
    143: {
        "request": body(ASK, tools=READ_O, parallel_tool_calls=False),
        "model_output": READ_CALL.format("x") + "\n" + READ_CALL.format("y"),
        "right": {"tool_calls": [["read", {"path": "x"}]]},
    },
    145: {
        "request": body(
            ASK,
            tools=[
                {
                    "type": "function",
                    "function": {
                        "name": "paint",
                        "parameters": {
                            "type": "object",
                            "$defs": {"Hue": {"enum": ["teal", "ochre"]}},
                            "properties": {"hue": {"$ref": "#/$defs/Hue"}},
                            "required": ["hue"],
                        },
                    },
                }
            ],
        ),
        "right": {"prompt_contains": ["teal", "ochre"]},
    },
    148: {"request": body(ASK, response_format={"type": "json_object"})},
    149: {"request": body(ASK)},
    153: {"request": body(message("user", "long " * 3000))},
    154: {"request": body(message("user", "tiny"), max_tokens=70000)},
}


def handed():
    """The handed reports by number, {} without the folder."""
    shared = os.environ.get("ANTIPHON_SHARED")
    path = Path(shared) / "cases" / "field_reports.jsonl" if shared else None
    if path is None or not path.is_file():
        return {}
    rows = (json.loads(line) for line in path.read_text("utf-8").splitlines() if line.strip())
    return {row["n"]: row for row in rows}


def case(number, source):
    """The report as {request, model_output, right, ...}, ours or the handed one."""
    if source == "own":
        return OWN[number]
    rows = handed()
    if not rows:
        pytest.skip("ANTIPHON_SHARED names no folder with cases/field_reports.jsonl")
    row = rows[number]
    request = dict(row["input"]["request"])
    if row["input"]["api"] == "chat":
        request["tools"] = [{"type": "function", **tool} for tool in request.get("tools", [])] or None
    return {**row["input"], "request": request, "right": row["right_value"], "before": "see", "result": "boom"}


both = pytest.mark.parametrize("source", ["own", "handed"])


def ask(server, request, path="/v1/messages", **headers):
    return server.http.post(path, json=request, headers={name.replace("_", "-"): value for name, value in headers.items()})


def ask_chat(server, request, **headers):
    return ask(server, request, "/v1/chat/completions", **headers)


def events(answer):
    """The data of an SSE answer, [DONE] left out."""
    assert answer.status_code == 200, answer.text
    lines = (line[6:] for line in answer.text.splitlines() if line.startswith("data: "))
    return [json.loads(line) for line in lines if line != "[DONE]"]


def check_grammar(stream):
    """The Messages event grammar; the blocks as (start, joined deltas)."""
    assert stream[0]["type"] == "message_start"
    assert [event["type"] for event in stream[-2:]] == ["message_delta", "message_stop"]
    blocks, is_open = [], False
    for event in stream[1:-2]:
        if event["type"] == "content_block_start":
            assert not is_open and event["index"] == len(blocks)
            blocks.append((event["content_block"], []))
            is_open = True
        elif event["type"] != "ping":
            assert is_open and event["index"] == len(blocks) - 1
            if event["type"] == "content_block_stop":
                assert blocks[-1][1]
                is_open = False
            else:
                blocks[-1][1].append(event["delta"])
    assert not is_open
    return blocks


def prompt(server):
    """The text of the last turn's prompt."""
    return server.pipeline.model.tokenizer.decode(server.traced()[-1]["prompt_ids"])


def script(output, **finish):
    return [{"when": "", "say": output, **finish}]
