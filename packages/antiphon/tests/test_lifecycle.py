"""`antiphon serve` as a process: start-up text, a stop that lets turns finish, a stop that does not wait, a taken port."""

import contextlib
import json
import queue
import re
import signal
import socket
import subprocess
import sys
import threading

import httpx
import pytest

STARTS_WITHIN = 30
LAUNCH = [sys.executable, "-m", "antiphon", "serve", "--engine", "mock", "--http-port", "0"]


class Process:
    """A started server and what it has written to standard error so far."""

    def __init__(self, *flags):
        self.popen = subprocess.Popen([*LAUNCH, *flags], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.lines = []
        self._arriving = queue.Queue()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self):
        for line in self.popen.stderr:
            self._arriving.put(line)
        self._arriving.put(None)

    def wait_for(self, pattern):
        """The match of a line that has come or will come; fails after a time and at the end of the text."""
        while True:
            line = self._arriving.get(timeout=STARTS_WITHIN)
            assert line is not None, "".join(self.lines)
            self.lines.append(line)
            found = re.search(pattern, line)
            if found:
                return found

    def ended(self, *, within):
        """(exit status, everything on standard error). Raises TimeoutExpired."""
        status = self.popen.wait(within)
        self._reader.join(within)
        while (line := self._arriving.get(timeout=1)) is not None:
            self.lines.append(line)
        return status, "".join(self.lines)

    def close(self):
        self.popen.kill()
        self.popen.wait(10)
        self._reader.join(10)
        self.popen.stdout.close()
        self.popen.stderr.close()


@pytest.fixture
def launch():
    """launch(*flags) -> (Process, URL) of a server that is ready."""
    with contextlib.ExitStack() as stack:

        def start(*flags):
            process = Process(*flags)
            stack.callback(process.close)
            return process, process.wait_for(r"URL\s+(http://\S+)")[1]

        yield start


def paced(count):
    return {"model": "antiphon-mock", "stream": True, "max_tokens": 9000, "messages": [{"role": "user", "content": f"@@REPEAT:{count}@@"}]}


def words(answer, process, *, stop_after):
    """Reads a Messages stream to its end, sends SIGTERM behind the first few words; the events."""
    events = []
    for line in answer.iter_lines():
        if line.startswith("data: "):
            events.append(json.loads(line.removeprefix("data: ")))
            if len([event for event in events if event["type"] == "content_block_delta"]) == stop_after:
                process.popen.send_signal(signal.SIGTERM)
    return events


def test_start_up_text_and_an_idle_stop(launch):
    process, url = launch()
    assert httpx.get(url + "/health").status_code == 200
    process.popen.send_signal(signal.SIGTERM)
    status, text = process.ended(within=5)
    assert status == 0
    assert "Traceback" not in text
    for said in (r"Antiphon is ready", r"Model\s+antiphon-mock", r"Family\s+qwen3_coder \+ qwen3: \w+", r"Context\s+262,144 tokens: \w+"):
        assert re.search(said, text), said
    assert f"curl {url}/v1/messages" in text
    assert "Antiphon has stopped." in text
    assert process.popen.stdout.read() == "", "nothing but requested output belongs on standard output"


def test_a_running_stream_finishes_within_the_grace_time(launch):
    process, url = launch("--mock-token-delay-ms", "10", "--shutdown-grace-seconds", "20")
    with httpx.stream("POST", url + "/v1/messages", json=paced(80), timeout=20) as answer:
        events = words(answer, process, stop_after=5)
    status, text = process.ended(within=5)
    said = "".join(event["delta"]["text"] for event in events if event["type"] == "content_block_delta")
    assert said == " word" * 80
    assert events[-2]["delta"]["stop_reason"] == "end_turn"
    assert events[-1]["type"] == "message_stop"
    assert status == 0
    assert "Traceback" not in text


def test_a_stream_longer_than_the_grace_time_does_not_hold_the_process(launch, tmp_path):
    trace = tmp_path / "tokens.jsonl"
    process, url = launch("--mock-token-delay-ms", "10", "--shutdown-grace-seconds", "1", "--trace-tokens", str(trace))
    with httpx.stream("POST", url + "/v1/messages", json=paced(8000), timeout=20) as answer:
        events = words(answer, process, stop_after=5)
    status, text = process.ended(within=3)
    assert status == 0
    assert "Traceback" not in text
    assert "message_stop" not in [event["type"] for event in events], "a turn that was broken off has no good end"
    assert events[-1]["type"] == "error"
    assert "stopping" in events[-1]["error"]["message"]
    (record,) = [json.loads(line) for line in trace.read_text().splitlines()]
    assert record["finish"] == "cancelled"
    assert 5 <= len(record["output_ids"]) < 8000


def test_a_second_signal_ends_at_once(launch):
    process, url = launch("--mock-token-delay-ms", "10", "--shutdown-grace-seconds", "60")
    with httpx.stream("POST", url + "/v1/messages", json=paced(8000), timeout=20) as answer:
        lines = answer.iter_lines()
        for line in lines:
            if "content_block_delta" in line:
                break
        process.popen.send_signal(signal.SIGTERM)
        process.wait_for("stopping")
        process.popen.send_signal(signal.SIGTERM)
        assert process.popen.wait(5) == -signal.SIGTERM


def run_cli(*flags):
    return subprocess.run([sys.executable, "-m", "antiphon", "serve", *flags], capture_output=True, text=True, timeout=30, check=False)


def test_a_taken_port_is_one_sentence():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = run_cli("--engine", "mock", "--http-port", str(port))
    assert done.returncode == 2
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"antiphon: cannot listen on 127.0.0.1:{port}: ")
    assert "--http-port" in line


def test_two_servers_that_start_at_once_do_not_get_one_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    launch = [sys.executable, "-m", "antiphon", "serve", "--engine", "mock", "--http-port", str(port)]
    started = [subprocess.Popen(launch, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    try:
        first_lines = {popen.stderr.readline(): popen for popen in started}
        ready = [popen for line, popen in first_lines.items() if "Antiphon is ready" in line]
        refused = [popen for line, popen in first_lines.items() if "cannot listen" in line]
        assert (len(ready), len(refused)) == (1, 1), list(first_lines)
        assert refused[0].wait(10) == 2
        ready[0].terminate()
        assert ready[0].wait(10) == 0
    finally:
        for popen in started:
            popen.kill()
            popen.wait(10)
            popen.stderr.close()
