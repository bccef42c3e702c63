"""The kit's own parts: frames, verdicts, steering, selection, reports, and runs over real sockets."""

import asyncio
import base64
import contextlib
import importlib.util
import io
import re
import socket
from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest
from aiohttp import web
from rich.console import Console
from tests.conformance.good_server import MODEL, GoodServer
from tests.conformance.wire import Answer
from typer.testing import CliRunner

from antiphon.cli import app
from antiphon.conformance import command, sayings
from antiphon.conformance.asks import Ask, Request, Scene
from antiphon.conformance.driver import perform
from antiphon.conformance.exchange import Chunk, Exchange, read_frames
from antiphon.conformance.own_server import free_port, own_server
from antiphon.conformance.registry import CHECKS, asks_of, decide, select
from antiphon.conformance.report import Run, as_json, as_junit, list_markdown, show
from antiphon.conformance.run import Target, check_server
from antiphon.conformance.steering import model_text, prompt, script
from antiphon.conformance.verdict import Broken, Check, Unclear, Verdict, checker
from antiphon_turns.errors import ConfigError

ROOT = Path(__file__).resolve().parents[2]
STREAM = b"event: a\ndata: {}\n\n: ping\n\ndata: one\r\ndata: two\r\n\r\ndata: [DONE]"
FRAMES = [("a", "{}"), (None, None), (None, "one\ntwo"), (None, "[DONE]")]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_frames_do_not_depend_on_how_bytes_arrive(size):
    chunks = tuple(Chunk(at / 1000, STREAM[at : at + size]) for at in range(0, len(STREAM), size))
    found = read_frames(chunks)
    assert [(frame.event, frame.data) for frame in found] == FRAMES
    assert [frame.at for frame in found] == sorted(frame.at for frame in found)


def judged(judge) -> Verdict:
    checks: list[Check] = []
    checker(checks)("Z01", "t", why="w", breaks=("c",), asks=("x",))(judge)
    return checks[0].decide({"x": Exchange(ask="x")})


def raising(error: Exception):
    def judge(exchange: Exchange) -> None:
        raise error

    return judge


@pytest.mark.parametrize(
    ("error", "outcome"),
    [(Broken("b"), "fail"), (Unclear("u"), "undecided"), (KeyError("k"), "fail"), (TypeError("t"), "fail"), (AttributeError("a"), "fail")],
    ids=lambda value: str(value),
)
def test_a_verdict_has_its_reason(error, outcome):
    found = judged(raising(error))
    assert found.outcome == outcome
    assert str(error) in found.detail


def test_a_check_without_its_exchanges_is_undecided():
    assert CHECKS[0].decide({}).outcome == "undecided"


def test_a_surface_that_is_not_there_is_undecided():
    checks = select(["R01", "R50", "X01"])

    class NoResponses(GoodServer):
        def answer(self, request: Request) -> Answer:
            gone = request.path.startswith("/v1/responses")
            return Answer(status=404, body={}) if gone else super().answer(request)

    exchanges = asyncio.run(perform(asks_of(checks), Scene(model=MODEL, mode="script"), NoResponses()))
    found = decide(checks, exchanges)
    assert {verdict.outcome for _, verdict in found} == {"undecided"}
    assert all("/v1/responses" in verdict.detail for _, verdict in found)


def test_what_could_not_be_asked_says_why():
    def make(scene: Scene) -> Request:
        raise Unclear("the first turn had no call")

    found = asyncio.run(perform([Ask(name="a", make=make)], Scene(model=MODEL, mode="none"), GoodServer()))
    assert found["a"].status == 0
    assert "the first turn had no call" in found["a"].failure


@pytest.mark.parametrize("saying", sayings.table(20).values(), ids=lambda saying: saying.name)
def test_base64_prompts_carry_the_saying(saying):
    found = re.search(r"@@B64:([A-Za-z0-9_\-=]+)@@", prompt(saying, "b64"))
    order = msgspec.json.decode(base64.urlsafe_b64decode(found[1]))
    assert order["text"] == model_text(saying)
    assert ("delay_ms" in order) == bool(saying.delay_ms)


