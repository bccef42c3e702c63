"""From a client's words to the engine's job, and back: hints, sessions, retention and salt on every surface; refusals in each surface's
own form; and who served a turn, told to those who ask."""

import json

import msgspec
import pytest
from websockets.sync.client import connect

from antiphon.config import Settings
from antiphon.engines.base import Placement
from antiphon.tenant import tenant_of
from antiphon_turns import RoutingWish

MODEL = "antiphon-mock"
HI = [{"role": "user", "content": "hi"}]
BODIES = {
    "/v1/messages": {"model": MODEL, "max_tokens": 20, "messages": HI},
    "/v1/chat/completions": {"model": MODEL, "messages": HI},
    "/v1/completions": {"model": MODEL, "prompt": "hi"},
    "/v1/responses": {"model": MODEL, "input": "hi"},
}
SOCKET = "WebSocket"
PLACES = [*BODIES, SOCKET]


def ask(server, place, *, headers=None, **fields):
    """(status, the whole answer)."""
    headers = headers or {}
    if place == SOCKET:
        url = server.url.replace("http", "ws", 1) + "/v1/responses"
        with connect(url, additional_headers=headers, proxy=None) as socket:
            socket.send(json.dumps({"type": "response.create", **BODIES["/v1/responses"], **fields}))
            while True:
                event = json.loads(socket.recv(20))
                if event["type"] in ("response.completed", "response.failed", "error"):
                    return event.get("status", 200), event.get("response", event)
    answer = server.http.post(place, json={**BODIES[place], **fields}, headers=headers)
    return answer.status_code, answer.json()


@pytest.fixture
def watched(serve_mock, monkeypatch):
    """watched(**settings) -> (a server, the jobs that its engine gets)."""

    def start(**settings):
        server = serve_mock([{"when": "", "say": "Hi."}], **settings)
        seen = []
        generate = server.pipeline.engine.generate

        def noted(job):
            seen.append(job)
            return generate(job)

        monkeypatch.setattr(server.pipeline.engine, "generate", noted)
        return server, seen

    return start


NVEXT = {
    "agent_hints": {"priority": 4, "strict_priority": 1, "latency_sensitivity": 2.5, "osl": 70},
    "session_control": {"session_id": "mine", "action": "bind"},
    "cache_control": {"ttl": "10m"},
    "decode_worker_id": "gpu-3",
    "dp_rank": 1,
    "router_mode": "least-loaded",
}


@pytest.mark.parametrize("place", PLACES)
def test_what_a_client_says_reaches_the_job(watched, place):
    server, seen = watched()
    status, _ = ask(server, place, nvext=NVEXT, headers={"x-parent-session-id": "parent"})
    assert status == 200
    (job,) = seen
    assert (job.priority, job.retain_seconds, job.cache_salt, job.prefill_only) == (4, 600, "", False)
    wish = RoutingWish(mode="least-loaded", worker="gpu-3", rank=1)
    assert job.placement == Placement(session="mine", parent="parent", strict_priority=1, head_start=2.5, osl=70, wish=wish)


@pytest.mark.parametrize("place", PLACES)
def test_headers_win_and_the_last_turn_keeps_nothing(watched, place):
    server, seen = watched()
    headers = {
        "x-dynamo-session-id": "D",
        "x-dynamo-session-final": "true",
        "x-dynamo-request-priority": "-2",
        "x-worker-instance-id": "cpu",
        "x-dp-rank": "0",
        "x-antiphon-router-mode": "kv",
    }
    assert ask(server, place, nvext=NVEXT, headers=headers)[0] == 200
    (job,) = seen
    assert (job.priority, job.retain_seconds) == (-2, 0)
    place_of = job.placement
    assert (place_of.session, place_of.session_ends, place_of.wish) == ("D", True, RoutingWish(mode="kv", worker="cpu", rank=0))


def test_equal_sessions_of_two_tenants_are_two(watched):
    server, seen = watched()
    for key in ("one", "two"):
        ask(server, "/v1/messages", nvext=NVEXT, headers={"x-api-key": key, "x-parent-session-id": "parent"})
    tenants = [tenant_of({"x-api-key": key}) for key in ("one", "two")]
    assert [job.placement.session for job in seen] == [f"{tenant}/mine" for tenant in tenants]
    assert [job.placement.parent for job in seen] == [f"{tenant}/parent" for tenant in tenants]


@pytest.mark.parametrize(("bound", "seconds"), [(3600.0, 3600), (60.0, 60), (0.0, 0)])
def test_wishes_to_keep_a_prompt_are_bounded(watched, bound, seconds):
    server, seen = watched(max_retain_seconds=bound)
    ask(server, "/v1/chat/completions", prompt_cache_retention="24h")
    ask(server, "/v1/messages", nvext={"cache_control": {"pin": True}})
    assert [job.retain_seconds for job in seen] == [seconds, seconds]


