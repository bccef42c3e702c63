"""The benchmarks run and give figures. How large the figures are is bench/README.md's business, not a test's."""

from bench.floor import floor_figure, floor_table
from bench.frontend import frontend_figures, frontend_table
from bench.measure import middle, table, this_machine
from bench.parsers import parser_figures, parser_table
from bench.parsers_peers import CUTS, FAMILIES, job, peer_figures, peer_table, verdict
from bench.prompts import SURFACES
from bench.server import MockServer
from bench.ttft import agent_figures, encode_figure, plain_figures, ttft_table
from bench.worker_streams import TRANSPORTS, figure, figures_table, worker


def test_parser_figures_name_family_and_size() -> None:
    figures = parser_figures(sizes=(64, 256), repeats=1)
    assert [(figure.family, figure.characters) for figure in figures] == [
        (family, size) for family in ("hermes", "qwen3_coder") for size in (64, 256)
    ]
    assert all(0 < figure.best <= figure.us_per_delta <= figure.worst for figure in figures)
    assert parser_table(figures).count("\n") == 5


def test_every_family_is_measured_in_both_cuts_and_alone_where_no_peer_is_there() -> None:
    figures = peer_figures(None, sizes=(64,), repeats=1)
    assert [(figure.family, figure.cut) for figure in figures] == [(family, cut) for family in FAMILIES for cut in CUTS]
    assert all(figure.ours > 0 and figure.peers == {} for figure in figures)
    assert peer_table(figures).count("\n") == len(figures) + 1


def test_peers_get_control_tokens_whole_and_their_answers_are_checked() -> None:
    run = job("kimi_k2", "some text", CUTS["4 characters"], parser="kimi_k2", repeats=1)
    assert all(text in run["vocab"] for text, ids in run["deltas"] if text.startswith("<|"))
    assert "".join(text for text, _ in run["deltas"][run["head"] : -run["tail"]]) == "some text"
    assert verdict({"us": [3.0, 1.0, 2.0], "arguments": '{"path": "a.py", "content": "x"}'}, "x") == 2.0
    assert verdict({"us": [1.0], "arguments": '{"path": "a.py", "content": "x'}, "x") == "wrong arguments"
    assert verdict({"error": "ValueError: no"}, "x") == "ValueError: no"


def test_frontend_figures_for_both_surfaces_and_speeds() -> None:
    figures = frontend_figures(streams=(1, 2), repeats=1, paced_repeats=1, full_tokens=4, paced_tokens=4, pace_ms=1)
    assert [(figure.surface, figure.streams, figure.paced) for figure in figures] == [
        (surface, streams, paced) for paced in (False, True) for streams in (1, 2) for surface in SURFACES
    ]
    assert all(figure.us_per_token > 0 and figure.tokens_per_s > 0 for figure in figures)
    assert frontend_table(figures).count("\n") == 9


def test_ttft_figures_know_the_prompt_and_what_was_seen() -> None:
    with MockServer() as server:
        figures = plain_figures(server, sizes=(200,), requests=2) + agent_figures(server, size=6_000, cold=1, warm=2)
    assert [figure.kind for figure in figures] == 2 * ["cold", "same again"] + 2 * ["cold", "same again", "grown"]
    assert all(abs(figure.prompt_tokens - 200) < 40 for figure in figures if figure.shape == "plain")
    assert all(abs(figure.prompt_tokens - 6_000) < 600 for figure in figures if figure.shape == "agent")
    assert all(figure.p50_ms > 0 for figure in figures)
    # The kernel books another process's time now and then only; over one tiny request the books may not have moved.
    assert sum(figure.cpu_ms for figure in figures) > 0
    assert ttft_table(figures).count("\n") == len(figures) + 1


def test_yardsticks_are_taken_on_the_same_machine() -> None:
    floor = floor_figure(streams=2, delay_ms=1, writes=5, repeats=1)
    assert floor.us_per_write > 0
    assert floor_table([floor]).count("paced") == 1
    encode = encode_figure(size=2_000, repeats=1)
    assert encode.prompt_tokens > 1_000
    assert encode.p50_ms > 0
    assert encode.cpu_ms > 0


def test_machine_and_tables_are_readable() -> None:
    machine = this_machine()
    assert machine.cores > 0
    assert machine.python in str(machine)
    assert middle([3.0, 1.0, 2.0]) == 2.0
    assert table(("what", "us"), [("a", 1234.5), ("longer", 0.1234)]) == (
        "| what   |    us |\n|--------|------:|\n| a      | 1,234 |\n| longer | 0.123 |"
    )


def test_tokens_from_a_worker_are_measured_over_both_transports() -> None:
    with worker() as url:
        found = [figure(url, transport, "full", 2, repeats=1, tokens=5) for transport in TRANSPORTS]
    assert [one.transport for one in found] == ["stream", "sse"]
    assert all(one.us_per_token > 0 and one.tokens_a_chunk >= 1 for one in found)
    assert "| stream" in figures_table(found)
