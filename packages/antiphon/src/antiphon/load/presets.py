"""Workloads by name."""

from pathlib import Path

from antiphon.load.lengths import Exponential, LogNormal
from antiphon.load.workload import Children, Closed, Poisson, SessionClass, Workload, read_workload
from antiphon_turns.errors import ConfigError

# A coding agent's session: a long head, many calls with short answers, tool results that are short or a file. The proportions follow
# published traces of such sessions (some forty calls, cache hits around nine tenths, far more read than written).
_CODING = SessionClass(
    heads=4,
    head_tokens=12_000,
    turns=LogNormal(median=20, sigma=0.7, low=2, high=120),
    first_tokens=LogNormal(median=600, sigma=0.8, low=20, high=8000),
    new_tokens=LogNormal(median=500, sigma=1.2, low=20, high=12_000),
    output_tokens=LogNormal(median=120, sigma=0.9, low=8, high=2000),
    pause_seconds=LogNormal(median=1.5, sigma=1.2, low=0.05, high=60),
    children=Children(
        probability=0.03,
        count=LogNormal(median=2, sigma=0.5, low=1, high=6),
        share="head",
        turns=LogNormal(median=6, sigma=0.6, low=1, high=30),
        new_tokens=LogNormal(median=700, sigma=1.1, low=20, high=12_000),
        output_tokens=LogNormal(median=120, sigma=0.8, low=8, high=1500),
    ),
)

# Many small tasks, each a session of its own, as a fleet serves them.
_TASKS = SessionClass(
    heads=12,
    head_tokens=LogNormal(median=9000, sigma=0.4, low=4000, high=20_000),
    turns=LogNormal(median=5, sigma=0.6, low=1, high=30),
    first_tokens=LogNormal(median=800, sigma=0.8, low=40, high=8000),
    new_tokens=LogNormal(median=900, sigma=1.0, low=30, high=12_000),
    output_tokens=LogNormal(median=150, sigma=0.8, low=8, high=1500),
    pause_seconds=LogNormal(median=1.5, sigma=1.0, low=0.05, high=60),
)

_CHAT = SessionClass(
    heads=2,
    head_tokens=400,
    turns=LogNormal(median=4, sigma=0.8, low=1, high=40),
    first_tokens=LogNormal(median=60, sigma=1.0, low=4, high=4000),
    new_tokens=LogNormal(median=40, sigma=1.0, low=4, high=4000),
    output_tokens=LogNormal(median=250, sigma=0.8, low=4, high=2000),
    pause_seconds=Exponential(mean=20, high=180),
)

_BURSTY = SessionClass(
    heads=2,
    head_tokens=8000,
    turns=LogNormal(median=6, sigma=0.5, low=2, high=20),
    first_tokens=LogNormal(median=500, sigma=0.6, low=20, high=4000),
    new_tokens=LogNormal(median=600, sigma=0.8, low=20, high=6000),
    output_tokens=LogNormal(median=150, sigma=0.6, low=8, high=1000),
    pause_seconds=Exponential(mean=1, high=20),
    children=Children(probability=0.35, count=LogNormal(median=6, sigma=0.6, low=2, high=24), share="history", turns=4),
)

# Work that somebody waits for beside work that nobody does.
_INTERACTIVE = SessionClass(
    share=0.2,
    priority=10,
    heads=2,
    head_tokens=4000,
    turns=LogNormal(median=5, sigma=0.5, low=1, high=20),
    new_tokens=LogNormal(median=200, sigma=0.8, low=10, high=2000),
    output_tokens=LogNormal(median=120, sigma=0.6, low=8, high=600),
    pause_seconds=Exponential(mean=4, high=40),
)
_BACKGROUND = SessionClass(
    share=0.8,
    heads=2,
    head_tokens=6000,
    turns=LogNormal(median=8, sigma=0.5, low=1, high=40),
    new_tokens=LogNormal(median=1500, sigma=0.8, low=50, high=12_000),
    output_tokens=LogNormal(median=300, sigma=0.6, low=20, high=1500),
    pause_seconds=0.2,
)

PRESETS: dict[str, Workload] = {
    "coding-agent": Workload(arrivals=Poisson(sessions_per_second=0.5), classes={"coding": _CODING}),
    "coding-tasks": Workload(arrivals=Poisson(sessions_per_second=2), classes={"task": _TASKS}),
    "chat": Workload(arrivals=Poisson(sessions_per_second=2), classes={"chat": _CHAT}, context_tokens=32_000),
    "bursty-subagents": Workload(arrivals=Poisson(sessions_per_second=0.3), classes={"planner": _BURSTY}),
    "mixed-priority": Workload(
        arrivals=Poisson(sessions_per_second=1), classes={"interactive": _INTERACTIVE, "background": _BACKGROUND}
    ),
    # Small enough for a laptop's engine and its context.
    "smoke": Workload(
        arrivals=Closed(sessions=2),
        classes={
            "small": SessionClass(
                head_tokens=200, turns=3, first_tokens=40, new_tokens=30, output_tokens=16, pause_seconds=0.05,
                children=Children(probability=0.3, count=2, turns=1, first_tokens=30, output_tokens=12),
            )
        },
        context_tokens=6000,
    ),
}  # fmt: skip


def workload_of(name: str) -> Workload:
    """A preset, or the workload in a file. Raises ConfigError with the names there are."""
    if name in PRESETS:
        return PRESETS[name]
    if name.endswith(".toml"):
        return read_workload(Path(name))
    raise ConfigError(f"there is no workload {name!r}; take {', '.join(PRESETS)}, or a .toml file")
