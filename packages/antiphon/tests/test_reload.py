"""Keys, stabilizer rules and certificates exchanged while a server runs; a bad file changes nothing."""

import asyncio
import contextlib
import logging
import signal
import ssl
import subprocess
import sys
import time
from pathlib import Path

import httpx
import msgspec
import pytest
from cryptography import x509
from packages.antiphon.tests.test_limits_over_http import certified

from antiphon.access.key import hash_of
from antiphon.access.keyring import Keyring, keyring_of
from antiphon.config import Settings, read_config_file
from antiphon.reload import Reloader
from antiphon.stabilize import StabilizerRule
from antiphon.tls import tls_context

RULE = '[[rule]]\nname = "{}"\nwhere = "system"\nline = "Today is .*"\naction = "drop"\n'


def table(*names: str) -> str:
    return "".join(f'[keys.{name}]\nhash = "{hash_of(name)}"\n' for name in names)


class World:
    """A reloader over files in a folder, and what it has given."""

    def __init__(self, folder: Path, text: str, **settings: object) -> None:
        self.file = folder / "antiphon.toml"
        self.rules_file = folder / "rules.toml"
        self.rules_file.write_text(RULE.format("first"))
        self.file.write_text(text)
        self.rules: list[str] = []
        self.settings = Settings(**{"stabilizer_rules": self.rules_file, "keys": read_config_file(self.file).get("keys", {}), **settings})  # type: ignore[arg-type]
        self.keyring: Keyring | None = keyring_of(self.settings)
        self.reloader = Reloader(self.settings, self.file, keyring=self.keyring, tls=None, use_rules=self._use)

    def _use(self, rules: "tuple[StabilizerRule, ...] | list[StabilizerRule] | object") -> None:
        self.rules = [rule.name for rule in rules]  # type: ignore[attr-defined]

    def known(self, *names: str) -> list[str]:
        assert self.keyring is not None
        return [name for name in names if self.keyring.find([name.encode()])]


def test_keys_and_rules_are_exchanged_when_their_files_change(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    world = World(tmp_path, table("a", "b"))
    world.reloader.look()
    assert world.rules == [], "nothing has changed"
    world.file.write_text(table("b", "c") + "# longer\n")
    world.reloader.look()
    assert world.known("a", "b", "c") == ["b", "c"]
    assert world.rules == ["strip-anthropic-preamble", "first"]
    world.rules_file.write_text(RULE.format("second"))
    world.reloader.look()
    assert world.rules[1:] == ["second"]
    assert "reloaded: 2 keys of the file, 2 stabilizer rules" in caplog.text


def bad_files() -> list[tuple[str, str, str]]:
    """(file, its text, what the log says)"""
    return [
        ("file", "[keys.a\n", "cannot read the configuration file"),
        ("file", table("a") + "[keys.x]\nhash = 'plain'\n", "hash: must be sha256"),
        ("file", "http_prot = 1\n" + table("c"), "no setting is called http_prot"),
        ("file", "", "no API key left"),
        ("rules_file", RULE.format("UPPER"), "the name must be lower-case"),
    ]


@pytest.mark.parametrize(("which", "text", "said"), bad_files())
def test_a_bad_file_changes_nothing_and_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, which: str, text: str, said: str
) -> None:
    world = World(tmp_path, table("a", "b"))
    other = world.rules_file if which == "file" else world.file
    other.write_text(RULE.format("second") if which == "file" else table("c"))
    getattr(world, which).write_text(text)
    world.reloader.look()
    world.reloader.look()
    assert world.known("a", "b", "c") == ["a", "b"]
    assert world.rules == [], "not even the file that was good"
    assert caplog.text.count("everything stays as it was") == 1
    assert said in caplog.text


def test_a_file_that_is_gone_changes_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    world = World(tmp_path, table("a"))
    world.file.unlink()
    world.reloader.look()
    assert world.known("a") == ["a"]
    assert "cannot read the configuration file" in caplog.text


def test_an_open_server_is_not_closed_by_a_reload_and_the_log_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    world = World(tmp_path, "http_port = 1\n")
    world.file.write_text(table("a"))
    world.reloader.reload()
    assert "takes them at its next start only" in caplog.text


