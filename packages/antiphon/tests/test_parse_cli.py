"""`antiphon parse --jsonl`: every field of a case and of its answer, in process, and once as the real command."""

import json
import subprocess
import sys

import pytest

from antiphon.parse_cli import LONGEST_RANDOM_CUT, Case, cut, parse_lines

BASH = {
    "name": "bash",
    "parameters": {
        "type": "object",
        "properties": {"command": {"type": "string"}, "limit": {"type": "integer"}},
        "required": ["command"],
    },
}
HERMES = {"id": 1, "parser": "hermes", "tools": [BASH], "opening": "text"}
CODER = {"id": "c", "parser": "qwen3_coder", "reasoning_parser": "qwen3", "tools": [BASH], "opening": "undecided"}
CODER_CALL = (
    "<tool_call>\n<function=bash>\n<parameter=command>\nls -la\n</parameter>\n<parameter=limit>\n5\n</parameter>\n</function>\n</tool_call>"
)
TURN = f"<think>\nLook first.\n</think>\n\nRunning.\n{CODER_CALL}"
TURN_SEGMENTS = [
    {"kind": "reasoning", "text": "Look first.", "status": "complete"},
    {"kind": "text", "text": "Running.", "status": "complete"},
    {
        "kind": "tool_call",
        "name": "bash",
        "arguments": {"command": "ls -la", "limit": 5},
        "arguments_raw": '{"command": "ls -la", "limit": 5}',
        "status": "complete",
    },
]


def answers(*cases):
    """What the command writes for these cases (dicts, or lines as they are)."""
    lines = [case if isinstance(case, bytes) else json.dumps(case).encode() for case in cases]
    return [json.loads(line) for line in parse_lines(line + b"\n" for line in lines)]


def parse(case):
    (answer,) = answers(case)
    return answer


def kinds(answer):
    return [segment["kind"] for segment in answer["segments"]]


def test_a_whole_turn():
    assert parse({**CODER, "text": TURN}) == {
        "id": "c",
        "segments": TURN_SEGMENTS,
        "incomplete": False,
        "anomalies": [],
        "stop_reason": "tool_use",
    }


def test_arguments_raw_are_the_exact_bytes():
    raw = '{ "command":"a\\u00e9\\/b",  "limit": 1.50e0 , "extra":[1,\t{}] }'
    call = '<tool_call>\n{"name": "bash", "arguments": ' + raw + "}\n</tool_call>"
    for how in ("whole", "chars", "random:3"):
        (segment,) = parse({**HERMES, "text": call, "cut": how})["segments"]
        assert segment["arguments_raw"] == raw
        assert segment["arguments"] == {"command": "aé/b", "limit": 1.5, "extra": [1, {}]}


def test_the_output_line_keeps_numbers_as_they_were_written():
    call = '<tool_call>\n{"name": "bash", "arguments": {"limit": 12345678901234567890123}}\n</tool_call>'
    (line,) = parse_lines([json.dumps({**HERMES, "text": call}).encode()])
    assert b'"arguments":{"limit": 12345678901234567890123}' in line


OPENINGS = [
    ("text", "", "a\n</think>\nb", ["text"]),
    ("reasoning", "", "a\n</think>\n\nb", ["reasoning", "text"]),
    ("undecided", "", "<think>\na\n</think>\n\nb", ["reasoning", "text"]),
    ("undecided", "", "b", ["text"]),
    ("rendered", "<|im_start|>assistant\n<think>\n", "a\n</think>\n\nb", ["reasoning", "text"]),
    ("rendered", "<|im_start|>assistant\n", "b", ["text"]),
    ("rendered", "<|im_start|>assistant\n<think>\n\n</think>\n\n", "b", ["text"]),
    ("rendered", "<|im_start|>assistant\n<think>\nold<|im_end|>\n<|im_start|>assistant\n", "b", ["text"]),
    ("rendered", "<|im_start|>assistant\nHere it is:\n<tool_call>\n<function=bash>\n<parameter=command>\nls", "", ["tool_call"]),
]


@pytest.mark.parametrize(("opening", "tail", "text", "expected"), OPENINGS)
def test_openings(opening, tail, text, expected):
    answer = parse({**CODER, "opening": opening, "prompt_tail": tail, "text": text, "finish": "stop"})
    assert kinds(answer) == expected


def test_a_prefilled_call_is_shown_from_its_beginning():
    tail = "<|im_start|>assistant\n" + CODER_CALL[:50]
    (segment,) = parse({**CODER, "opening": "rendered", "prompt_tail": tail, "text": CODER_CALL[50:]})["segments"]
    assert segment["arguments"] == {"command": "ls -la", "limit": 5}


@pytest.mark.parametrize("how", ["whole", "chars", "given", *(f"random:{seed}" for seed in range(8))])
def test_every_cut_gives_the_same_segments(how):
    answer = parse({**CODER, "text": TURN, "chunks": [TURN[:33], "", TURN[33:90], TURN[90:]], "cut": how})
    assert answer["segments"] == TURN_SEGMENTS


