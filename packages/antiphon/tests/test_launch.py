"""`antiphon launch`: what each client gets, what is written where, and a client that tells what reached it."""

import json
import os
import socket
import stat
import subprocess
import sys
import tomllib
from pathlib import Path

import msgspec
import pytest

from antiphon.launch.claude import answer_tokens
from antiphon.launch.clients import CLIENTS
from antiphon.launch.plan import ConfigFile, Target, merged
from antiphon.launch.run import Request, launch, print_plan, write
from antiphon.launch.server import find_model
from antiphon_turns.errors import ConfigError

GOLDEN = Path(__file__).parent / "golden_launch"
RULES = [{"when": "", "say": "</think>\n\nHello."}]
FAKE = """#!/bin/sh
env > "$FAKE_OUT/env.txt"
for word in "$@"; do printf '%s\\n' "$word"; done > "$FAKE_OUT/args.txt"
exit 7
"""


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """A program that writes down its variables and arguments, and what it wrote."""
    program = tmp_path / "fake-client"
    program.write_text(FAKE)
    program.chmod(0o755)
    monkeypatch.setenv("FAKE_OUT", str(tmp_path))
    return program


def free_url():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}"


def request(name, tmp_path, **more):
    folder = tmp_path / "state" / "launch" / name
    return Request(**{"client": CLIENTS[name], "url": "http://127.0.0.1:1", "folder": folder, **more})


def seen(tmp_path):
    lines = (tmp_path / "env.txt").read_text().splitlines()
    variables = dict(line.split("=", 1) for line in lines if "=" in line)
    return variables, (tmp_path / "args.txt").read_text().splitlines()


# Goldens: `antiphon launch NAME --print --model org/model --context 65536 --state-dir /state -- -p "hi there"`


@pytest.mark.parametrize("name", sorted(CLIENTS))
def test_the_printed_plan_is_the_golden_one(name, monkeypatch, tmp_path):
    monkeypatch.setattr("antiphon.launch.run.Path.cwd", lambda: Path("/project"))
    said = []
    asked = Request(
        client=CLIENTS[name],
        url="http://127.0.0.1:8000",
        folder=Path("/state/launch") / name,
        model="org/model",
        window=65_536,
        arguments=("-p", "hi there"),
    )
    assert print_plan(asked, said.append) == 0
    assert said == [(GOLDEN / f"{name}.txt").read_text().rstrip("\n")]


@pytest.mark.parametrize("name", sorted(CLIENTS))
def test_the_printed_script_does_by_hand_what_a_launch_does(name, serve_mock, fake, tmp_path):
    server = serve_mock(RULES)
    asked = request(name, tmp_path, url=server.url, program=fake, arguments=("a b", "c"))
    assert launch(asked, lambda _: None) == 7
    by_launch = seen(tmp_path), {path.name: path.read_text() for path in asked.folder.iterdir()}
    said = []
    print_plan(asked, said.append)
    for path in asked.folder.iterdir():
        path.unlink()
    # Libraries of this process may have set variables behind Python's back; both runs get what Python knows.
    assert subprocess.run(["bash", "-c", said[0]], env=dict(os.environ), check=False).returncode == 7
    variables, arguments = seen(tmp_path)
    own = {"_", "SHLVL", "PWD", "OLDPWD", "COLUMNS", "LINES"}
    assert {key: value for key, value in variables.items() if key not in own} == {
        key: value for key, value in by_launch[0][0].items() if key not in own
    }
    assert arguments == by_launch[0][1]
    assert {path.name: path.read_text() for path in asked.folder.iterdir()} == by_launch[1]


def test_every_client_gets_the_server_the_model_and_the_window(serve_mock, fake, tmp_path):
    server = serve_mock(RULES, model_name="org/m", context_length=50_000)
    for name in CLIENTS:
        said = []
        asked = request(name, tmp_path, url=server.url, program=fake, arguments=("x",), key="secret-key")
        assert launch(asked, said.append) == 7
        variables, arguments = seen(tmp_path)
        everything = json.dumps([variables, arguments, [path.read_text() for path in asked.folder.iterdir()]])
        for value in (server.url, "org/m", "50000", "secret-key"):
            assert value in everything, (name, value)
        assert arguments[-1] == "x"
        assert "50,000 tokens" in said[0]
        assert "secret-key" not in "\n".join(said), "the key is not for the screen"