def test_what_needs_a_start_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    world = World(tmp_path, "http_port = 1\n" + table("a"))
    world.file.write_text("http_port = 2\nmax_turns = 3\n" + table("a", "b"))
    world.reloader.look()
    assert world.known("b") == ["b"]
    assert "http_port, max_turns of" in caplog.text


def test_rules_reach_the_next_prompt(serve_mock) -> None:
    server = serve_mock([{"when": "", "say": "Hm.\n</think>\n\nHi."}])
    body = {
        "model": "gpt-5.5",
        "max_tokens": 9,
        "messages": [{"role": "system", "content": "Be good.\nToday is 1.\n"}, {"role": "user", "content": "x"}],
    }
    path = "/v1/chat/completions"
    assert "x-antiphon-stabilized" not in server.http.post(path, json=body).headers
    world_rules = Path(server.trace_path).parent / "rules.toml"
    world_rules.write_text(RULE.format("dates"))
    settings = Settings(stabilizer_rules=world_rules)
    Reloader(settings, None, keyring=None, tls=None, use_rules=server.pipeline.use_rules).reload()
    assert server.http.post(path, json=body).headers["x-antiphon-stabilized"] == "dates"


def test_a_renewed_certificate_is_served_and_a_broken_one_is_not(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    chain, key = certified(tmp_path, "first")
    settings = Settings(tls_certificate=chain, tls_key=key)
    context = tls_context(chain, key)
    reloader = Reloader(settings, None, keyring=None, tls=context, use_rules=lambda rules: None)
    key.write_text("no key")
    reloader.look()
    assert "everything stays as it was" in caplog.text
    assert shown_by(context) == "first"
    certified(tmp_path, "second")
    reloader.look()
    assert shown_by(context) == "second"


def shown_by(context: ssl.SSLContext | None) -> str:
    """Whom a server with this context says it is: a handshake in memory."""
    assert context is not None
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    client, server = trusting.wrap_bio(back, there), context.wrap_bio(there, back, server_side=True)
    for side in (client, server, client, server):
        with contextlib.suppress(ssl.SSLWantReadError):
            side.do_handshake()
    shown = client.getpeercert(binary_form=True)
    assert shown is not None
    return str(x509.load_der_x509_certificate(shown).subject.rfc4514_string()).removeprefix("CN=")


def test_the_parent_of_several_processes_passes_a_hangup_on() -> None:
    code = """
import os, signal, sys, threading
from antiphon.processes import Processes

def work(number):
    heard = []
    signal.signal(signal.SIGHUP, lambda *_: heard.append(1))
    os.kill(os.getppid(), signal.SIGHUP)
    while not heard:
        signal.pause()
    return 0

sys.exit(Processes(1, work).run())
"""
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0


def test_a_hangup_reloads_a_running_server(tmp_path: Path) -> None:
    file = tmp_path / "antiphon.toml"
    file.write_text('engine = "mock"\nhttp_port = 0\n' + table("a"))
    command = [sys.executable, "-m", "antiphon", "serve", "--state-dir", str(tmp_path / "state")]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        url = ""
        while "URL" not in url:
            url = process.stderr.readline()
            assert url
        url = url.split()[1]

        def status(key: str) -> int:
            return httpx.get(f"{url}/v1/models", headers={"x-api-key": key}).status_code

        try:
            assert (status("a"), status("b")) == (200, 401)
            file.write_text('engine = "mock"\nhttp_port = 0\n' + table("b"))
            process.send_signal(signal.SIGHUP)
            until = time.monotonic() + 20
            while status("b") != 200 and time.monotonic() < until:
                pass
            assert (status("a"), status("b")) == (401, 200)
        finally:
            process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0


def test_looking_ends_with_the_server_and_at_once_where_there_is_nothing_to_look_at() -> None:
    reloader = Reloader(Settings(), None, keyring=None, tls=None, use_rules=lambda rules: None)
    asyncio.run(asyncio.wait_for(reloader.run(), 5))
    assert msgspec.structs.asdict(Settings())["stabilizer_rules"] is None