def test_the_last_order_of_a_prompt_counts():
    rules = [msgspec.json.decode(line) for line in script(sayings.table(20)).splitlines()]
    text = "@@SAY:call@@ and then @@SAY:text@@"
    fitting = [rule["say"] for rule in rules if re.search(rule["when"], text, re.DOTALL)]
    assert fitting == [model_text(sayings.TEXT)]


def test_selection_by_number():
    assert {check.id for check in select(["m2", "K01"])} == {check.id for check in CHECKS if check.id.startswith(("M2", "K01"))}
    with pytest.raises(ConfigError, match="no check has a number"):
        select(["Z"])


RUN = Run(
    url="http://x",
    model="m [bold]",
    mode="none",
    decided=[(CHECKS[0], Verdict("pass")), (CHECKS[1], Verdict("fail", "bad [x] \x1b")), (CHECKS[2], Verdict("undecided", "why"))],
    seconds=1.5,
)


def test_json_report():
    found = msgspec.json.decode(as_json(RUN))
    assert found["counts"] == {"pass": 1, "fail": 1, "undecided": 1}
    assert [check["outcome"] for check in found["checks"]] == ["pass", "fail", "undecided"]
    assert found["checks"][1]["breaks"] == list(CHECKS[1].breaks)


def test_junit_report():
    suite = ElementTree.fromstring(as_junit(RUN))
    assert {key: suite.get(key) for key in ("tests", "failures", "skipped")} == {"tests": "3", "failures": "1", "skipped": "1"}
    assert [[child.tag for child in case] for case in suite] == [[], ["failure"], ["skipped"]]


def test_text_report_says_what_was_wrong_and_who_breaks():
    written = io.StringIO()
    show(RUN, Console(width=200, file=written))
    text = written.getvalue()
    assert "bad [x]" in text
    assert "\x1b" not in text
    assert CHECKS[1].breaks[0] in text
    assert "1 passed, 1 failed, 1 undecided" in text


def test_the_document_lists_the_checks_as_they_are():
    document = (ROOT / "docs/conformance.md").read_text()
    assert list_markdown(CHECKS).strip() in document, "run scripts/conformance_doc.py list"


def test_results_of_several_servers_stand_side_by_side():
    document = script_module("conformance_doc")
    other = msgspec.structs.replace(RUN, decided=[(CHECKS[0], Verdict("pass"))])
    runs = {"A": msgspec.json.decode(as_json(RUN)), "B": msgspec.json.decode(as_json(other))}
    rows = document.results(runs).splitlines()
    assert rows[2:5] == ["| **passed** | 1 | 1 |", "| **failed** | 1 | 0 |", "| **undecided** | 1 | 0 |"]
    assert not [row for row in rows if CHECKS[0].id in row], "what passes everywhere needs no row"
    assert next(row for row in rows if row.startswith(f"| {CHECKS[1].id} ")).endswith("| **fail**: bad [x]   | not run |")


def test_a_part_of_the_document_is_replaced_and_nothing_else():
    document = script_module("conformance_doc")
    text = "a\n<!-- list: x writes this -->\nold\n<!-- end of list -->\nb\n"
    assert document.replaced(text, "list", "new") == "a\n<!-- list: x writes this -->\n\nnew\n\n<!-- end of list -->\nb\n"
    with pytest.raises(ValueError, match="no part"):
        document.replaced(text, "results", "new")