def test_nothing_is_written_outside_the_folder(serve_mock, fake, tmp_path, monkeypatch):
    home = tmp_path / "home"
    work = tmp_path / "project"
    work.mkdir()
    monkeypatch.chdir(work)
    for name, path in (("HOME", home), ("XDG_CONFIG_HOME", home / "c"), ("XDG_STATE_HOME", home / "s")):
        monkeypatch.setenv(name, str(path))
    server = serve_mock(RULES)
    for name in CLIENTS:
        launch(request(name, tmp_path, url=server.url, program=fake), lambda _: None)
    assert not home.exists()
    assert list(work.iterdir()) == []
    for path in (tmp_path / "state").rglob("*"):
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode & 0o077 == 0 or path.is_dir(), f"{path} may hold a key"


def target(**more):
    values = {"url": "http://h", "model": "m", "window": 65_536, "key": "k", "wire": "messages", "folder": Path("/f"), "work": Path("/w")}
    return Target(**{**values, "entry": {}, **more})


@pytest.mark.parametrize(
    ("window", "tokens", "room"),
    [(32_768, 4096, 15_672), (65_536, 8192, 44_344), (131_072, 16_384, 101_688), (262_144, 32_000, 217_144), (4096, 1024, -9928)],
)
def test_claude_code_compacts_where_it_still_has_room_to_work(window, tokens, room):
    """It compacts at the window minus the answer minus 13,000 (measured); its first prompt has 12,000."""
    assert answer_tokens(window) == tokens
    assert window - tokens - 13_000 == room


def test_claude_code_is_told_a_window_its_older_versions_take():
    for window, told in ((99_999, None), (100_000, "100000")):
        plan = CLIENTS["claude"].plan(target(window=window))
        assert plan.environment.get("CLAUDE_CODE_AUTO_COMPACT_WINDOW") == told
        assert plan.environment["CLAUDE_CODE_MAX_CONTEXT_TOKENS"] == str(window)
    assert "reported-context-length" in CLIENTS["claude"].plan(target(model="claude-opus-4-8")).notes[0]


def test_codex_settings_are_toml():
    plan = CLIENTS["codex"].plan(target(model='a "quoted" \\ name'))
    pairs = [word for word in plan.arguments if word != "-c"]
    table = tomllib.loads("\n".join(pairs))
    assert table["model"] == 'a "quoted" \\ name'
    assert table["model_providers"]["antiphon"] == {
        "name": "Antiphon",
        "base_url": "http://h/v1",
        "wire_api": "responses",
        "env_key": "ANTIPHON_API_KEY",
    }


@pytest.mark.parametrize("name", ["opencode", "pi", "openclaw"])
@pytest.mark.parametrize("wire", ["chat", "messages", "responses"])
def test_clients_of_several_wires(name, wire):
    text = "".join(file.text for file in CLIENTS[name].plan(target(wire=wire)).files)
    words = {
        "opencode": {"chat": "openai-compatible", "messages": "@ai-sdk/anthropic", "responses": '"@ai-sdk/openai"'},
        "pi": {"chat": "openai-completions", "messages": "anthropic-messages", "responses": "openai-responses"},
    }
    assert words.get(name, words["pi"])[wire] in text
    sdk_adds_the_version = name == "opencode" or wire != "messages"
    assert ("http://h/v1" in text) is sdk_adds_the_version


def test_a_wire_the_client_lacks_is_refused(serve_mock, fake, tmp_path):
    server = serve_mock(RULES)
    with pytest.raises(ConfigError, match="Codex does not speak chat; it speaks responses"):
        launch(request("codex", tmp_path, url=server.url, program=fake, wire="chat"), lambda _: None)


