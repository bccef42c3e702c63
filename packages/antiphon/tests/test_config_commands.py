"""`antiphon config show` and `antiphon config check`: where settings come from, and all that is wrong with a file at once."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from antiphon.access.key import hash_of
from antiphon.config import FILES, Settings, WorkerSettings, is_secret
from antiphon.config_check import check_file
from antiphon.config_report import MASK, masked, report

SECRET = "the-secret-0815"
GOOD = f'http_port = 8123\n[keys.ci]\nhash = "{hash_of(SECRET)}"\nmax_turns = 3\n'


def run(folder: Path, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    """The command in a folder, with an environment that holds nothing else."""
    environment = {"PATH": os.environ["PATH"], "NO_COLOR": "1", "COLUMNS": "200", **env}
    return subprocess.run([sys.executable, "-m", "antiphon", *arguments], cwd=folder, env=environment, capture_output=True, text=True)


def test_show_tells_every_setting_with_its_source_and_no_secret(tmp_path: Path) -> None:
    (tmp_path / "antiphon.toml").write_text(GOOD)
    env = {"ANTIPHON_API_KEY": SECRET, "ANTIPHON_MAX_TURNS": "7", "ANTIPHON_WORKER_KEY": SECRET + "w"}
    done = run(tmp_path, "config", "show", "--json", "--engine", "mock", "--max-turns", "9", **env)
    assert done.returncode == 0, done.stderr
    shown = {one["name"]: (one["value"], one["source"]) for one in json.loads(done.stdout)}
    assert set(shown) == set(Settings.__struct_fields__)
    assert shown["engine"] == ("mock", "flag")
    assert shown["max_turns"] == (9, "flag")
    assert shown["api_key"] == (MASK, "environment")
    assert shown["http_port"] == (8123, "file")
    assert shown["keys"] == ({"ci": {"hash": MASK, "max_turns": 3}}, "file")
    assert shown["http_host"] == ("127.0.0.1", "default")
    lines = run(tmp_path, "config", "show", **env).stdout
    assert "file antiphon.toml" in lines
    for text in (done.stdout, lines):
        assert SECRET not in text
        assert hash_of(SECRET) not in text


def test_every_secret_is_masked_and_nothing_else() -> None:
    secrets = {name for name in Settings.__struct_fields__ if is_secret(name)}
    assert secrets == {"api_key", "keys", "worker_key"}
    assert is_secret("worker_key", WorkerSettings)
    assert (masked("api_key", "x"), masked("api_key", None), masked("http_port", 1)) == (MASK, None, 1)
    assert masked("model_path", Path("a")) == "a"
    assert [one.value for one in report(Settings(api_key="x"), {}) if one.name == "api_key"] == [MASK]


def checked(folder: Path, text: str, record: Any = Settings) -> list[str]:
    file = folder / "checked.toml"
    file.write_text(text)
    return list(check_file(file, record).problems)


PROBLEMS = [
    ("http_prot = 1", "no setting is called http_prot; did you mean http_port?"),
    ("max_turns = 'x'", "max_turns: Expected `int`"),
    ("http_port = 70000", "http_port: Expected `int` <= 65535"),
    ("engine = 'steam'", "engine: Invalid enum value 'steam'"),
    ("enable_store = 'maybe'", "enable_store: Expected `bool`"),
    ("aliases = 1", "aliases: must be a list"),
    ("model_path = 'no.gguf'", "model_path: no.gguf is not there"),
    ("model_path = 3", "model_path: Expected `str`, the path of a file"),
    ("workers = 'no.toml'", "workers: no.toml is not there"),
    ("store = 'no/such/file'", "store: the folder no/such is not there"),
    ("stabilizer_rules = 'no.toml'", "cannot read the stabilizer rules"),
    ("seal_keys = 'no'", "no"),
    ("mock_script = 'no.jsonl'", "cannot read the mock script"),
    ("mock_fault = 'fire'", "crash-after=N"),
    ("tls_key = 'key.pem'", "HTTPS needs both"),
    ("profile = 'x'", "no metadata profile is called 'x'"),
    ("processes = 2", "more than one needs workers"),
    ("worker_urls = ['ftp://x']", "is no address of a worker"),
    ("model_name = 'm'\naliases = ['a=b']", "leads to 'b'"),
    ("[keys.x]\nhash = 'plain'", "[keys.x] hash"),
    ("[[keys]]\nhash = 'plain'", "keys: Expected `object`"),
]


@pytest.mark.parametrize(("text", "said"), PROBLEMS)
def test_each_problem_is_named(tmp_path: Path, text: str, said: str) -> None:
    (problem,) = checked(tmp_path, text)
    assert said in problem


def test_all_problems_are_told_at_once_and_end_with_status_2(tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text("\n".join(text for text, _ in PROBLEMS[:3]))
    done = run(tmp_path, "config", "check", "bad.toml")
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 3
    assert all(line.startswith("bad.toml: ") for line in done.stderr.splitlines())
    missing = run(tmp_path, "config", "check")
    assert missing.returncode == 2
    assert missing.stderr.startswith("antiphon.toml: cannot be read")
    (tmp_path / "antiphon.toml").write_text("a = \n")
    assert "is no TOML" in run(tmp_path, "config", "check").stderr


def test_a_good_file_is_right_and_notes_are_no_problems(tmp_path: Path) -> None:
    (tmp_path / "antiphon.toml").write_text('http_host = "0.0.0.0"\nhttp-port = 1\n')
    done = run(tmp_path, "config", "check")
    assert (done.returncode, done.stderr) == (0, "")
    assert "everybody who reaches 0.0.0.0" in done.stdout
    assert "antiphon.toml is right" in done.stdout
    assert checked(tmp_path, GOOD) == []
    assert checked(tmp_path, "stream_port = 1", WorkerSettings) == []
    assert "stream_port" in checked(tmp_path, "stream_port = 1")[0]


def test_every_default_is_right(tmp_path: Path) -> None:
    for record in FILES:
        plain = {}
        for field in msgspec.structs.fields(record):
            value = getattr(record(), field.name)
            if value not in (None, {}, []):
                plain[field.name] = value
        text = "\n".join(f"{name} = {msgspec.json.encode(value).decode()}" for name, value in plain.items())
        assert checked(tmp_path, text, record) == []
