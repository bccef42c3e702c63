"""`antiphon explain`, from a running server and from saved bodies, for people and for programs."""

import json

import pytest
from typer.testing import CliRunner

from antiphon.cli import app, main
from antiphon.engines.default_model import default_model_path

TOOL = {"name": "read", "description": "Reads a file.", "input_schema": {"type": "object", "properties": {"path": {"type": "string"}}}}
SYSTEM = "You are an agent.\nToday's date: 2026-11-{}\nBe brief."


def explain(*arguments, columns=200):
    done = CliRunner(env={"COLUMNS": str(columns), "ANTIPHON_API_KEY": ""}).invoke(
        app, ["explain", *map(str, arguments)], catch_exceptions=False
    )
    assert done.exit_code == 0, done.output
    return done.stdout


def messages_body(day):
    return {
        "model": "m",
        "max_tokens": 9,
        "system": SYSTEM.format(day),
        "tools": [TOOL],
        "messages": [{"role": "user", "content": "hello"}],
    }


def chat_body(day):
    function = {"name": "read", "description": "Reads a file.", "parameters": TOOL["input_schema"]}
    said = [{"role": "system", "content": SYSTEM.format(day)}, {"role": "user", "content": "hello"}]
    return {"model": "m", "messages": said, "tools": [{"type": "function", "function": function}]}


def responses_body(day):
    tool = {"type": "function", "name": "read", "description": "Reads a file.", "parameters": TOOL["input_schema"]}
    return {"model": "m", "instructions": SYSTEM.format(day), "input": "hello", "tools": [tool]}


BODIES = {"messages": messages_body, "chat": chat_body, "responses": responses_body}


def saved(folder, *bodies):
    paths = [folder / f"{number}.json" for number in range(len(bodies))]
    for path, body in zip(paths, bodies, strict=True):
        path.write_text(json.dumps(body))
    return ["--before", paths[0], "--after", paths[1], "--model-path", default_model_path()]


@pytest.mark.parametrize("surface", BODIES)
def test_two_bodies_are_compared(tmp_path, surface):
    make = BODIES[surface]
    found = json.loads(explain(*saved(tmp_path, make(29), make(30)), "--surface", surface, "--json"))
    cause = found["causes"][0]
    assert (cause["code"], cause["message"], cause["line"]) == ("date_line", 0, 2)
    assert 0 < found["shared_tokens"] < found["prompt_tokens"] == sum(part["tokens"] for part in found["parts"])
    assert found["excerpt"]["both"].endswith("2026-11-")
    assert (found["excerpt"]["before"][:2], found["excerpt"]["after"][:2]) == ("29", "30")
    parts = {part["name"]: part["tokens"] for part in found["parts"]}
    assert parts["tools"] > parts["system"] > parts["user"] == 1


def test_a_comparison_is_readable(tmp_path):
    text = explain(*saved(tmp_path, messages_body(29), messages_body(30)))
    assert "message 0 line 2: a line with a date or time changed." in text
    assert "2026-11-29" in text and "2026-11-30" in text
    rows = {line.split()[0]: line.split()[1:] for line in text.splitlines() if len(line.split()) == 3}
    assert {"before", "after", "system", "tools", "opening"} <= rows.keys()
    assert rows["system"][0] > rows["system"][1] > "0"


def test_the_same_body_twice_loses_nothing(tmp_path):
    arguments = saved(tmp_path, messages_body(29), messages_body(29))
    assert "Nothing was lost" in explain(*arguments)
    assert json.loads(explain(*arguments, "--json"))["excerpt"] is None


def test_the_billing_header_is_cut_as_the_server_does(tmp_path):
    def headed(number):
        header = f"x-anthropic-billing-header: cc_version=2.1.{number}.abc; cc_entrypoint=cli;\n"
        return {**messages_body(29), "system": header + SYSTEM}

    arguments = saved(tmp_path, headed(1), headed(2))
    assert "stabilized: strip-anthropic-preamble" in explain(*arguments)
    found = json.loads(explain(*arguments, "--no-strip-anthropic-preamble", "--json"))
    assert [cause["code"] for cause in found["causes"]] == ["billing_header"]


def test_arguments_that_came_back_in_another_spelling(tmp_path):
    def body(arguments):
        call = {"id": "c", "type": "function", "function": {"name": "read", "arguments": arguments}}
        said = [{"role": "user", "content": "x"}, {"role": "assistant", "tool_calls": [call]}]
        return {**chat_body(29), "messages": [*said, {"role": "tool", "tool_call_id": "c", "content": "ok"}]}

    arguments = saved(tmp_path, body('{"path": "a"}'), body('{"path":"a"}'))
    found = json.loads(explain(*arguments, "--surface", "chat", "--tool-call-parser", "hermes", "--json"))
    assert [(cause["code"], cause["message"], cause["block"]) for cause in found["causes"]] == [("arguments_respelled", 1, 0)]


def test_a_running_server_is_asked(serve_mock):
    server = serve_mock([{"when": "", "say": "</think>\n\nHi."}])
    ids = []
    for number, key in enumerate(("local", None, "other")):
        headers = {"x-session-id": f"s{number}", **({"x-api-key": key} if key else {})}
        body = {**messages_body(29), "model": "antiphon-mock"}
        ids.append(server.http.post("/v1/messages", json=body, headers=headers).headers["request-id"])
    report = json.loads(explain("--url", server.url, "--json"))
    assert [row["request_id"] for row in report["requests"]] == ids[:2]
    assert [row["request_id"] for row in json.loads(explain("--url", server.url, "--api-key", "other", "--json"))["requests"]] == ids[2:]
    table = explain("--url", f"{server.url}/v1")
    assert ids[0] in table and ids[1] in table and ids[2] not in table
    one = explain("--url", server.url, "--request", ids[0])
    assert "session: s0" in one and "system" in one and "Nothing was lost" in one
    body = {**messages_body(30), "model": "antiphon-mock"}
    late = server.http.post("/v1/messages", json=body, headers={"x-session-id": "s0", "x-api-key": "local"}).headers["request-id"]
    why = "message 0 line 2: a line with a date or time changed"
    assert any(late in line and why in line for line in explain("--url", server.url).splitlines())
    assert f"{late}: {why}" in explain("--url", server.url, columns=80)
    assert "No request of this key" in explain("--url", server.url, "--session", "nobody")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--before", "a.json"], "belong together"),
        (["--before", "a.json", "--after", "b.json"], "--model-path is missing"),
        (["--before", "a.json", "--after", "b.json", "--model-path", "x"], "cannot read"),
        (["--url", "http://127.0.0.1:9"], "nobody listens"),
    ],
)
def test_what_is_missing_is_said(tmp_path, monkeypatch, capsys, arguments, complaint):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["antiphon", "explain", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert complaint in capsys.readouterr().err


def test_a_body_that_is_refused_is_named(tmp_path, monkeypatch, capsys):
    arguments = saved(tmp_path, messages_body(29), {"model": "m"})
    monkeypatch.setattr("sys.argv", ["antiphon", "explain", *map(str, arguments)])
    with pytest.raises(SystemExit):
        main()
    assert "--after: " in capsys.readouterr().err