def test_codex_gets_the_server_s_own_entry(serve_mock, fake, tmp_path):
    server = serve_mock(RULES, profile="house", profiles={"house": {"like": "minimal", "instructions": "Be quick."}})
    asked = request("codex", tmp_path, url=server.url, program=fake)
    launch(asked, lambda _: None)
    (entry,) = json.loads((asked.folder / "models.json").read_text())["models"]
    assert (entry["slug"], entry["base_instructions"]) == ("antiphon-mock", "Be quick.")
    assert entry == server.http.get("/v1/models").json()["models"][0]
    launch(msgspec.structs.replace(asked, model="gpt-5.5", window=9000), lambda _: None)
    (entry,) = json.loads((asked.folder / "models.json").read_text())["models"]
    assert (entry["slug"], entry["context_window"], entry["base_instructions"]) == ("gpt-5.5", 9000, "Be quick.")
    assert set(entry) == set(server.http.get("/v1/models").json()["models"][0]), "nothing of the other vendors' keys"


def test_openclaw_opens_its_chat_where_nothing_is_said(serve_mock, fake, tmp_path):
    server = serve_mock(RULES)
    launch(request("openclaw", tmp_path, url=server.url, program=fake), lambda _: None)
    assert seen(tmp_path)[1] == ["chat"]
    launch(request("openclaw", tmp_path, url=server.url, program=fake, arguments=("agent", "--local")), lambda _: None)
    assert seen(tmp_path)[1] == ["agent", "--local"]


def test_variables_that_lead_elsewhere_are_taken_away(serve_mock, fake, tmp_path, monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "real")
    said = []
    launch(request("claude", tmp_path, url=serve_mock(RULES).url, program=fake), said.append)
    assert "ANTHROPIC_API_KEY" not in seen(tmp_path)[0]
    assert "  unset  ANTHROPIC_API_KEY" in said
    assert os.environ["ANTHROPIC_API_KEY"] == "real"


# Files


def test_files_of_each_mode(tmp_path):
    path = tmp_path / "new" / "a.json"
    cases = [
        ("ours", '{"a": 1}', '{"b": 2}', {"b": 2}),
        ("first", '{"a": 1}', '{"b": 2}', {"a": 1}),
        ("merge", '{"a": {"x": 1, "y": 2}, "k": [1]}', '{"a": {"y": 3}, "k": [2]}', {"a": {"x": 1, "y": 3}, "k": [2]}),
    ]
    for mode, old, new, result in cases:
        write(ConfigFile(path, old))
        write(ConfigFile(path, new, mode))
        assert json.loads(path.read_text()) == result
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [entry.name for entry in path.parent.iterdir()] == ["a.json"]


def test_a_file_that_cannot_be_merged_or_written_is_one_sentence(tmp_path):
    broken = tmp_path / "a.json"
    broken.write_text("{")
    with pytest.raises(ConfigError, match="is no JSON any more"):
        write(ConfigFile(broken, "{}", "merge"))
    assert broken.read_text() == "{"
    with pytest.raises(ConfigError, match="--state-dir"):
        write(ConfigFile(broken / "b.json", "{}"))


def test_merging_replaces_what_is_no_object():
    assert merged({"a": [1], "b": {"c": 1}}, {"a": {"x": 1}, "b": {"d": 2}}) == {"a": {"x": 1}, "b": {"c": 1, "d": 2}}


# The server


def test_a_server_is_started_and_stopped(fake, tmp_path):
    url, said = free_url(), []
    flags = ("--engine", "mock", "--model-name", "started")
    asked = request("pi", tmp_path, url=url, program=fake, serve_flags=flags, arguments=("x",))
    assert launch(asked, said.append) == 7
    assert said[0].startswith(f"No server at {url}: starting one")
    assert "started" in json.loads((asked.folder / "models.json").read_text())["providers"]["antiphon"]["models"][0]["id"]
    assert "Antiphon is ready" in (asked.folder.parent / "server.log").read_text()
    assert find_model(url, "k", None) is None, "it is gone"


def test_a_server_that_does_not_start_says_why(fake, tmp_path):
    with pytest.raises(ConfigError, match=r"(?s)the server did not start.*no metadata profile is called 'nope'"):
        launch(request("pi", tmp_path, url=free_url(), program=fake, serve_flags=("--profile", "nope")), lambda _: None)
    assert not (tmp_path / "env.txt").exists()


