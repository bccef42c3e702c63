"""The load generator: what it asks, what it reads, what it reports; against our own server on loopback."""

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import aiohttp
import pytest
from typer.testing import CliRunner

from antiphon.cli import app
from antiphon.config import Settings
from antiphon.load.answers import READERS, Answer, ChatReader, EventLines, MessagesReader, ResponsesReader, SurfaceName
from antiphon.load.dialogue import Dialogue
from antiphon.load.figures import Outcome, quantile, report_of, spread
from antiphon.load.plan import plan
from antiphon.load.presets import PRESETS
from antiphon.load.run import Bounds, Run, Target, first_model
from antiphon.load.show import charts_of
from antiphon.load.svg import Axis, Chart, ecdf, page
from antiphon.load.trace import PlannedRequest, read_trace, trees_of
from antiphon_turns.errors import ConfigError

SURFACES: tuple[SurfaceName, ...] = ("messages", "chat", "responses")
Start = Callable[[Settings], Any]


@pytest.fixture(scope="module")
def url(run_server: Start) -> Iterator[str]:
    with run_server(Settings(engine="mock", http_port=0)) as running:
        yield running.url


def ask(url: str, surface: SurfaceName, trees: Any, **more: Any) -> list[Outcome]:
    bounds = {"requests": 100, "seconds": 60.0, "at_once": 8, "places": 2, **more}

    async def go() -> list[Outcome]:
        async with aiohttp.ClientSession() as session:
            model = await first_model(session, url, "k")
            target = Target(url=url, surface=surface, model=model, api_key="k", lengths="mock")
            return await Run(session, target, trees, Bounds(**bounds)).go()

    return asyncio.run(go())


@pytest.mark.parametrize("surface", SURFACES)
def test_every_planned_request_is_answered_and_counted(url: str, surface: SurfaceName) -> None:
    trees = list(plan(PRESETS["smoke"], seed=SURFACES.index(surface), sessions=4))
    outcomes = ask(url, surface, trees)
    assert [one.error for one in outcomes] == [""] * len(outcomes)
    assert len(outcomes) == sum(map(len, trees))
    assert all(one.ttft is not None and 0 < one.ttft <= one.whole for one in outcomes)
    # The order to the mock engine is exact on surfaces without reasoning of their own.
    assert all((one.output_tokens or 0) >= one.request.output_tokens for one in outcomes)
    later = [one for one in outcomes if one.request.turn == 2]
    assert all((one.cached_tokens or 0) > 0.6 * (one.prompt_tokens or 1) for one in later), "histories grow by the real answers"
    report = report_of(outcomes, url=url, surface=surface)
    assert report.classes[-1].requests == len(outcomes) and report.classes[-1].errors == 0
    assert 0.3 < (report.classes[-1].hit_rate or 0) < 1


def test_never_more_than_asked_for(url: str) -> None:
    trees = list(plan(PRESETS["smoke"], seed=9, sessions=50))
    assert len(ask(url, "chat", trees, requests=7)) == 7


def test_what_is_under_way_when_time_is_up_is_cut(run_server: Start) -> None:
    with run_server(Settings(engine="mock", http_port=0, mock_token_delay_ms=200)) as running:
        outcomes = ask(running.url, "messages", trees_of([planned("a", output_tokens=200)]), seconds=0.7)
    assert [one.cut for one in outcomes] == [True]
    assert report_of(outcomes, url="", surface="").classes[-1].cut == 1


def test_errors_are_told_and_end_their_session(run_server: Start) -> None:
    with run_server(Settings(engine="mock", http_port=0, api_key="another")) as running:

        async def go() -> list[Outcome]:
            async with aiohttp.ClientSession() as session:
                with pytest.raises(ConfigError, match="names no model"):
                    await first_model(session, running.url, "k")
                target = Target(url=running.url, surface="chat", model="m", api_key="k", lengths="limit")
                trees = trees_of([planned("a"), planned("a", turn=1)])
                return await Run(session, target, trees, Bounds(requests=9, seconds=20, at_once=1, places=1)).go()

        outcomes = asyncio.run(go())
    assert len(outcomes) == 1 and outcomes[0].error.startswith("status 401")


def test_nobody_there_is_said() -> None:
    async def go() -> None:
        async with aiohttp.ClientSession() as session:
            await first_model(session, "http://127.0.0.1:9", "k")

    with pytest.raises(ConfigError, match="nobody answers"):
        asyncio.run(go())