def script_module(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_list_command():
    found = CliRunner().invoke(app, ["check", "--list", "--only", "K"])
    assert found.exit_code == 0
    assert [line[:3] for line in found.output.splitlines()] == [check.id for check in CHECKS if check.id[0] == "K"]


def test_a_server_out_of_reach_is_status_2(capsys):
    assert command.run(command.Options(url=f"http://127.0.0.1:{free_port()}")) == command.OUT_OF_REACH
    assert "cannot be reached" in capsys.readouterr().err


def test_url_and_own_server_are_one_or_the_other():
    for options in (command.Options(), command.Options(url="http://x", own=True)):
        with pytest.raises(ConfigError, match="which server"):
            command.run(options)


@contextlib.asynccontextmanager
async def over_sockets(server: GoodServer, *, breaks: str = ""):
    """The good server behind a real socket; `breaks` names a path whose streams end in the middle."""

    async def handle(request: web.Request) -> web.StreamResponse:
        raw = await request.read()
        try:
            body = msgspec.json.decode(raw) if raw else None
        except msgspec.DecodeError:
            body = raw
        headers = {name.lower(): value for name, value in request.headers.items()}
        answer = server.answer(Request(method=request.method, path=request.path_qs, headers=headers, body=body))
        response = web.StreamResponse(status=answer.status, headers=answer.headers)
        response.enable_chunked_encoding()
        await response.prepare(request)
        for chunk in () if request.method == "HEAD" else answer.chunks():
            await response.write(chunk.data)
            if request.path == breaks:
                request.transport.abort()
                return response
        await response.write_eof()
        return response

    handler = web.Server(handle)
    runner = web.ServerRunner(handler)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}"
    finally:
        await runner.cleanup()


async def checked(server: GoodServer, numbers: list[str], *, breaks: str = "") -> tuple[Run, dict[str, Verdict]]:
    async with over_sockets(server, breaks=breaks) as url:
        run, _ = await check_server(Target(url=url, silence=20), select(numbers))
    return run, {check.id: verdict for check, verdict in run.decided}


def test_a_run_over_sockets_finds_model_and_steering():
    # The clock of these sockets does not pass, so what is judged by time is left out.
    run, found = asyncio.run(
        checked(GoodServer(), ["M0", "M1", "M2", "M6", "R0", "R6", "C0", "C5", "K", "X01", "X02", "X03", "X04", "X05", "X06"])
    )
    assert (run.model, run.mode) == (MODEL, "script")
    assert {number: verdict.detail for number, verdict in found.items() if verdict.outcome == "fail"} == {}
    assert {number for number, verdict in found.items() if verdict.outcome == "undecided"} == {"X06"}


def test_a_broken_line_is_a_finding():
    _, found = asyncio.run(checked(GoodServer(), ["M01", "C01"], breaks="/v1/messages"))
    assert found["M01"].outcome == "fail"
    assert "connection broke" in found["M01"].detail
    assert found["C01"].outcome == "pass"


def test_a_model_that_says_its_own_thing_is_not_steered():
    class Deaf(GoodServer):
        def answer(self, request: Request) -> Answer:
            if isinstance(request.body, dict):
                text = msgspec.json.encode(request.body).replace(b"@@SAY:", b"@@PLAY:")
                request = msgspec.structs.replace(request, body=msgspec.json.decode(text))
            return super().answer(request)

    run, _ = asyncio.run(checked(Deaf(), ["M01"]))
    assert run.mode == "none"


def test_our_own_server_passes_what_has_no_clock():
    async def own() -> Run:
        async with own_server(3.0) as url:
            run, _ = await check_server(Target(url=url, silence=3.0), select(["M0", "M2", "M6", "C0", "K", "X05"]))
            return run

    run = asyncio.run(own())
    assert run.mode == "script"
    assert {check.id: verdict.detail for check, verdict in run.decided if verdict.outcome != "pass"} == {}


def test_our_own_server_that_does_not_start_says_why(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        monkeypatch.setattr("antiphon.conformance.own_server.free_port", lambda: taken.getsockname()[1])

        async def own() -> None:
            async with own_server(3.0):
                pass

        with pytest.raises(ConfigError, match="cannot listen on"):
            asyncio.run(own())
