"""The files of deploy/, as far as they can be checked without running them: what they name is there, and settings are settings."""

import configparser
import json
import re
import shlex
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from antiphon.config import EngineSettings, Settings, WorkerSettings, flag_of, read_config_file

ROOT = Path(__file__).resolve().parent.parent
UNITS = sorted((ROOT / "deploy/systemd").glob("*.service"))
CONTAINERFILE = ROOT / "deploy/container/Containerfile"


def unit(path: Path) -> configparser.RawConfigParser:
    """A unit file; of a repeated key the last value counts."""
    found = configparser.RawConfigParser(strict=False, delimiters=("=",), comment_prefixes=("#",))
    found.optionxform = str  # type: ignore[method-assign,assignment]
    found.read_string(path.read_text("utf-8"))
    return found


def instructions() -> list[tuple[str, str]]:
    """The Containerfile's instructions, continued lines joined."""
    lines = [line for line in CONTAINERFILE.read_text("utf-8").splitlines() if line and not line.startswith("#")]
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in "\n".join(lines).replace("\\\n", " ").splitlines())]


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_units_start_what_there_is(path: Path) -> None:
    service = unit(path)["Service"]
    program, command, *flags = shlex.split(service["ExecStart"])
    records: dict[str, type[EngineSettings]] = {"serve": Settings, "worker": WorkerSettings}
    record = records[command]
    assert program == "/opt/antiphon/bin/antiphon"
    known = {"--config", *(flag_of(name, record) for name in record.__struct_fields__)}
    assert [flag for flag in flags if flag.startswith("--") and flag not in known] == []
    # systemd must not be less patient than the server itself.
    assert float(service["TimeoutStopSec"]) > Settings().shutdown_grace_seconds + 10
    assert (service["KillSignal"], service["DynamicUser"], service["ProtectSystem"]) == ("SIGTERM", "yes", "strict")


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_systemd_understands_the_units(path: Path, tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    copy = tmp_path / path.name.replace("@", "@x")
    copy.write_text(path.read_text("utf-8").replace("/opt/antiphon/bin/antiphon", "/bin/true"), "utf-8")
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", str(copy)], capture_output=True, text=True)
    assert (done.returncode, [line for line in done.stderr.splitlines() if path.stem in line]) == (0, [])


@pytest.mark.parametrize(("name", "record"), [("antiphon.toml", Settings), ("worker.toml", WorkerSettings)])
def test_example_settings_are_settings(name: str, record: type[Settings | WorkerSettings]) -> None:
    path = ROOT / "deploy/systemd" / name
    values = read_config_file(path, record)
    assert record(**values).http_host == "127.0.0.1"
    assert not [key for key in tomllib.loads(path.read_text("utf-8")) if "key" in key], "keys belong in the environment file"


def test_the_image_is_made_of_what_there_is() -> None:
    copied = [rest.split() for word, rest in instructions() if word == "COPY" and not rest.startswith("--from")]
    sources = [source for parts in copied for source in parts[:-1]]
    assert sources and [source for source in sources if not (ROOT / source).exists()] == []
    installed = re.findall(r"\./(packages/\w+)", CONTAINERFILE.read_text("utf-8"))
    assert {ROOT / name for name in installed} == {path.parent for path in ROOT.glob("packages/*/pyproject.toml")}
    kept = [line[1:] for line in (ROOT / ".containerignore").read_text("utf-8").splitlines() if line.startswith("!")]
    assert all(source.split("/")[0] in kept for source in sources)
    readmes = [path for path in ROOT.glob("packages/*/README.md") if path.parent.name in "".join(installed)]
    assert len(readmes) == len(installed), "a build needs the README that its pyproject names"


def test_the_image_starts_what_there_is() -> None:
    words = dict(instructions())
    (program,) = json.loads(words["ENTRYPOINT"])
    scripts = tomllib.loads((ROOT / "packages/antiphon/pyproject.toml").read_text("utf-8"))["project"]["scripts"]
    assert Path(program).name in scripts and json.loads(words["CMD"]) == ["serve"]
    assert words["STOPSIGNAL"] == "SIGTERM" and words["USER"].isdecimal()
    variables = dict(pair.split("=", 1) for word, rest in instructions() if word == "ENV" for pair in rest.split())
    settings = {name.removeprefix("ANTIPHON_").lower() for name in variables if name.startswith("ANTIPHON_")}
    assert settings and settings <= set(Settings.__struct_fields__)
    assert variables["ANTIPHON_HTTP_PORT"] == words["EXPOSE"]
    check = json.loads(words["HEALTHCHECK"].partition(" CMD ")[2])
    assert "/live" in check[-1] and compile(check[-1], "healthcheck", "exec")


def test_the_page_names_every_file() -> None:
    page = (ROOT / "docs/deploy.md").read_text("utf-8")
    files = [path for path in (ROOT / "deploy").rglob("*") if path.is_file()]
    assert [path.name for path in files if path.name not in page] == []