def test_given_reads_chunks_and_the_others_read_text():
    case = {**CODER, "opening": "text", "text": "from text", "chunks": ["from ", "chunks"]}
    assert parse({**case, "cut": "given"})["segments"][0]["text"] == "from chunks"
    for how in ("whole", "chars", "random:1"):
        assert parse({**case, "cut": how})["segments"][0]["text"] == "from text"
    assert "chunks" in parse({**case, "chunks": None, "cut": "given"})["error"]


def test_cuts_are_what_they_say():
    case = Case(text=TURN)
    with_cut = {how: cut(Case(text=TURN, cut=how)) for how in ("chars", "random:1", "random:2")}
    assert cut(case) == [TURN]
    assert with_cut["chars"] == list(TURN)
    assert with_cut["random:1"] == cut(Case(text=TURN, cut="random:1")) != with_cut["random:2"]
    assert "".join(with_cut["random:1"]) == TURN
    assert {len(piece) for piece in with_cut["random:1"][:-1]} == set(range(1, LONGEST_RANDOM_CUT + 1))


@pytest.mark.parametrize("how", ["pieces", "", "randomly:1"])
def test_an_unknown_cut_is_an_error_of_its_line(how):
    answer = parse({**CODER, "text": "x", "cut": how})
    assert set(answer) == {"id", "error"}
    assert "cut" in answer["error"]


CUTS = [
    # text, finish, kinds with statuses, incomplete, stop_reason
    ("<think>\nhalf", "length", [("reasoning", "truncated")], True, "max_tokens"),
    ("<think>\nhalf", "stop", [("reasoning", "truncated")], True, "end_turn"),
    ("plain", "length", [("text", "truncated")], False, "max_tokens"),
    ("plain", "stop", [("text", "complete")], False, "end_turn"),
    (CODER_CALL[:60], "length", [("tool_call", "truncated")], True, "max_tokens"),
    (CODER_CALL[:60], "stop", [("tool_call", "truncated")], True, "end_turn"),
    (CODER_CALL, "length", [("tool_call", "complete")], False, "tool_use"),
    (CODER_CALL, "stop", [("tool_call", "complete")], False, "tool_use"),
    (CODER_CALL.removesuffix("\n</tool_call>"), "length", [("tool_call", "complete")], False, "tool_use"),
    (CODER_CALL + "\n" + CODER_CALL[:60], "length", [("tool_call", "complete"), ("tool_call", "truncated")], True, "max_tokens"),
    (CODER_CALL + "\n<tool_call>\n<func", "length", [("tool_call", "complete")], True, "max_tokens"),
    (CODER_CALL + "\n<think>\n", "length", [("tool_call", "complete")], True, "max_tokens"),
    (CODER_CALL + "\n", "length", [("tool_call", "complete")], False, "tool_use"),
    (CODER_CALL + "\nbye", "stop", [("tool_call", "complete"), ("text", "complete")], False, "tool_use"),
    ("", "stop", [], False, "end_turn"),
]


@pytest.mark.parametrize("how", ["whole", "chars"])
@pytest.mark.parametrize(("text", "finish", "expected", "incomplete", "reason"), CUTS)
def test_how_a_turn_may_end(text, finish, expected, incomplete, reason, how):
    answer = parse({**CODER, "text": text, "finish": finish, "cut": how})
    assert [(segment["kind"], segment["status"]) for segment in answer["segments"]] == expected
    assert (answer["incomplete"], answer["stop_reason"]) == (incomplete, reason)


def test_a_truncated_call_has_raw_arguments_only():
    (segment,) = parse({**CODER, "text": CODER_CALL[: CODER_CALL.index("</parameter>")], "finish": "length"})["segments"]
    assert "arguments" not in segment
    assert segment["arguments_raw"].startswith('{"command": "ls')
    with pytest.raises(json.JSONDecodeError):
        json.loads(segment["arguments_raw"])


def test_a_model_that_stops_inside_a_call_is_an_anomaly():
    answer = parse({**CODER, "text": CODER_CALL[:60], "finish": "stop"})
    assert answer["anomalies"] == [{"code": "call_unfinished", "detail": ""}]
    assert parse({**CODER, "text": CODER_CALL[:60], "finish": "length"})["anomalies"] == []


def test_a_repaired_call_is_recovered():
    call = "<tool_call>\n{'name': 'bash', 'arguments': {'command': 'ls', 'limit': None}}\n</tool_call>"
    answer = parse({**HERMES, "text": call})
    (segment,) = answer["segments"]
    assert (segment["kind"], segment["status"]) == ("tool_call", "recovered")
    assert segment["arguments"] == json.loads(segment["arguments_raw"]) == {"command": "ls", "limit": None}
    assert [anomaly["code"] for anomaly in answer["anomalies"]] == ["repaired_tool_call"]
    assert answer["stop_reason"] == "tool_use"


