"""A run's report as a table, and as charts."""

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table

from antiphon.load.figures import Outcome, Report, Spread
from antiphon.load.svg import Axis, Chart, Points, ecdf


def show_report(console: Console, report: Report) -> None:
    """Prints it."""
    console.print(
        f"{report.url}, {report.surface}: {report.seconds:.1f} s, {report.requests_per_second:.2f} requests/s, "
        f"{report.output_tokens_per_second:.1f} tokens/s",
        highlight=False,
    )
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("class", "priority", "requests", "errors", "cut", "TTFT ms", "ITL ms", "end to end ms", "tokens in", "out", "cached"):
        table.add_column(name, justify="left" if name == "class" else "right", no_wrap=name == "class")
    for one in report.classes:
        table.add_row(
            one.name or "-",
            "" if one.priority is None else str(one.priority),
            f"{one.requests:,}",
            f"{one.errors:,}",
            f"{one.cut:,}",
            *(_spread(values) for values in (one.ttft_ms, one.itl_ms, one.whole_ms)),
            f"{one.prompt_tokens:,}",
            f"{one.output_tokens:,}",
            "-" if one.hit_rate is None else f"{100 * one.hit_rate:.1f} %",
        )
    console.print(table)
    console.print("Times are p50 / p90 / p99. cut: under way when time was up.", style="dim", highlight=False)
    for message, count in sorted(report.errors.items(), key=lambda pair: -pair[1]):
        console.print(f"{count} x {message}", style="red", markup=False, highlight=False)


def charts_of(outcomes: Sequence[Outcome]) -> list[Chart]:
    """How TTFT, ITL and whole times are distributed, by class; and TTFT over the run."""
    good = [one for one in outcomes if not one.error and not one.cut and one.ttft is not None]
    kinds = sorted({one.request.kind for one in good})
    by_kind = {kind or "all": [one for one in good if one.request.kind == kind] for kind in kinds}
    share = Axis(label="share of requests")
    ttft = {name: ecdf([1000 * (one.ttft or 0) for one in found]) for name, found in by_kind.items()}
    gaps = {name: ecdf([1000 * gap for one in found for gap in one.gaps]) for name, found in by_kind.items()}
    whole: dict[str, Points] = {name: ecdf([one.whole for one in found]) for name, found in by_kind.items()}
    over: dict[str, Points] = {
        name: [(one.sent, 1000 * (one.ttft or 0)) for one in sorted(found, key=lambda one: one.sent)] for name, found in by_kind.items()
    }
    return [
        Chart(title="Time to the first token", x=Axis(label="ms", log=True), y=share, lines=ttft),
        Chart(title="Time between tokens", x=Axis(label="ms", log=True), y=Axis(label="share of gaps"), lines=gaps),
        Chart(title="Whole answers", x=Axis(label="s", log=True), y=share, lines=whole),
        Chart(title="Time to the first token over the run", x=Axis(label="sent, s"), y=Axis(label="ms", log=True), lines=over),
    ]


def _spread(values: Spread) -> str:
    cells = [values.p50, values.p90, values.p99]
    return " / ".join("-" if value is None else f"{value:,.0f}" if value >= 100 else f"{value:.3g}" for value in cells)
