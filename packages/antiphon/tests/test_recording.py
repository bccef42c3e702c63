"""Recordings: what is kept, what is not, and that bench, explain and the mock engine can go on from them."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner
from websockets.sync.client import connect

from antiphon.cli import app
from antiphon.engines.default_model import default_model_path
from antiphon.load.dialogue import recorded_body
from antiphon.recording.recorded import NO_BODY, RecordedRequest, read_recording
from antiphon.recording.recorder import FILES, Recorder, RecordFiles, RecordOptions
from antiphon.recording.redaction import Redaction
from antiphon.recording.replays import planned, rules_of, trees_at, two_bodies
from antiphon_turns.errors import ConfigError

TOOLS = [{"name": "run", "description": "PRIVATE-TOOL", "input_schema": {"type": "object", "properties": {"cmd": {"type": "string"}}}}]
CALL = "<tool_call>\n<function=run>\n<parameter=cmd>\nls PRIVATE\n</parameter>\n</function>\n</tool_call>"
RULES = [
    {"when": "<tool_response>", "say": "</think>\n\nPRIVATE-DONE."},
    {"when": "", "say": f"PRIVATE-THOUGHT\n</think>\n\nOn it.\n{CALL}"},
]
KEY = "sk-private-key"


def two_turns(server: Any, session: str = "s1", key: str | None = None) -> list[Any]:
    """A turn with a call and the one with its result, as an agent asks them."""
    headers = {"x-dynamo-session-id": session, "user-agent": "claude-cli/2.1", **({"x-api-key": key} if key else {})}
    body: dict[str, Any] = {"model": "antiphon-mock", "max_tokens": 200, "system": "PRIVATE-SYSTEM", "tools": TOOLS}
    body["thinking"] = {"type": "adaptive"}
    messages: list[Any] = [{"role": "user", "content": f"PRIVATE-QUESTION of {session}"}]
    first = server.http.post("/v1/messages", json={**body, "messages": messages}, headers=headers)
    assert first.status_code == 200, first.text
    content = first.json()["content"]
    call = next(block["id"] for block in content if block["type"] == "tool_use")
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call, "content": "a b c"}]}
    messages += [{"role": "assistant", "content": content}, result]
    second = server.http.post("/v1/messages", json={**body, "messages": messages}, headers=headers)
    assert second.status_code == 200, second.text
    return [first, second]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "recording"


def record(run_server: Any, make: Any, folder: Path, **settings: Any) -> list[Any]:
    """What a server answers while it records two turns; everything is written when it has stopped."""
    with run_server(make(record=folder, **settings)) as server:
        return two_turns(server, key=settings.get("api_key"))


@pytest.fixture
def settings(tmp_path: Path) -> Any:
    from antiphon.config import Settings

    script = tmp_path / "script.jsonl"
    script.write_bytes(b"\n".join(msgspec.json.encode(rule) for rule in RULES))
    return lambda **more: Settings(engine="mock", http_port=0, **{"mock_script": script, **more})


def test_a_request_is_kept_with_what_became_of_it(run_server: Any, settings: Any, folder: Path) -> None:
    first, second = record(run_server, settings, folder, record_content="full", record_tokens=True)
    one, two = read_recording(folder)
    assert [one.request_id, two.request_id] == [first.headers["request-id"], second.headers["request-id"]]
    assert (one.session, one.surface, one.client, one.status, one.content) == ("s1", "messages", "claude-code", 200, "full")
    assert json.loads(bytes(one.body))["system"] == "PRIVATE-SYSTEM"
    assert one.head == two.head != "" and 0 < two.head_share < one.head_share < 1
    (turn,) = one.turns
    usage = first.json()["usage"]
    assert (turn.stop_reason, turn.prompt_tokens, turn.output_tokens) == ("tool_use", usage["input_tokens"], usage["output_tokens"])
    assert turn.said == RULES[1]["say"]
    assert turn.prompt_ids is not None and turn.output_ids is not None
    assert (len(turn.prompt_ids), len(turn.output_ids)) == (turn.prompt_tokens, turn.output_tokens)
    assert turn.ttft is not None and 0 < turn.ttft < turn.calls[0] <= turn.seconds <= one.duration
    assert turn.prompt_end is not None and "PRIVATE-QUESTION" in turn.prompt_end


def test_files_are_private(run_server: Any, settings: Any, folder: Path) -> None:
    record(run_server, settings, folder)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert [path.stat().st_mode & 0o777 for path in folder.iterdir()] == [0o600]


@pytest.mark.parametrize("content", ["none", "hash"])
def test_redacted_recordings_hold_nothing_that_was_said(run_server: Any, settings: Any, folder: Path, content: str) -> None:
    record(run_server, settings, folder, record_content=content, api_key=KEY)
    text = "".join(path.read_text() for path in folder.iterdir())
    assert "PRIVATE" not in text and KEY not in text and "a b c" not in text
    one, two = read_recording(folder)
    assert (bytes(one.body) == b"") == (content == "none")
    assert one.turns[0].prompt_tokens > 0 and one.turns[0].said is None
    assert one.head == two.head and one.body_bytes < two.body_bytes


def test_hashes_keep_the_shape_and_the_sameness(run_server: Any, settings: Any, folder: Path) -> None:
    record(run_server, settings, folder)
    one, two = (json.loads(bytes(request.body)) for request in read_recording(folder))
    assert one["system"] == two["system"] and one["system"].startswith("#")
    assert one["messages"] == two["messages"][:1]
    assert (one["max_tokens"], one["messages"][0]["role"], one["model"]) == (200, "user", "antiphon-mock")
    call, result = two["messages"][1]["content"][-1], two["messages"][2]["content"][0]
    assert call["type"] == "tool_use" and call["id"] == result["tool_use_id"]


def test_hashes_cannot_be_compared_across_runs() -> None:
    body = b'{"messages":[{"role":"user","content":"yes"}]}'
    kept = [Redaction("hash", key).body(body) for key in (b"a" * 32, b"b" * 32)]
    assert kept[0] != kept[1]


def test_only_the_vendors_words_are_kept_in_their_places() -> None:
    block = {"type": "tool_use", "id": "c", "name": "n", "input": {"type": "secret", "status": "patient is ill", "role": "user", "n": 3}}
    body = {"model": "m", "messages": [{"role": "assistant", "content": [block]}], "metadata": {"model": "private"}}
    kept = json.loads(bytes(Redaction("hash", b"k" * 32).body(json.dumps(body).encode())))
    (message,) = kept["messages"]
    assert (kept["model"], message["role"], message["content"][0]["type"]) == ("m", "assistant", "tool_use")
    given = message["content"][0]["input"]
    assert (given["n"], given["role"]) == (3, "user")
    assert all(text.startswith("#") for text in (given["type"], given["status"], kept["metadata"]["model"]))


def test_credentials_of_tools_never_stay() -> None:
    body = {"tools": [{"type": "mcp", "server_label": "x", "authorization": "SECRET", "headers": {"k": "SECRET"}}], "input": "hi"}
    for content in ("hash", "full"):
        kept = Redaction(msgspec.convert(content, Any), b"k" * 32).body(json.dumps(body).encode())
        assert b"SECRET" not in bytes(kept) and b"server_label" in bytes(kept)


def test_whole_bodies_keep_their_spelling_on_one_line() -> None:
    kept = Redaction("full", b"k" * 32).body(b'{\n "temperature": 1.0,\n "x": "\\u00e9",\n "n": 12345678901234567890\n}')
    assert bytes(kept) == b'{"temperature":1.0,"x":"\\u00e9","n":12345678901234567890}'
    assert Redaction("full", b"k" * 32).body(b"{") == NO_BODY
    deep = b"[" * 100_000 + b"]" * 100_000
    assert Redaction("hash", b"k" * 32).body(deep) == NO_BODY


BROKEN = [
    b"",
    b"{",
    b"3",
    b'{"a":"\xff"}',
    b'{"a":"\\ud800"}',
    b'{"a":1e999}',
    b'{"messages":3}',
    b'{"messages":[3]}',
    b'{"messages":[{"role":"system","content":{}}],"tools":[3]}',
    b'{"a":' * 5000 + b"1" + b"}" * 5000,
    b'{"messages":' + b"[" * 5000 + b"]" * 5000 + b"}",
]


@pytest.mark.parametrize("content", ["none", "hash", "full"])
@pytest.mark.parametrize("body", BROKEN, ids=lambda body: repr(body[:16]))
def test_whatever_a_client_sends_the_line_can_be_read(body: bytes, content: Any) -> None:
    redaction = Redaction(content, b"k" * 32)
    name, share = redaction.head(body, "chat")
    line = msgspec.json.encode(msgspec.structs.replace(request("a", 1.0), body=redaction.body(body), head=name, head_share=share))
    assert b"\n" not in line
    read = msgspec.json.decode(line, type=RecordedRequest)
    assert not bytes(read.body) or msgspec.json.decode(read.body) is not None


def test_frames_and_background_responses_are_kept_too(run_server: Any, settings: Any, folder: Path) -> None:
    with run_server(settings(record=folder, record_content="full")) as server:
        begun = server.http.post("/v1/responses", json={"model": "antiphon-mock", "input": "one", "background": True}).json()
        while server.http.get(f"/v1/responses/{begun['id']}").json()["status"] in ("queued", "in_progress"):
            pass
        with connect(server.url.replace("http", "ws") + "/v1/responses") as socket:
            socket.send(json.dumps({"type": "response.create", "model": "antiphon-mock", "input": "two"}))
            while json.loads(socket.recv())["type"] != "response.completed":
                pass
    one, two = read_recording(folder)
    assert [json.loads(bytes(kept.body))["input"] for kept in (one, two)] == ["one", "two"]
    assert [kept.turns[0].said for kept in (one, two)] == [kept.turns[0].said for kept in (one, one)]
    assert one.turns[0].output_tokens > 0 and one.duration >= one.turns[0].seconds > 0


def test_token_ids_are_content(folder: Path) -> None:
    class Nothing:
        def decode(self, ids: Sequence[int]) -> str:
            return ""

    with pytest.raises(ConfigError, match="--record-content full"):
        Recorder(RecordOptions(folder=folder, tokens=True), Nothing(), stop_ids=frozenset(), random_bytes=bytes)


def test_files_rotate_and_the_oldest_go(folder: Path) -> None:
    files = RecordFiles(folder, max_bytes=FILES * 100)
    for number in range(100):
        files.write(b"%049d\n" % number)
        assert sum(path.stat().st_size for path in folder.iterdir()) <= FILES * 100
    files.close()
    kept = [line for path in sorted(folder.iterdir()) for line in path.read_text().splitlines()]
    assert [int(line) for line in kept] == list(range(100 - len(kept), 100)) and len(kept) > 10
    again = RecordFiles(folder, max_bytes=FILES * 100)
    again.write(b"new\n")
    again.close()
    assert "new" in "".join(path.read_text() for path in folder.iterdir())
    with pytest.raises(ConfigError, match="--record takes a folder"):
        RecordFiles(next(folder.iterdir()), max_bytes=800)


def test_the_mock_engine_says_a_recording_again(run_server: Any, settings: Any, folder: Path) -> None:
    before = record(run_server, settings, folder, record_content="full")
    with run_server(settings(mock_script=folder)) as server:
        after = two_turns(server)
    for one, other in zip(before, after, strict=True):
        told, again = one.json(), other.json()
        assert [{**block, "id": "", "signature": ""} for block in told["content"]] == [
            {**block, "id": "", "signature": ""} for block in again["content"]
        ]
        assert (told["usage"], told["stop_reason"]) == (again["usage"], again["stop_reason"])
    hashed = folder.with_name("hashed")
    record(run_server, settings, hashed)
    with pytest.raises(ConfigError, match="--record-content full"):
        rules_of(hashed)


def test_bench_asks_a_recording_again(run_server: Any, settings: Any, folder: Path) -> None:
    record(run_server, settings, folder, record_content="full")
    again = folder.with_name("again")
    with run_server(settings(mock_script=folder, record=again, record_content="full")) as server:
        done = CliRunner().invoke(app, ["bench", server.url, "--trace", str(folder), "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.output)["errors"] == {}
    first, second = read_recording(folder), read_recording(again)
    assert [one.session for one in second] == ["s1", "s1"]
    assert [(one.turns[0].prompt_tokens, one.turns[0].said) for one in first] == [
        (one.turns[0].prompt_tokens, one.turns[0].said) for one in second
    ]


def test_lengths_are_enough_for_a_plan(run_server: Any, settings: Any, folder: Path) -> None:
    record(run_server, settings, folder, record_content="none")
    ((one, two),) = trees_at(folder)
    first, second = read_recording(folder)
    assert (one.body, one.surface, one.arrival, two.arrival) == (None, None, 0.0, None)
    assert one.head == two.head != ""
    assert one.head_tokens + one.new_tokens == first.turns[0].prompt_tokens
    assert two.new_tokens == second.turns[0].prompt_tokens - first.turns[0].prompt_tokens - first.turns[0].output_tokens
    assert two.pause == pytest.approx(max(second.at - first.at - first.duration, 0.0), abs=1e-5)
    done = CliRunner().invoke(app, ["simulate", "--trace", str(folder), "--workers", "2", "--json"])
    assert done.exit_code == 0, done.output


def request(session: str | None, at: float, parent: str | None = None, **more: Any) -> RecordedRequest:
    turn = {"request_id": f"req_{at}", "stop_reason": "end_turn", "prompt_tokens": 100, "output_tokens": 10}
    fields = {"recorded": 1, "at": at, "request_id": f"req_{at}", "surface": "chat", "path": "/v1/chat/completions", "client": "pi"}
    fields |= {"status": 200, "duration": 1.0, "content": "none", "session": session, "parent": parent, "turns": [turn], **more}
    return msgspec.convert(fields, RecordedRequest)


def test_children_wait_for_the_turn_that_started_them() -> None:
    asked = [request("a", 10.0), request("b", 12.0, parent="a"), request("b", 14.0, parent="a"), request("a", 16.0), request(None, 17.0)]
    one, child, again, last, alone = planned([*asked, request("x", 18.0, turns=[]), request("y", 19.0, surface="completions")])
    assert (one.arrival, child.arrival, child.parent, child.parent_turn, child.pause) == (0.0, None, "a", 0, 1.0)
    assert (again.turn, again.pause, last.turn, last.pause, alone.session, alone.arrival) == (1, 1.0, 1, 5.0, "req_17.0", 7.0)


def test_bodies_are_asked_so_that_any_server_can_answer() -> None:
    body = {"model": "x", "input": "hi", "previous_response_id": "resp_1", "background": True, "store": True}
    assert recorded_body(body, "responses", model="m") == {"model": "m", "input": "hi", "store": False, "stream": True}
    chat = recorded_body({"messages": []}, "chat", model="m")
    assert chat == {"messages": [], "model": "m", "stream": True, "stream_options": {"include_usage": True}}


@pytest.mark.parametrize("content", ["hash", "full"])
def test_explain_compares_two_recorded_requests(run_server: Any, settings: Any, folder: Path, content: str) -> None:
    first, second = record(run_server, settings, folder, record_content=content)
    ids = ["--before", first.headers["request-id"], "--after", second.headers["request-id"]]
    base = ["explain", "--recording", str(folder), "--model-path", str(default_model_path()), "--json"]
    named, latest = (CliRunner().invoke(app, [*base, *more]) for more in (ids, ["--session", "s1"]))
    assert named.exit_code == 0, (named.output, named.exception)
    assert json.loads(named.output) == json.loads(latest.output)
    found = json.loads(named.output)
    assert 0 < found["shared_tokens"] <= found["before_tokens"] < found["prompt_tokens"]
    unknown = CliRunner().invoke(app, [*base, "--before", "req_0", "--after", "req_1"])
    assert isinstance(unknown.exception, ConfigError) and "req_0" in unknown.exception.message
    with pytest.raises(ConfigError, match="two requests"):
        two_bodies(folder, None, None, session="other")


def test_a_cut_line_is_passed_over_and_a_wrong_one_is_named(folder: Path) -> None:
    folder.mkdir()
    file = folder / f"requests-{os.getpid()}-000001.jsonl"
    line = msgspec.json.encode(request("a", 1.0))
    file.write_bytes(line + b"\n" + line[:40])
    assert len(read_recording(folder)) == 1
    file.write_bytes(line + b"\n" + b'{"recorded":9}\n')
    with pytest.raises(ConfigError, match="line 2: a recording of version 9"):
        read_recording(folder)
    file.write_bytes(b'{"recorded":1}\n')
    with pytest.raises(ConfigError, match="line 1"):
        read_recording(folder)
    file.unlink()
    with pytest.raises(ConfigError, match="holds no recorded request"):
        read_recording(folder)
