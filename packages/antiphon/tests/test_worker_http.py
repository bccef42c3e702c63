"""A worker's HTTP interface, in vLLM's form, and the process around it."""

import asyncio
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from packages.antiphon.tests.engine_fakes import run
from packages.antiphon.tests.worker_stage import Stage, answer, worker

from antiphon.config import WorkerSettings, flag_of
from antiphon.engines.vllm_wire import ABORT, GENERATE


def body(stage: Stage, text: str, **params: object) -> dict:
    return {"token_ids": list(stage.job(text).prompt_ids), "sampling_params": params}


def client(stage: Stage, **more: object) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=stage.url, timeout=20, **more)


def test_one_body():
    async def scene():
        async with worker() as stage, client(stage) as http:
            expected, _ = await answer(stage.engine, stage.job("@@REPEAT:9@@"))
            found = (await http.post(GENERATE, json=body(stage, "@@REPEAT:9@@", logprobs=0))).json()
            (choice,) = found["choices"]
            assert choice["token_ids"] == expected
            assert choice["finish_reason"] == "stop"
            assert [one["token_id"] for one in choice["logprobs"]["content"]] == expected
            prompt = len(stage.job("@@REPEAT:9@@").prompt_ids)
            assert found["usage"]["prompt_tokens"] == prompt
            assert found["usage"]["completion_tokens"] == len(expected)
            assert found["usage"]["prompt_tokens_details"]["cached_tokens"] == (prompt - 1) // 16 * 16

    run(scene)


def test_the_models_own_end_counts_unless_it_is_ignored():
    async def scene():
        async with worker() as stage, client(stage) as http:
            ids = (await http.post(GENERATE, json=body(stage, "@@REPEAT:3@@"))).json()["choices"][0]["token_ids"]
            assert ids[-1] in stage.model.stop_ids
            cut = (await http.post(GENERATE, json=body(stage, "@@REPEAT:3@@", max_tokens=2))).json()["choices"][0]
            assert (cut["token_ids"], cut["finish_reason"]) == (ids[:2], "length")

    run(scene)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"token_ids": []}, "needs a prompt"),
        ({"token_ids": "text"}, "no request for tokens"),
        ({"token_ids": [99_999_999]}, "does not have"),
        ({"sampling_params": {"max_tokens": 1 << 30}}, "context"),
        ({"sampling_params": {"n": 2}}, "one answer"),
        ({"sampling_params": {"logprobs": 3}}, "sampled tokens only"),
        ({"sampling_params": {"structured_outputs": {"regex": "a"}}}, "grammar"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else None,
)
def test_bad_requests_are_named(change, words):
    async def scene():
        async with worker() as stage, client(stage) as http:
            found = await http.post(GENERATE, json={**body(stage, "x"), **change})
            assert found.status_code == 400
            assert words in found.json()["error"]["message"]
            assert stage.service.running == 0

    run(scene)


def test_an_abort_ends_one_request_by_its_whole_id():
    """Field report 120: `a` is not `ab`."""

    async def scene():
        async with worker(mock_token_delay_ms=5) as stage, client(stage) as http:
            posts = {
                name: asyncio.ensure_future(http.post(GENERATE, json={**body(stage, "@@REPEAT:60@@"), "request_id": name}))
                for name in ("a", "ab")
            }
            while stage.service.running < 2:
                await asyncio.sleep(0.001)
            again = await http.post(GENERATE, json={**body(stage, "x"), "request_id": "a"})
            assert again.status_code == 400
            assert (await http.post(ABORT, json={"request_ids": ["a", "unknown"]})).status_code == 200
            assert (await posts["a"]).json()["error"]["message"] == "the request was aborted"
            assert len((await posts["ab"]).json()["choices"][0]["token_ids"]) == 61
            assert (await http.post(ABORT, json={})).status_code == 400

    run(scene)


@pytest.mark.parametrize("stream", [True, False])
def test_a_failure_of_the_engine_is_told(stream):
    async def scene():
        async with worker(mock_fault="cut-after=2") as stage, client(stage) as http:
            found = await http.post(GENERATE, json={**body(stage, "@@REPEAT:9@@"), "stream": stream})
            assert found.status_code == (200 if stream else 502)
            assert "ended its answer early" in found.text
            assert stage.service.running == 0

    run(scene)


def test_tokens_of_a_text_and_small_metrics():
    async def scene():
        async with worker() as stage, client(stage) as http:
            text = "Hello <|im_end|> there"
            found = (await http.post("/tokenize", json={"prompt": text})).json()
            assert found["tokens"] == stage.model.tokenizer.encode(text, added=True)
            assert found["count"] == len(found["tokens"])
            assert (await http.post("/tokenize", json={})).status_code == 400
            assert "antiphon_worker_running_jobs 0.0" in (await http.get("/metrics")).text
            assert (await http.get("/health")).json() == {"status": "ready", "model": "antiphon-mock", "running_jobs": 0}

    run(scene)


def test_the_engine_decides_health():
    async def scene():
        async with worker(mock_fault="crash-after=1") as stage, client(stage) as http:
            assert (await http.post(GENERATE, json=body(stage, "@@REPEAT:9@@"))).status_code == 502
            assert (await http.get("/live")).status_code == 200
            found = await http.get("/health")
            assert (found.status_code, found.json()["status"]) == (503, "no engine")
            assert (await http.post(GENERATE, json=body(stage, "x"))).status_code == 503

    run(scene)


@pytest.fixture
def process(tmp_path):
    """A worker in a process of its own, with its URL."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ANTIPHON_")}
    command = [sys.executable, "-m", "antiphon", "worker", "--engine", "mock", "--http-port", "0", "--mock-token-delay-ms", "20"]
    log = tmp_path / "log"
    with log.open("wb") as output, subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=output) as child:
        try:
            while not (found := re.search(r"Worker is ready: (\S+)", log.read_text())):
                assert child.poll() is None, log.read_text()
            yield child, found[1]
        finally:
            child.kill()


def test_a_stop_waits_for_what_runs(process):
    child, url = process
    ids = list(range(100, 110))
    with httpx.stream("POST", url + GENERATE, json={"token_ids": ids, "stream": True}, timeout=20) as found:
        lines = found.iter_lines()
        next(lines)
        child.send_signal(signal.SIGTERM)
        rest = "\n".join(lines)
    assert '"finish_reason":"stop"' in rest
    assert rest.rstrip().endswith("[DONE]")
    assert child.wait(20) == 0


def test_the_page_names_every_flag_of_its_own():
    page = (Path(__file__).resolve().parents[3] / "docs/engines.md").read_text("utf-8")
    own = ("http_host", "http_port", "stream_port", "enable_kv_events", "kv_events_port", "kv_replay_port", "worker_key")
    assert [name for name in own if f"`{flag_of(name, WorkerSettings)}`" not in page] == []
