"""`antiphon simulate`: options in, tables, JSON and charts out."""

import json
from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest
from typer.testing import CliRunner

from antiphon.cli import app
from antiphon.load.plan import plan
from antiphon.load.presets import PRESETS
from antiphon.load.trace import write_trace
from antiphon.simulation.fleet_figures import FleetFigures
from antiphon.simulation.simulate import growth
from antiphon_turns.errors import ConfigError

FEW = ["--sessions", "6", "--workload", "smoke"]


def test_the_command_compares_modes_and_sizes(tmp_path: Path) -> None:
    plot = tmp_path / "plot.svg"
    done = CliRunner().invoke(app, ["simulate", "--workers", "2", "--workers", "4", *FEW, "--plot", str(plot)])
    assert done.exit_code == 0, done.output
    for word in ("round-robin", "of attainable", "decision us", "from 2 to 4 workers"):
        assert word in done.output
    assert len(ElementTree.fromstring(plot.read_text()).findall("{http://www.w3.org/2000/svg}g")) == 4


def test_classes_are_shown_apart() -> None:
    done = CliRunner().invoke(app, ["simulate", "--workers", "2", "--sessions", "12", "--workload", "mixed-priority", "--mode", "kv"])
    assert done.exit_code == 0 and "interactive" in done.output and "background" in done.output


def test_json_has_every_run_and_the_exact_engine_agrees() -> None:
    found: list[FleetFigures] = []
    for exact in ([], ["--exact"]):
        done = CliRunner().invoke(app, ["simulate", "--workers", "2", "--mode", "round-robin", *FEW, "--json", *exact])
        assert done.exit_code == 0, done.output
        found += msgspec.json.decode(done.output, type=list[FleetFigures])
    counted, exact_ = (one.all for one in found)
    assert counted.requests == exact_.requests > 6 and counted.hit_rate == exact_.hit_rate
    assert counted.ttft_ms.p50 == pytest.approx(exact_.ttft_ms.p50)


def test_a_trace_is_asked_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    trees = list(plan(PRESETS["smoke"], seed=3, sessions=4))
    write_trace(path, (request for tree in trees for request in tree))
    done = CliRunner().invoke(app, ["simulate", "--workers", "2", "--mode", "kv", "--trace", str(path), "--json"])
    assert json.loads(done.output)[0]["classes"][-1]["requests"] == sum(map(len, trees))


@pytest.mark.parametrize(
    ("options", "said"), [(["--mode", "best"], "round-robin"), (["--speed", "none"], "b200"), (["--workload", "w"], "no workload")]
)
def test_options_that_fit_nothing_are_refused(options: list[str], said: str) -> None:
    done = CliRunner().invoke(app, ["simulate", "--workers", "2", *options])
    assert isinstance(done.exception, ConfigError) and said in done.exception.message


def test_growth_needs_two_sizes() -> None:
    done = CliRunner().invoke(app, ["simulate", "--workers", "2", *FEW, "--mode", "kv", "--json"])
    runs = msgspec.json.decode(done.output, type=list[FleetFigures])
    assert growth(runs) == []
    larger = msgspec.structs.replace(runs[0], workers=8, ask_us_p50=2 * runs[0].ask_us_p50)
    (line,) = growth([*runs, larger])
    assert "from 2 to 8 workers" in line and "2.00 times" in line and "3.00 times" in line