def planned(session: str, turn: int = 0, **more: Any) -> PlannedRequest:
    return PlannedRequest(session=session, turn=turn, **{"new_tokens": 10, "output_tokens": 5, "head_tokens": 50, **more})


def test_the_command_reports_records_and_plots(url: str, tmp_path: Path) -> None:
    trace, plot = tmp_path / "trace.jsonl", tmp_path / "plot.svg"
    options = ["bench", url, "--sessions", "2", "--lengths", "mock", "--json", "--record", str(trace), "--plot", str(plot)]
    done = CliRunner().invoke(app, options)
    assert done.exit_code == 0, done.output
    report = json.loads(done.output)
    assert len(read_trace(trace)) == 2
    assert ElementTree.fromstring(plot.read_text()).tag.endswith("svg")
    again = CliRunner().invoke(app, ["bench", url, "--trace", str(trace), "--lengths", "mock"])
    assert again.exit_code == 0 and f"{report['classes'][-1]['requests']}" in again.output
    refused = CliRunner().invoke(app, ["bench", url, "--trace", str(trace), "--record", str(trace)])
    assert isinstance(refused.exception, ConfigError)


def test_the_command_prints_a_plan_without_asking() -> None:
    done = CliRunner().invoke(app, ["bench", "http://127.0.0.1:9", "--workload", "chat", "--sessions", "3", "--plan"])
    assert done.exit_code == 0
    assert {json.loads(line)["session"] for line in done.output.splitlines()} == {"s0", "s1", "s2"}


def test_answers_with_calls_get_results(url: str) -> None:
    for surface in SURFACES:
        dialogue = Dialogue(planned("a", head_tokens=600), surface=surface, model="m", lengths="limit")
        dialogue.ask(planned("a", text="first"))
        dialogue.answered(Answer(history=[{"role": "assistant", "content": "x"}], calls=["c1", "c2"]))
        call = dialogue.ask(planned("a", turn=1, text="the result", priority=3, final=True))
        body = json.loads(call.body)
        told = json.dumps(body)
        assert told.count("c1") == told.count("c2") == 1 and "the result" in told and body["tools"]
        assert body["nvext"]["agent_hints"] == {"priority": 3, "strict_priority": 0, "osl": 5}
        assert call.headers["x-dynamo-session-id"] == "a" and call.headers["x-dynamo-session-final"] == "true"


def test_children_share_what_they_are_said_to() -> None:
    parent = Dialogue(planned("a"), surface="chat", model="m", lengths="ignore-eos")
    parent.ask(planned("a", text="first"))
    parent.answered(Answer(history=[{"role": "assistant", "content": "answer"}]))
    child = planned("b", parent="a", text="go")
    whole = json.loads(Dialogue(child, surface="chat", model="m", lengths="limit", parent=parent).ask(child).body)
    assert [message["content"] for message in whole["messages"][1:]] == ["first", "answer", "go"]
    headed = planned("b", parent="a", share="head", text="go")
    alone = Dialogue(headed, surface="chat", model="m", lengths="limit", parent=parent).ask(headed)
    assert [message["content"] for message in json.loads(alone.body)["messages"][1:]] == ["go"]
    assert alone.headers["x-dynamo-parent-session-id"] == "a"
    parent.answered(Answer())
    assert parent.messages[-1]["content"] == "(nothing)"


def read(surface: SurfaceName, events: list[dict[str, Any]]) -> Answer:
    reader, lines = READERS[surface](), EventLines()
    stream = b": hello\n\n" + b"".join(b"event: x\ndata: %b\n\n" % json.dumps(event).encode() for event in events) + b"data: [DONE]\n\n"
    for at in range(0, len(stream), 7):
        for event in lines.feed(stream[at : at + 7]):
            reader.event(event, float(at))
    return reader.done()