def test_flags_for_a_new_server_need_a_new_server(serve_mock, fake, tmp_path):
    with pytest.raises(ConfigError, match=r"answers at .* already.*--engine mock"):
        launch(request("pi", tmp_path, url=serve_mock(RULES).url, program=fake, serve_flags=("--engine", "mock")), lambda _: None)


@pytest.mark.parametrize("url", ["http://192.0.2.1:1", "https://127.0.0.1:1"])
def test_servers_are_started_on_this_machine_only(fake, tmp_path, monkeypatch, url):
    monkeypatch.setattr("antiphon.launch.run.find_model", lambda *_: None)
    with pytest.raises(ConfigError, match="on this machine only"):
        launch(request("pi", tmp_path, url=url, program=fake), lambda _: None)


def test_a_model_the_server_lacks(serve_mock, fake, tmp_path):
    with pytest.raises(ConfigError, match="answers 404: no model 'nope' here"):
        launch(request("pi", tmp_path, url=serve_mock(RULES).url, program=fake, model="nope"), lambda _: None)


def test_a_missing_client_comes_with_the_way_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    for name, client in CLIENTS.items():
        with pytest.raises(ConfigError, match=f"{client.title} is not installed") as refused:
            launch(request(name, tmp_path), lambda _: None)
        assert client.install in refused.value.message
        assert client.install.startswith("npm install")
    with pytest.raises(ConfigError, match="no program that can be run"):
        launch(request("pi", tmp_path, program=tmp_path / "nothing"), lambda _: None)


@pytest.mark.parametrize(("wire", "window"), [("messages", 100_000), ("chat", 40_000), ("responses", 40_000)])
def test_the_window_is_in_the_measure_of_the_wire_s_counts(serve_mock, fake, tmp_path, wire, window):
    server = serve_mock(RULES, context_length=40_000, reported_context_length=100_000)
    asked = request("pi", tmp_path, url=server.url, program=fake, wire=wire)
    launch(asked, lambda _: None)
    (model,) = json.loads((asked.folder / "models.json").read_text())["providers"]["antiphon"]["models"]
    assert model["contextWindow"] == window


def test_a_small_context_is_noted(serve_mock, fake, tmp_path):
    said = []
    launch(request("claude", tmp_path, url=serve_mock(RULES, context_length=8192).url, program=fake), said.append)
    assert any("wants a context of 32,768 tokens" in line for line in said)


# The command line


def run_cli(*arguments, **variables):
    environment = {**os.environ, "COLUMNS": "160", "NO_COLOR": "1", **variables}
    return subprocess.run(
        [sys.executable, "-m", "antiphon", "launch", *arguments], env=environment, capture_output=True, text=True, check=False
    )


def test_the_command_line_cuts_at_the_first_double_dash(fake, serve_mock, tmp_path):
    server = serve_mock(RULES)
    common = ("--url", f"{server.url}/v1/", "--client-path", str(fake), "--state-dir", str(tmp_path / "s"))
    done = run_cli("pi", *common, "--", "--url", "x", "--", "-p", "--help")
    assert (done.returncode, done.stdout) == (7, "")
    assert "context 262,144 tokens" in done.stderr
    assert seen(tmp_path)[1] == ["--url", "x", "--", "-p", "--help"]
    refused = run_cli("pi", *common, "--engine", "mock", "--no-vendor-aliases", "--", "x")
    assert refused.returncode == 2
    assert "make no sense: --engine mock --no-vendor-aliases" in refused.stderr


def test_help_and_print(tmp_path):
    text = run_cli("--help").stdout
    for word in ("claude", "codex", "opencode", "openclaw", "pi", "--print", "--client-path", "antiphon launch claude -- -p"):
        assert word in text
    done = run_cli("codex", "--print", "--model", "m", "--context", "8192", "--state-dir", str(tmp_path))
    assert done.returncode == 0
    assert "codex -c" in done.stdout
    assert list(tmp_path.iterdir()) == []
    nobody = run_cli("codex", "--print", "--url", free_url(), "--state-dir", str(tmp_path))
    assert nobody.returncode == 2
    assert "give both --model and --context" in nobody.stderr
