"""The repository as a whole: documents that hold, packages that are complete, pins that cover, rules that bite."""

import ast
import importlib.util
import json
import os
import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = ("README.md", "ARCHITECTURE.md", "GLOSSARY.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")
PACKAGES = {"turns", "protocols", "parsers", "tokenizers", "antiphon"}


def script(name: str) -> ModuleType:
    """A module of scripts/, which is no package."""
    spec = importlib.util.spec_from_file_location(f"repository_{name}", ROOT / "scripts" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def markdown() -> list[Path]:
    """The repository's own documents."""
    return [ROOT / name for name in DOCUMENTS] + sorted(ROOT.glob("packages/*/README.md")) + sorted(ROOT.glob("docs/**/*.md"))


def code_blocks(path: Path, language: str) -> list[str]:
    """The fenced blocks of one language."""
    return re.findall(rf"^```{language}\n(.*?)^```", path.read_text(), re.DOTALL | re.MULTILINE)


def project(package: str) -> dict[str, Any]:
    """The [project] table of a distribution."""
    table: dict[str, Any] = tomllib.loads((ROOT / "packages" / package / "pyproject.toml").read_text())["project"]
    return table


def module_folder(package: str) -> Path:
    """The folder of a distribution's import package."""
    return ROOT / "packages" / package / "src" / ("antiphon" if package == "antiphon" else f"antiphon_{package}")


# Documents


@pytest.mark.parametrize("path", markdown(), ids=lambda path: str(path.relative_to(ROOT)))
def test_code_in_documents_parses(path: Path) -> None:
    for block in code_blocks(path, "python"):
        ast.parse(block)
    for block in code_blocks(path, "json"):
        json.loads(block)
    for block in code_blocks(path, "sh"):
        subprocess.run(["bash", "-n"], input=block, text=True, check=True)


def test_readme_shows_both_sdks() -> None:
    code = "".join(code_blocks(ROOT / "README.md", "python"))
    assert "anthropic.Anthropic(" in code
    assert "openai.OpenAI(" in code


@pytest.mark.parametrize("path", markdown(), ids=lambda path: str(path.relative_to(ROOT)))
def test_links_in_documents_lead_somewhere(path: Path) -> None:
    targets = [target for target in re.findall(r"\]\(([^)#]+)", path.read_text()) if "://" not in target]
    assert [target for target in targets if not (path.parent / target).exists()] == []


@pytest.mark.parametrize("path", markdown(), ids=lambda path: str(path.relative_to(ROOT)))
def test_make_targets_in_documents_exist(path: Path) -> None:
    known = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = re.findall(r"(?:^|`)make ([a-z-]+)", path.read_text(), re.MULTILINE)
    assert set(named) - known == set()


def named_modules(package: str) -> set[str]:
    """The modules ARCHITECTURE.md lists for a package: `name.py`, `folder/name.py` or `folder/`."""
    heading = module_folder(package).name
    section = re.search(rf"^### {heading}\n(.*?)(?=^##|\Z)", (ROOT / "ARCHITECTURE.md").read_text(), re.DOTALL | re.MULTILINE)
    assert section is not None, f"ARCHITECTURE.md has no section {heading}"
    first_cells = "\n".join(line.split("|")[1] for line in section[1].splitlines() if line.startswith("|"))
    return set(re.findall(r"`([\w/]+(?:\.py|/))`", first_cells))


@pytest.mark.parametrize("package", sorted(PACKAGES))
def test_architecture_has_one_line_a_module(package: str) -> None:
    folder, named = module_folder(package), named_modules(package)
    assert {name for name in named if not (folder / name).exists()} == set(), "named, but not there"
    modules = {path.name for path in folder.glob("*.py") if not path.name.startswith("_")}
    folders = {f"{path.parent.name}/" for path in folder.glob("*/__init__.py")}
    covered = named | {f"{name.split('/')[0]}/" for name in named if "/" in name}
    assert (modules | folders) - covered == set(), "there, but not named"


def test_glossary_says_what_the_house_rules_rule_out() -> None:
    rows = [line.split("|") for line in (ROOT / "GLOSSARY.md").read_text().splitlines() if line.startswith("|")]
    ruled_out = " ".join(row[3] for row in rows)
    pattern = script("check_tree").FORBIDDEN_NAME
    assert {word.lower() for word in pattern.findall(ruled_out)} == {"detector", "converter", "jail", "backend node"}


# Packages


def test_the_workspace_holds_five_distributions() -> None:
    assert {path.parent.name for path in ROOT.glob("packages/*/pyproject.toml")} == PACKAGES


@pytest.mark.parametrize("package", sorted(PACKAGES))
def test_package_is_complete(package: str) -> None:
    table = project(package)
    assert re.fullmatch(r"\d+\.\d+\.\d+", table["version"])
    assert table["license"] == "Apache-2.0"
    assert table["requires-python"] == ">=3.11"
    assert (module_folder(package) / "py.typed").is_file()
    readme = (ROOT / "packages" / package / table["readme"]).read_text()
    assert readme.startswith(f"# {table['name']}\n")
    assert "```python" in readme or "```sh" in readme, "a README needs one runnable example"


# House rules


def test_the_tree_keeps_the_house_rules() -> None:
    assert list(script("check_tree").violations(ROOT)) == []


def broken_files() -> Iterator[tuple[str, str, str]]:
    """(relative path, text, part of the complaint)."""
    yield "packages/a/src/a/long.py", "x = 1\n" * 501, "more than 500 lines"
    yield "scripts/long.py", "x = 1\n" * 501, "more than 500 lines"
    yield "README.md", "see " + "/" + "home/someone/notes\n", "somebody's machine"
    yield ".ci/run", "cd " + "/" + "work/tree\n", "somebody's machine"
    yield "requirements.txt", "--index-url https://" + "pypi" + ".org/simple\n", "host of a registry"
    yield "packages/a/src/a/names.py", "class Fancy" + "Converter: ...\n", "rules this name out"
    yield "packages/a/src/a/words.py", "# the " + "jailed text\n", "rules this name out"


@pytest.mark.parametrize(("name", "text", "complaint"), list(broken_files()), ids=lambda value: value.split("\n")[0][:24])
def test_house_rules_bite(tmp_path: Path, name: str, text: str, complaint: str) -> None:
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text(text)
    found = list(script("check_tree").violations(tmp_path))
    assert len(found) == 1
    assert found[0].startswith(f"{name}:")
    assert complaint in found[0]


def test_house_rules_leave_the_rest_alone(tmp_path: Path) -> None:
    fine = {
        "packages/a/src/a/families/data.py": "x = 1\n" * 501,
        "packages/a/src/a/good.py": "detect = 1  # home/page, https://example.org/home/page, ~/work/x\n",
        "packages/a/build/copy.py": "x = 1\n" * 501,
        "docs.md": "A converter is not a word for code, but this is prose.\n",
    }
    for name, text in fine.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert list(script("check_tree").violations(tmp_path)) == []


def dry_run(target: str) -> str:
    """What `make TARGET` would run."""
    environment = {key: value for key, value in os.environ.items() if key not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
    done = subprocess.run(["make", "-n", target], cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    return done.stdout


def test_lint_runs_every_linter_and_ci_runs_lint() -> None:
    commands = dry_run("lint")
    for tool in ("ruff check", "ruff format --check", "bin/mypy", "bin/lint-imports", "scripts/check_tree.py"):
        assert tool in commands
    ci = (ROOT / ".ci/run").read_text().splitlines()
    assert [line for line in ci if line.startswith("make ")] == ["make install", "make lint", "make test"]


def test_import_law_covers_the_five_packages() -> None:
    law = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    assert set(law["root_packages"]) == {module_folder(package).name for package in PACKAGES}
    layers, sans_io = law["contracts"]
    assert layers["type"] == "layers"
    assert layers["layers"][0] == "antiphon"
    assert set(layers["layers"][1].split(" | ")) == {"antiphon_protocols", "antiphon_parsers", "antiphon_tokenizers"}
    assert layers["layers"][2:] == ["antiphon_turns"]
    assert set(sans_io["source_modules"]) == {"antiphon_turns", "antiphon_protocols", "antiphon_parsers"}
    assert {"asyncio", "socket", "threading", "http", "time", "random", "uuid"} <= set(sans_io["forbidden_modules"])


# Requirements and scripts


def pinned(name: str) -> dict[str, str]:
    """name -> version of a requirements file; every line must be an exact pin."""
    lines = [line for line in (ROOT / "requirements" / name).read_text().splitlines() if line and not line.startswith("#")]
    pins = dict(re.split("==", line.split(";")[0].strip(), maxsplit=1) for line in lines)
    assert all(re.fullmatch(r"[\w.+]+", version) for version in pins.values())
    return pins


def test_pins_cover_all_that_is_needed() -> None:
    lock = script("lock")
    direct, own = lock.workspace_roots(ROOT)
    runtime, dev = pinned("runtime.txt"), pinned("dev.txt")
    assert set(lock.closure(direct)) - own - set(runtime) == set()
    needed_in_dev = set(lock.closure(lock.Requirement(name) for name in lock.DEV))
    assert needed_in_dev - own - set(runtime) - set(dev) == set()
    assert set(runtime) & set(dev) == set(), "pinned twice"


def test_pins_satisfy_the_packages() -> None:
    lock = script("lock")
    direct, _ = lock.workspace_roots(ROOT)
    runtime = pinned("runtime.txt")
    unfit = [str(item) for item in direct if not item.specifier.contains(runtime[lock.canonicalize_name(item.name)], prereleases=True)]
    assert unfit == []


@pytest.mark.parametrize("name", ["agents.sh", "agents_long.sh", "agents_cut.sh", "launch_check.sh", "codex_profiles.sh", "check_peer.sh"])
def test_agents_are_skipped_with_a_reason_without_the_shared_folder(tmp_path: Path, name: str) -> None:
    environment = {**os.environ, "ANTIPHON_SHARED": str(tmp_path)}
    done = subprocess.run([ROOT / "scripts" / name], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert "skipped" in done.stdout
    assert "ANTIPHON_SHARED" in done.stdout


def test_the_server_of_the_sessions_is_found_from_any_folder() -> None:
    environment = {key: value for key, value in os.environ.items() if key != "ANTIPHON"}
    told = f'self={ROOT}/scripts/launch_check.sh; . {ROOT}/scripts/agents_common.sh; cd /; echo "$server"'
    done = subprocess.run(["bash", "-c", told], env=environment, capture_output=True, text=True, check=True)
    assert Path(done.stdout.strip()) == ROOT / ".venv/bin/antiphon"


def test_vllm_is_skipped_with_a_reason_where_it_cannot_be_had(tmp_path: Path) -> None:
    environment = {**os.environ, "ANTIPHON_VLLM": str(tmp_path), "PYTHON": "false"}
    done = subprocess.run([ROOT / "scripts/test_vllm.sh"], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert "vllm: skipped: " in done.stderr
    assert "test-vllm: skipped" in done.stdout


def test_install_says_what_is_missing(tmp_path: Path) -> None:
    for name in ("scripts/install.sh", "requirements/runtime.txt", "requirements/model.txt", "requirements/dev.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    (tmp_path / "packages/antiphon").mkdir(parents=True)
    (tmp_path / "packages/antiphon/pyproject.toml").write_text("")
    done = subprocess.run(
        ["bash", "scripts/install.sh", "serve"],
        cwd=tmp_path,
        env={**os.environ, "PYTHON": "no-such-python"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "Python 3.11 or newer" in done.stderr
    assert "no-such-python" in done.stderr


def test_shell_scripts_are_sound() -> None:
    scripts = [*sorted((ROOT / "scripts").glob("*.sh")), ROOT / ".ci/run"]
    for path in scripts:
        assert os.access(path, os.X_OK), f"{path} is not executable"
        assert "set -euo pipefail" in path.read_text()
        subprocess.run(["bash", "-n", path], check=True)


def test_forced_calls_has_fifty_cases() -> None:
    forced = script("forced_calls")
    assert len(forced.CASES) * len(forced.PROMPTS) == 50