def test_messages_are_read_with_thoughts_calls_and_usage() -> None:
    found = read(
        "messages",
        [
            {"type": "message_start", "message": {"usage": {"input_tokens": 5, "cache_read_input_tokens": 20, "output_tokens": 0}}},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": ""}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "hm"}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "s"}},
            {"type": "content_block_start", "index": 1, "content_block": {"type": "tool_use", "id": "c", "name": "t", "input": {}}},
            {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": '{"a": 1}'}},
            {"type": "message_delta", "usage": {"output_tokens": 9}},
            {"type": "message_stop"},
        ],
    )
    thought = {"type": "thinking", "thinking": "hm", "signature": "s"}
    assert found.history == [{"role": "assistant", "content": [thought, {"type": "tool_use", "id": "c", "name": "t", "input": {"a": 1}}]}]
    assert (found.prompt_tokens, found.cached_tokens, found.output_tokens, found.calls, found.ended) == (25, 20, 9, ["c"], True)
    assert len(found.deltas) == 3


def test_chat_is_read_with_calls_and_usage() -> None:
    call = {"index": 0, "id": "c", "function": {"name": "t", "arguments": "{"}}
    found = read(
        "chat",
        [
            {"choices": [{"delta": {"role": "assistant"}}]},
            {"choices": [{"delta": {"content": "a"}}]},
            {"choices": [{"delta": {"tool_calls": [call]}}]},
            {"choices": [{"delta": {"tool_calls": [{"index": 0, "function": {"arguments": "}"}}]}, "finish_reason": "tool_calls"}]},
            {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 4}}},
        ],
    )
    assert found.history[0]["tool_calls"] == [{"id": "c", "type": "function", "function": {"name": "t", "arguments": "{}"}}]
    assert (found.prompt_tokens, found.cached_tokens, found.output_tokens, found.calls) == (7, 4, 3, ["c"])
    assert len(found.deltas) == 3 and found.ended


def test_errors_in_streams_are_read() -> None:
    assert read("messages", [{"type": "error", "error": {"message": "no"}}]).error == "no"
    assert read("chat", [{"error": {"message": "no"}}]).error == "no"
    assert read("responses", [{"type": "response.failed", "response": {"error": {"message": "no"}}}]).error == "no"
    assert not read("responses", [{"type": "response.created"}]).ended
    assert isinstance(READERS["messages"](), MessagesReader) and READERS["chat"] is ChatReader and READERS["responses"] is ResponsesReader


def test_figures_are_by_class_and_priority() -> None:
    outcomes = [
        Outcome(
            request=planned("a", kind="x", priority=1), sent=0, ttft=0.1, whole=1.0, prompt_tokens=10, cached_tokens=5, output_tokens=4
        ),
        Outcome(request=planned("b", kind="y"), sent=1, ttft=0.3, whole=1.0, gaps=[0.1, 0.2], output_tokens=4),
        Outcome(request=planned("c", kind="y"), sent=1, whole=0.5, error="no"),
    ]
    report = report_of(outcomes, url="u", surface="chat")
    rows = [(one.name, one.priority, one.requests, one.errors) for one in report.classes]
    assert rows == [("x", 1, 1, 0), ("y", 0, 2, 1), ("all", None, 3, 1)]
    assert report.classes[0].hit_rate == 0.5 and report.classes[1].hit_rate is None
    assert report.classes[1].itl_ms.p99 == 200 and report.classes[1].ttft_ms.p50 == 300
    assert report.seconds == 2.0 and report.errors == {"no": 1}
    assert quantile([], 0.5) is None and spread([]).mean is None
    ElementTree.fromstring(page(charts_of(outcomes)))


def test_charts_are_xml_whatever_the_points() -> None:
    charts = [
        Chart(
            title="<a & b>", x=Axis(label="x", log=True), y=Axis(label="y"), lines={"<n>": [(0.0, 1.0), (10.0, 2.0), (1e6, float("inf"))]}
        ),
        Chart(title="none", x=Axis(label="x"), y=Axis(label="y", log=True), lines={}),
        Chart(title="one", x=Axis(label="x", log=True), y=Axis(label="y", log=True), lines={"n": [(5.0, 5.0)]}),
        Chart(title="flat", x=Axis(label="x"), y=Axis(label="y"), lines={str(number): [(0.0, 0.0), (1.0, 0.0)] for number in range(20)}),
    ]
    root = ElementTree.fromstring(page(charts))
    assert len(root.findall("{http://www.w3.org/2000/svg}g")) == 4
    assert "prefers-color-scheme: dark" in page(charts)
    assert [y for _, y in ecdf([3.0, 1.0])] == [0.5, 1.0] and len(ecdf([float(at) for at in range(5000)])) <= 400