@pytest.mark.parametrize(("scope", "shared"), [("shared", True), ("tenant", False)])
def test_who_shares_a_prefix(watched, scope, shared):
    server, seen = watched(cache_scope=scope)
    cached, expected = [], []
    for key in ("one", "two", "one"):
        body = {**BODIES["/v1/messages"], "system": "many words " * 100}
        answer = server.http.post("/v1/messages", json=body, headers={"authorization": f"Bearer {key}"})
        cached.append(answer.json()["usage"]["cache_read_input_tokens"])
        note = dict(part.split("=") for part in answer.headers["x-antiphon-cache"].split()[:3])
        expected.append(int(note["expected"]))
    assert cached[0] == 0 and (cached[1] > 150) == shared and cached[2] > 150
    assert expected[0] == 0 and expected[2] >= cached[2]
    assert expected[1] <= cached[1]
    salts = [job.cache_salt for job in seen]
    assert salts == (["", "", ""] if shared else [tenant_of({"authorization": f"Bearer {key}"}) for key in ("one", "two", "one")])


BAD = [
    ({}, {"agent_hints": {"priority": "high"}}, "nvext.agent_hints.priority"),
    ({}, {"agent_hints": {"priority": 1 << 40}}, "nvext.agent_hints.priority"),
    ({}, {"agent_hints": {"strict_priority": -1}}, "nvext.agent_hints.strict_priority"),
    ({}, {"agent_hints": {"latency_sensitivity": -1}}, "nvext.agent_hints.latency_sensitivity"),
    ({}, {"agent_hints": {"osl": "long"}}, "nvext.agent_hints.osl"),
    ({}, {"agent_hints": {"speculative_prefill": 1}}, "nvext.agent_hints.speculative_prefill"),
    ({}, {"session_control": {"action": "open"}}, "nvext.session_control.session_id"),
    ({}, {"session_control": {"session_id": "s", "action": "stop"}}, "nvext.session_control.action"),
    ({}, {"cache_control": {"ttl": "soon"}}, "nvext.cache_control.ttl"),
    ({}, {"dp_rank": -1}, "nvext.dp_rank"),
    ({}, {"router_mode": "best"}, "nvext.router_mode"),
    ({"x-dynamo-request-priority": "1.5"}, {}, "x-dynamo-request-priority"),
    ({"x-antiphon-router-mode": "best"}, {}, "x-antiphon-router-mode"),
    ({"x-dp-rank": "first"}, {}, "x-dp-rank"),
    ({"x-dynamo-session-final": "perhaps"}, {}, "x-dynamo-session-final"),
]


@pytest.fixture(scope="module")
def plain(run_server):
    with run_server(Settings(engine="mock", http_port=0)) as server:
        yield server


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(("headers", "nvext", "path"), BAD)
def test_refusals_name_the_field_in_the_surfaces_own_form(plain, place, headers, nvext, path):
    status, answer = ask(plain, place, nvext=nvext, headers=headers)
    assert status == 400
    error = answer["error"]
    assert error["type"] == "invalid_request_error" and error["message"].startswith(f"{path}: ")
    if place == "/v1/messages":
        assert answer["type"] == "error"
    else:
        assert error["param"] == path


def told(answer):
    """What an answer says of its serving."""
    return answer["nvext"]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("names", [("w1",), ("w1", "w2"), ("w1", "w2", "w1")])
def test_who_served_a_turn_and_how_often_it_moved(serve_mock, monkeypatch, place, names):
    server = serve_mock([{"when": "", "say": "one two three four five six"}])
    engine = server.pipeline.engine
    generate = engine.generate

    async def moved(job):
        workers = list(names)
        async for chunk in generate(job):
            yield msgspec.structs.replace(chunk, worker=workers.pop(0) if workers else None)

    monkeypatch.setattr(engine, "generate", moved)
    _, answer = ask(server, place, nvext={"extra_fields": ["worker"]})
    wanted = {"worker": names[-1]}
    if len(names) > 1:
        wanted["migrations"] = len(names) - 1
    assert told(answer) == wanted
    if place != SOCKET:
        lines = server.http.post(place, json={**BODIES[place], "stream": True, "nvext": {"extra_fields": ["worker"]}}).text.splitlines()
        data = [json.loads(line[6:]) for line in lines if line.startswith("data: {")]
        notes = [event.get("nvext") or event.get("response", {}).get("nvext") for event in data]
        said = [note["worker"] for note in notes if note and "worker" in note]
        assert said[-1] == names[-1] and set(said) <= {"mock-0", *names}
    _, silent = ask(server, place)
    assert "nvext" not in silent
