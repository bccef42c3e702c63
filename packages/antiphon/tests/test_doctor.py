"""`antiphon doctor`: what it finds on a machine that is well, and on one that is not."""

import asyncio
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from packages.antiphon.tests.worker_stage import worker

from antiphon.config import Settings
from antiphon.doctor.examine import examine, examine_settings
from antiphon.doctor.finding import Finding, failed, line, ok, status, warning
from antiphon.doctor.machine import examine_clock, examine_engine, examine_port, examine_state
from antiphon.doctor.model import NEEDS, examine_context, examine_memory, examine_parsers
from antiphon.engines.default_model import default_model_path
from antiphon.serve import bind, build_model, choice_of

ROOT = Path(__file__).resolve().parents[3]
NOW = 4e9


def found(settings: Settings, now: float = NOW) -> dict[str, Finding]:
    """All findings by what was looked at."""

    async def look() -> dict[str, Finding]:
        return {finding.check: finding async for finding in examine(settings, now=now)}

    return asyncio.run(look())


def test_all_is_well_with_the_mock_engine(tmp_path: Path) -> None:
    findings = found(Settings(engine="mock", http_port=0, state_dir=tmp_path))
    assert {finding.verdict for finding in findings.values()} == {"ok"}, findings
    assert list(findings) == ["settings", "model", "template", "parsers", "context", "engine", "port", "state", "clock"]
    assert list(tmp_path.iterdir()) == [], "nothing is left behind"


def test_the_default_model_is_short_for_agents_and_that_is_said(tmp_path: Path) -> None:
    findings = found(Settings(http_port=0, state_dir=tmp_path))
    assert findings["engine"].verdict == "ok"
    assert findings["engine"].says.startswith("xllamacpp ")
    assert findings["context"].verdict == "warning"
    assert "Claude Code (32,768)" in findings["context"].says
    assert "--context-length" in findings["context"].advice
    assert "memory" in findings
    assert status(list(findings.values())) == 0


def test_a_model_that_is_not_there_or_is_none(tmp_path: Path) -> None:
    gone = found(Settings(engine="mock", model_path=tmp_path / "gone.gguf", http_port=0, state_dir=tmp_path))
    assert gone["model"].verdict == "failed"
    assert "template" not in gone
    assert gone["port"].verdict == "ok", "the rest is looked at all the same"
    (tmp_path / "text.gguf").write_text("no model")
    broken = found(Settings(model_path=tmp_path / "text.gguf", http_port=0, state_dir=tmp_path))
    assert broken["model"].verdict == "failed"
    assert status(list(broken.values())) == 1


def test_settings_that_exclude_each_other_and_an_open_door(tmp_path: Path) -> None:
    findings = list(examine_settings(Settings(engine="mock", http_host="0.0.0.0", tls_key=tmp_path / "k")))
    assert [finding.verdict for finding in findings] == ["failed", "warning", "warning"]
    assert "needs both --tls-certificate and --tls-key" in findings[0].says
    assert findings[1] == warning("settings", "everybody who reaches 0.0.0.0 can use this server", "set api_key, or keys")
    assert findings[2].advice.startswith("set tls_certificate")


def test_a_taken_port() -> None:
    listener = bind(Settings(http_port=0))
    try:
        taken = examine_port(Settings(http_port=listener.getsockname()[1]))
    finally:
        listener.close()
    assert taken.verdict == "failed"
    assert "--http-port" in taken.advice


def test_a_clock_from_before() -> None:
    assert examine_clock(1000.0, written=2000.0).verdict == "failed"
    assert examine_clock(0.0).verdict == "failed"
    assert examine_clock(3000.0, written=2000.0) == ok("clock", "1970-01-01 00:50:00 UTC")


def test_an_engine_that_is_missing_and_one_that_is_elsewhere() -> None:
    missing = examine_engine(Settings(), package="no-such-engine")
    assert (missing.verdict, missing.advice) == ("failed", "pip install no-such-engine, or use --worker")
    assert examine_engine(Settings(worker_urls=["http://x"]), package="no-such-engine").verdict == "ok"
    assert examine_engine(Settings(worker_urls=["http://x"], local_worker=True), package="no-such-engine").verdict == "failed"


def test_a_state_folder_that_cannot_be_and_a_disk_that_is_full(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert examine_state(Settings(state_dir=tmp_path / "file" / "below")).verdict == "failed"
    full = examine_state(Settings(state_dir=tmp_path, store_max_bytes=1 << 60))
    assert full.verdict == "warning"
    assert "--store-max-bytes" in full.advice
    assert examine_state(Settings(state_dir=tmp_path / "new" / "folder")).verdict == "ok"
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(("context", "verdict"), [(1024, "warning"), (16_384, "warning"), (40_960, "ok"), (65_536, "ok")])
def test_the_context_and_the_clients(context: int, verdict: str) -> None:
    finding = examine_context(context)
    assert finding.verdict == verdict
    assert ("tight" in finding.says) == (context == 40_960)


def test_the_clients_needs_are_those_of_the_docs() -> None:
    page = (ROOT / "docs" / "clients" / "README.md").read_text("utf-8")
    for need in NEEDS:
        row = next(row for row in page.splitlines() if row.startswith(f"| {need.client} |"))
        numbers = [int(number) * 1024 for number in re.findall(r"(\d+)K", row.split("|")[5])]
        assert numbers == sorted({need.least, need.better})


def test_a_model_whose_weights_do_not_fit() -> None:
    settings = Settings()
    model = build_model(settings, choice_of(settings))
    assert model.path == default_model_path()
    assert examine_memory(model, settings, memory=1 << 40).verdict == "ok"
    assert examine_memory(model, settings, memory=1 << 20).verdict == "warning"


def test_a_named_parser_is_certain() -> None:
    settings = Settings(tool_call_parser="hermes", reasoning_parser="qwen3")
    finding = examine_parsers(build_model(settings, choice_of(settings)))
    assert (finding.verdict, "named by the operator" in finding.says) == ("ok", True)


def test_workers_are_asked_for_their_cards(tmp_path: Path) -> None:
    async def look() -> list[Finding]:
        async with worker() as stage:
            urls = [f"good={stage.url}", "gone=http://127.0.0.1:9"]
            settings = Settings(engine="mock", http_port=0, state_dir=tmp_path, worker_urls=urls, context_length=4096)
            return [finding async for finding in examine(settings, now=NOW) if finding.check.startswith("worker")]

    good, gone = asyncio.run(look())
    assert good.check == "worker good"
    assert good.verdict in ("ok", "warning")
    assert "mock" in good.says
    assert (gone.check, gone.verdict) == ("worker gone", "failed")
    assert "no worker answers" in gone.says
    assert "curl" in gone.advice


def test_lines_and_status() -> None:
    assert line(ok("port", "free")) == "ok      port           free"
    assert line(failed("port", "taken", "choose")).endswith("taken -> choose")
    assert status([ok("a", ""), warning("b", "", "")]) == 0
    assert status([failed("a", "", ""), ok("b", "")]) == 1


def test_the_command(tmp_path: Path) -> None:
    environment: dict[str, Any] = {**os.environ, "COLUMNS": "200", "NO_COLOR": "1"}

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "antiphon", "doctor", "--engine", "mock", "--http-port", "0", *arguments]
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)

    well = run("--json")
    assert well.returncode == 0, well.stderr
    assert {finding["check"] for finding in json.loads(well.stdout)} >= {"model", "port", "clock"}
    ill = run("--model-path", "gone")
    assert ill.returncode == 1
    assert "failed  model          gone is not there -> give --model-path" in ill.stdout
