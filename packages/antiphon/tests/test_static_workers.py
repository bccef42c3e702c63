"""Workers by flags and file: spellings, changes while running, names that resolve to several addresses."""

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from pathlib import Path

import pytest

from antiphon.simulation.clock import VirtualClock
from antiphon.workers.card import KvFeed
from antiphon.workers.directory import WorkerAddress
from antiphon.workers.static import StaticDirectory, StaticWorker, parse_feed, parse_worker, parse_workers, resolved
from antiphon_turns.errors import ConfigError


@pytest.mark.parametrize(
    ("flag", "worker"),
    [
        ("http://h:1", StaticWorker(url="http://h:1")),
        ("left=https://h/base", StaticWorker(url="https://h/base", name="left")),
        ("http://h:1/?a=b", StaticWorker(url="http://h:1/?a=b")),
        ("w=http://h:1,kind=vllm,block_tokens=64", StaticWorker(url="http://h:1", name="w", kind="vllm", block_tokens=64)),
        ("http://h:1,every_address", StaticWorker(url="http://h:1", every_address=True)),
    ],
)
def test_flags(flag: str, worker: StaticWorker) -> None:
    assert parse_worker(flag) == worker


@pytest.mark.parametrize(
    ("flag", "sentence"),
    [
        ("h:1", "must begin with http"),
        ("w=", "must begin with http"),
        ("http://h,kind=gpt", "Invalid enum value"),
        ("http://h,kind", "none of kind"),
        ("http://h,every_address=no", "none of kind"),
        ("http://h,block_tokens=many", "Expected `int"),
        ("https://h,every_address", "http only"),
        ("http://[::1", "no address of a worker"),
        ("http://h:99999", "no address of a worker"),
        ("http://h:abc,every_address", "no address of a worker"),
        ("http://h:0", "no address of a worker"),
    ],
)
def test_flags_that_say_nothing_are_refused(flag: str, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        parse_worker(flag)


def test_a_file() -> None:
    text = """
    [[worker]]
    url = "http://a:1"
    draining = true
    kv_events = ["tcp://a:5557,replay=tcp://a:5558,rank=1"]
    [[worker]]
    name = "b"
    url = "http://b:1"
    kind = "sglang"
    """
    first, second = parse_workers(text, "f")
    assert first.draining and first.kv_events and (second.name, second.kind) == ("b", "sglang")
    for wrong, sentence in [("[[worker]]", "url"), ("worker = 3", "Expected `array"), ("[x]", "unknown field"), ("[", "f: ")]:
        with pytest.raises(ConfigError, match=sentence):
            parse_workers(wrong, "f")


@pytest.mark.parametrize(
    ("text", "feed"),
    [
        ("tcp://h:1", KvFeed(events="tcp://h:1")),
        ("tcp://h:1,replay=tcp://h:2,topic=kv,rank=3,bind", KvFeed(events="tcp://h:1", replay="tcp://h:2", topic="kv", rank=3, bind=True)),
    ],
)
def test_feeds(text: str, feed: KvFeed) -> None:
    assert parse_feed(text) == feed


@pytest.mark.parametrize("text", ["h:1", "tcp://h:1,rank=x", "tcp://h:1,bind=yes", "tcp://h:1,other=1"])
def test_feeds_that_say_nothing_are_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_feed(text)
    with pytest.raises(ConfigError):
        parse_workers(f'[[worker]]\nurl = "http://h"\nkv_events = ["{text}"]', "f")


def told(directory: StaticDirectory, clock: VirtualClock, *steps: object) -> list[tuple[WorkerAddress, ...]]:
    """What it tells, with each step done after one list."""

    async def listen() -> list[tuple[WorkerAddress, ...]]:
        found = []
        async with aclosing(directory.changes()) as lists:
            async for one in lists:
                found.append(one)
                if len(found) > len(steps):
                    break
                step = steps[len(found) - 1]
                assert callable(step)
                step()
        return found

    return asyncio.run(clock.run(listen()))


def test_the_file_is_read_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file, clock = tmp_path / "workers.toml", VirtualClock()
    file.write_text('[[worker]]\nurl = "http://a:1"\n')

    def break_and_mend() -> None:
        file.write_text("[[worker")

        async def later() -> None:
            await clock.sleep(5)
            file.write_text('[[worker]]\nurl = "http://b:1"\n[[worker]]\nurl = "http://c:1"\ndraining = true\n')

        tasks.append(asyncio.get_running_loop().create_task(later()))

    tasks: list[asyncio.Task[None]] = []
    first, second = told(StaticDirectory(["x=http://x:1"], file, clock=clock), clock, break_and_mend)
    assert [one.name for one in first] == ["x", "a:1"]
    assert [(one.name, one.draining) for one in second] == [("x", False), ("b:1", False), ("c:1", True)]
    assert caplog.text.count("stay as they were") == 1


def test_a_file_that_is_gone_is_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file, clock = tmp_path / "workers.toml", VirtualClock()
    text = '[[worker]]\nurl = "http://a:1"\n'
    file.write_text(text)
    tasks: list[asyncio.Task[None]] = []

    def take_away() -> None:
        file.unlink()

        async def later() -> None:
            await clock.sleep(9)
            file.write_text(text)
            await clock.sleep(3)
            file.write_text(2 * text)
            await clock.sleep(3)
            file.write_text(text.replace("a:1", "b:1"))

        tasks.append(asyncio.get_running_loop().create_task(later()))

    first, second = told(StaticDirectory([], file, clock=clock), clock, take_away)
    assert [one.name for one in (*first, *second)] == ["a:1", "b:1"]
    assert caplog.text.count("cannot read the file") == 1
    assert f"the file of workers {file}: two workers are called 'a:1'" in caplog.text


def test_a_name_that_cannot_be_looked_up_is_no_end(caplog: pytest.LogCaptureFixture) -> None:
    clock = VirtualClock()
    long = "x" * 64
    (first,) = told(StaticDirectory([f"p=http://{long}:1,every_address"], None, clock=clock), clock)
    assert first == () and f"cannot resolve {long}" in caplog.text


def test_names_are_resolved_again() -> None:
    clock = VirtualClock()
    answers: list[Sequence[str] | OSError] = [["10.0.0.2", "10.0.0.1"], OSError("no such host"), ["10.0.0.2", "fd00::1"]]

    async def resolve(host: str, port: int) -> Sequence[str]:
        assert (host, port) == ("pool", 8000)
        answer = answers.pop(0)
        if isinstance(answer, OSError):
            raise answer
        return answer

    directory = StaticDirectory(["p=http://pool:8000/base,every_address"], None, clock=clock, resolve=resolve)
    first, second = told(directory, clock, lambda: None)
    assert [(one.name, one.url) for one in first] == [
        ("p@10.0.0.1", "http://10.0.0.1:8000/base"),
        ("p@10.0.0.2", "http://10.0.0.2:8000/base"),
    ]
    assert [one.url for one in second] == ["http://10.0.0.2:8000/base", "http://[fd00::1]:8000/base"]


def test_start_refuses_what_cannot_be_meant(tmp_path: Path) -> None:
    clock = VirtualClock()
    with pytest.raises(ConfigError, match="cannot read the file"):
        StaticDirectory([], tmp_path / "none.toml", clock=clock)
    file = tmp_path / "workers.toml"
    file.write_text('[[worker]]\nurl = "http://a:1"\n')
    for flags, where in ((["http://a:1"], file), (["http://a:1", "http://a:1/base"], None)):
        with pytest.raises(ConfigError, match="two workers are called 'a:1'"):
            StaticDirectory(flags, where, clock=clock)
    with pytest.raises(ConfigError, match="two workers are called 'local'"):
        StaticDirectory(["local=http://a:1"], None, clock=clock, taken=["local"])


def test_loopback_resolves() -> None:
    assert "127.0.0.1" in asyncio.run(resolved("127.0.0.1", 80))