def test_declared_types_come_from_the_tools():
    untyped = {**CODER, "text": CODER_CALL, "tools": [{"name": "bash"}]}
    assert parse(untyped)["segments"][0]["arguments"] == {"command": "ls -la", "limit": "5"}
    typed = {**CODER, "text": CODER_CALL, "tools": [BASH]}
    assert parse(typed)["segments"][0]["arguments"] == {"command": "ls -la", "limit": 5}


def test_events_carry_the_feed_they_came_from():
    chunks = ["one", CODER_CALL[:40], CODER_CALL[40:], "\nend"]
    answer = parse({**CODER, "opening": "text", "chunks": chunks, "cut": "given", "events": True})
    feeds = [feed for feed, _ in answer["events"]]
    assert feeds == sorted(feeds)
    assert set(feeds) <= set(range(len(chunks) + 1)), "what finish says comes with the feed behind the last one"
    ready = [(feed, event) for feed, event in answer["events"] if event["type"] == "call_ready"]
    assert [feed for feed, _ in ready] == [2], "a call is ready at its closing marker, not at the end"
    assert json.loads(ready[0][1]["arguments"]) == {"command": "ls -la", "limit": 5}
    raw = "".join(event["text"] for _, event in answer["events"] if event["type"] == "segment_delta" and event["index"] == 1)
    assert raw == answer["segments"][1]["arguments_raw"]
    assert answer["events"][-1][0] == len(chunks)
    assert "events" not in parse({**CODER, "text": "x"})


def test_parsers_may_be_left_out():
    text = "<think>\na\n</think>\n" + CODER_CALL
    assert parse({"id": 1, "text": text, "opening": "text"})["segments"] == [{"kind": "text", "text": text, "status": "complete"}]
    assert kinds(parse({"id": 1, "parser": "qwen3_coder", "text": CODER_CALL, "opening": "text"})) == ["tool_call"]
    assert kinds(parse({"id": 1, "reasoning_parser": "qwen3", "text": "a\n</think>\n\nb", "opening": "reasoning"})) == ["reasoning", "text"]


def test_names_are_folded():
    for name in ("Qwen3-Coder", "qwen3.coder", "QWEN3_XML"):
        assert kinds(parse({**CODER, "parser": name, "text": CODER_CALL})) == ["tool_call"]


def test_an_unknown_parser_is_an_error_of_its_line_that_names_the_near_ones():
    first, second, third = answers(
        {"id": "u", "parser": "hermess", "text": "x"},
        {"id": "v", "parser": "hermes", "reasoning_parser": "qwen33", "text": "x"},
        {"id": "w", "parser": "hermes", "text": "x"},
    )
    assert set(first) == set(second) == {"id", "error"}
    assert (first["id"], second["id"]) == ("u", "v")
    assert "hermess" in first["error"] and "did you mean hermes" in first["error"]
    assert "did you mean qwen3" in second["error"]
    assert third["segments"][0]["text"] == "x"


BAD_LINES = [
    (b"{nope", None),
    (b"\xff\xfe", None),
    (b"[1, 2]", None),
    (b'{"id": 7, "text": 3}', 7),
    (b'{"id": "t", "tools": {}}', "t"),
    (b'{"id": "o", "text": "x", "opening": "sideways"}', "o"),
    (b'{"id": "f", "text": "x", "finish": "error"}', "f"),
    (b'{"id": "n", "tools": [{"parameters": {}}]}', "n"),
]


@pytest.mark.parametrize(("line", "case_id"), BAD_LINES)
def test_a_bad_line_is_an_error_and_the_next_one_still_runs(line, case_id):
    bad, good = answers(line, {**CODER, "text": "x"})
    assert set(bad) == {"id", "error"}
    assert bad["id"] == case_id
    assert bad["error"]
    assert good["segments"]


def test_empty_lines_are_no_cases():
    assert answers(b"", b"   ", {**CODER, "text": "x"})[0]["id"] == "c"


def test_the_command_itself():
    cases = [{**CODER, "text": TURN, "events": True}, {"id": 2, "parser": "nothing_like_it", "text": "x"}, {**HERMES, "text": "héé"}]
    given = b"\n".join([json.dumps(cases[0]).encode(), b"{nope", *(json.dumps(case).encode() for case in cases[1:])])
    done = subprocess.run([sys.executable, "-m", "antiphon", "parse", "--jsonl"], input=given, capture_output=True, timeout=30, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    whole, bad, unknown, plain = (json.loads(line) for line in done.stdout.splitlines())
    assert whole["segments"] == TURN_SEGMENTS
    assert whole["events"][0][1]["type"] == "segment_start"
    assert bad["id"] is None and "error" in bad
    assert unknown["id"] == 2 and "nothing_like_it" in unknown["error"]
    assert plain["segments"] == [{"kind": "text", "text": "héé", "status": "complete"}]
