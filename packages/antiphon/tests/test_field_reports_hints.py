"""Field reports about what a harness tells: sessions that stay together, one sign of priority, and nothing that starves."""

import json
from typing import Any

import pytest
from packages.antiphon.tests.report_harness import both, handed
from packages.antiphon.tests.test_spare_work import overloaded

from antiphon.router.affinity import home_of
from antiphon.router.queue import Waiting, WaitingQueue
from antiphon.simulation.batch import Batch, BatchLimits, Request
from antiphon.simulation.paged_cache import PagedCache
from antiphon.simulation.timing import Timing
from antiphon_protocols import chat, completions, messages, responses
from antiphon_turns import TurnRequest

RIGHT: dict[int, dict[str, Any]] = {
    115: {"distinct_workers": 1},
    159: {"order_same_on_both": True},
    160: {"low_wait_seconds": "<= configured bound"},
}


def right_of(number: int, source: str) -> dict[str, Any]:
    """The right value, ours or the handed one."""
    if source == "own":
        return RIGHT[number]
    rows = handed()
    if not rows:
        pytest.skip("ANTIPHON_SHARED names no folder with cases/field_reports.jsonl")
    found: dict[str, Any] = rows[number]["right_value"]
    return found


def read(surface: str, headers: dict[str, str], **fields: Any) -> TurnRequest:
    """The request of a surface with these headers and fields."""
    said = [{"role": "user", "content": "hi"}]
    bodies: dict[str, dict[str, Any]] = {
        "messages": {"max_tokens": 9, "messages": said},
        "chat": {"messages": said},
        "completions": {"prompt": "hi"},
        "responses": {"input": "hi"},
    }
    body = json.dumps({"model": "m", **bodies[surface], **fields}).encode()
    if surface == "responses":
        return responses.ingest(responses.read(body, headers), open_compaction=lambda text: None).turn
    if surface == "completions":
        return completions.ingest(body, headers).turns[0]
    return messages.ingest(body, headers).turn if surface == "messages" else chat.ingest(body, headers).turn


KEYS: list[tuple[str, dict[str, str], dict[str, Any]]] = [
    ("messages", {"x-claude-code-session-id": "s-1"}, {}),
    ("messages", {}, {"metadata": {"user_id": "user_0_account__session_s-1"}}),
    ("responses", {"session-id": "s-1"}, {}),
    ("responses", {"session_id": "s-1"}, {}),
    ("responses", {}, {"prompt_cache_key": "s-1"}),
    ("chat", {}, {"prompt_cache_key": "s-1"}),
    ("chat", {"x-session-affinity": "s-1"}, {}),
    ("completions", {}, {"nvext": {"session_control": {"session_id": "s-1", "action": "bind"}}}),
]


@both
@pytest.mark.parametrize(("surface", "headers", "fields"), KEYS)
def test_115_the_turns_of_a_session_belong_together(surface: str, headers: dict[str, str], fields: dict[str, Any], source: str) -> None:
    workers = ("one", "two")
    turns = [read(surface, headers, **fields) for _ in range(10)]
    others = [read("messages", {"x-claude-code-session-id": f"other-{number}"}) for number in range(10)]
    homes = {home_of(turn.session or "", workers) for turn in turns}
    assert {turn.session for turn in turns} == {"s-1"}
    assert len(homes) == right_of(115, source)["distinct_workers"]
    assert {home_of(turn.session or "", workers) for turn in others} == set(workers)


@both
@pytest.mark.parametrize("surface", ["messages", "chat", "completions", "responses"])
def test_159_a_higher_priority_goes_first_everywhere(surface: str, source: str) -> None:
    low, high = (read(surface, {}, nvext={"agent_hints": {"priority": priority}}).hints.priority for priority in (0, 10))
    queue = WaitingQueue(9)
    for name, priority in (("low", low), ("high", high)):
        queue.push(Waiting(key=name, arrival=1.0, priority=priority))
    queued = [one.key for one in queue]
    batch = Batch(PagedCache(100, 4, clock=lambda: 0.0), Timing(), BatchLimits(sequences=1))
    names = {batch.add(Request(prompt_ids=[1], output_ids=[2], priority=one)): name for name, one in (("low", low), ("high", high))}
    served = []
    while len(batch):
        served += [names[sampled.key] for sampled in batch.step().sampled]
    assert (queued == served == ["high", "low"]) == right_of(159, source)["order_same_on_both"]


@both
@pytest.mark.parametrize("bound", [5.0, 60.0])
def test_160_a_low_request_waits_no_longer_than_the_bound(bound: float, source: str) -> None:
    assert right_of(160, source)["low_wait_seconds"].startswith("<=")
    waited, served = overloaded(max_wait=bound)
    # It comes at 4 s; a step of one second runs then, and one of its own follows the wait.
    assert waited <= 4 + bound + 2 and served > 3
