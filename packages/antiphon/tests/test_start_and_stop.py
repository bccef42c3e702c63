"""The edges of a server's life: what start refuses, and what a stop says to clients that are still waiting."""

import os
import re
import subprocess
import sys
import threading

import httpx
import pytest

from antiphon.config import Settings, flag_of, is_file_only
from antiphon.serve import bind, build
from antiphon.trace import TokenTrace
from antiphon_turns.errors import ConfigError

LONG = {"model": "antiphon-mock", "max_tokens": 5000, "messages": [{"role": "user", "content": "@@REPEAT:4000@@"}]}


def test_a_port_is_taken_before_its_server_has_loaded():
    first = bind(Settings(http_port=0))
    try:
        with pytest.raises(ConfigError, match="cannot listen"):
            bind(Settings(http_port=first.getsockname()[1]))
    finally:
        first.close()


def test_a_missing_model_is_named_as_missing(tmp_path):
    with pytest.raises(ConfigError, match=r"gone\.gguf does not exist"):
        build(Settings(model_path=tmp_path / "gone.gguf"))


@pytest.mark.parametrize("columns", ["80", "200"])
def test_help_spells_every_flag(columns):
    environment = {**os.environ, "COLUMNS": columns, "NO_COLOR": "1"}
    shown = subprocess.run([sys.executable, "-m", "antiphon", "serve", "--help"], env=environment, capture_output=True, text=True)
    assert shown.returncode == 0
    flags = {flag_of(name) for name in Settings.__struct_fields__ if not is_file_only(name)}
    assert flags <= set(re.findall(r"--[a-z-]+", shown.stdout))


def test_a_trace_that_cannot_be_written_is_a_sentence(tmp_path):
    with pytest.raises(ConfigError, match="cannot write the token trace"):
        TokenTrace(tmp_path / "no" / "folder.jsonl")


@pytest.mark.parametrize(("path", "marker"), [("/v1/messages", "event: error"), ("/v1/chat/completions", '"error":')])
def test_a_stream_cut_by_the_stop_ends_with_an_error(serve_mock, caplog, path, marker):
    server = serve_mock(mock_token_delay_ms=20)
    with httpx.stream("POST", server.url + path, json={**LONG, "stream": True}, timeout=20) as answer:
        lines = answer.iter_lines()
        next(lines)
        server.stop()
        rest = "\n".join(lines)
    assert marker in rest
    assert "stopping" in rest
    assert "message_stop" not in rest
    assert "[DONE]" not in rest
    assert server.traced()[-1]["finish"] == "cancelled"
    assert not [record for record in caplog.records if record.exc_info]


def test_a_body_cut_by_the_stop_is_a_503(serve_mock):
    server = serve_mock(mock_token_delay_ms=20)
    answers = []
    waiting = threading.Thread(target=lambda: answers.append(httpx.post(server.url + "/v1/messages", json=LONG, timeout=20)))
    waiting.start()
    while not server.running_turns():
        pass
    server.stop()
    waiting.join(20)
    assert answers[0].status_code == 503
    assert answers[0].json()["type"] == "error"
    assert int(answers[0].headers["retry-after"]) >= 1


def test_a_turn_that_fits_the_grace_time_ends_as_usual(serve_mock):
    server = serve_mock(mock_token_delay_ms=20)
    body = {**LONG, "stream": True, "messages": [{"role": "user", "content": "@@REPEAT:10@@"}]}
    with httpx.stream("POST", server.url + "/v1/messages", json=body, timeout=20) as answer:
        lines = answer.iter_lines()
        next(lines)
        server.stop()
        assert "message_stop" in "\n".join(lines)
