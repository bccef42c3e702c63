"""A vLLM server on the CPU and a frontend in front of it, for the tests of this folder, which run only when it is named."""

import contextlib
import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

START_SECONDS = 300
EVENTS = {"enable_kv_cache_events": True, "publisher": "zmq", "topic": "kv-events"}


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leaves this folder out of a run of the whole suite."""
    named = any("vllm" in Path(argument.split("::")[0]).parts for argument in config.args)
    return None if named else True


def free_port() -> int:
    """A port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def process(command: list[str], environment: dict[str, str], log: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """A child in a group of its own, ended with all it has started."""
    with log.open("w+b") as output:
        child = subprocess.Popen(
            command, env=environment, cwd=log.parent, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )
        try:
            yield child
        finally:
            child.terminate()
            try:
                child.wait(30)
            except subprocess.TimeoutExpired:
                os.killpg(child.pid, 9)
                child.wait()


def wait_for(child: "subprocess.Popen[bytes]", url: str, log: Path) -> None:
    """Until `url` answers with 200."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and child.poll() is None:
        with contextlib.suppress(httpx.HTTPError):
            if httpx.get(url, timeout=5).status_code == 200:
                return
        time.sleep(0.5)
    pytest.fail(f"nothing answers at {url}:\n{log.read_text('utf-8', 'replace')[-3000:]}")


def base_environment() -> dict[str, str]:
    """Without settings of whoever runs this."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("ANTIPHON_", "VLLM_"))}


@pytest.fixture(scope="session")
def vllm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a vLLM server with two sequences at once, so that a queue is easily made."""
    folder = Path(os.environ.get("ANTIPHON_VLLM", ""))
    if not (folder / "stamp").is_file():
        pytest.skip("there is no vLLM; scripts/test_vllm.sh brings one")
    port, events, replay = free_port(), free_port(), free_port()
    endpoints = {"endpoint": f"tcp://*:{events}", "replay_endpoint": f"tcp://*:{replay}"}
    command = [str(folder / "venv/bin/vllm"), "serve", str(folder / "model"), "--served-model-name", "smollm2", "--host", "127.0.0.1"]
    command += ["--port", str(port), "--dtype", "bfloat16", "--max-model-len", "8192", "--max-num-seqs", "2", "--block-size", "32"]
    command += ["--enforce-eager", "--enable-prefix-caching", "--scheduling-policy", "priority", "--enable-prompt-tokens-details"]
    command += ["--enable-scale-out", "--kv-events-config", json.dumps(EVENTS | endpoints)]
    environment = base_environment() | {"HF_HUB_OFFLINE": "1", "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_NO_USAGE_STATS": "1"}
    log = tmp_path_factory.mktemp("vllm") / "vllm.log"
    with process(command, environment, log) as child:
        url = f"http://127.0.0.1:{port}"
        wait_for(child, f"{url}/health", log)
        # The first request waits for the kernels.
        warm = {"token_ids": [1, 2, 3], "sampling_params": {"max_tokens": 2}}
        httpx.post(f"{url}/inference/v1/generate", json=warm, timeout=300).raise_for_status()
        yield url


@pytest.fixture(scope="session")
def frontend(vllm: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a frontend whose only worker is that server."""
    folder = tmp_path_factory.mktemp("frontend")
    command = [sys.executable, "-m", "antiphon", "frontend", "--http-port", "0", "--worker", f"v0={vllm}", "--state-dir", str(folder)]
    log = folder / "log"
    with process(command, base_environment(), log) as child:
        deadline = time.monotonic() + START_SECONDS
        while not (found := re.search(r"URL\s+(http://\S+)", log.read_text("utf-8", "replace"))):
            if child.poll() is not None or time.monotonic() > deadline:
                pytest.fail(f"the frontend did not start:\n{log.read_text('utf-8', 'replace')[-3000:]}")
            time.sleep(0.2)
        wait_for(child, f"{found[1]}/health", log)
        yield found[1]
