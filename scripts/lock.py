"""Writes requirements/runtime.txt and requirements/dev.txt from what is installed in the running environment.

usage: .venv/bin/python scripts/lock.py   (`make lock`)

The roots are the dependencies in packages/*/pyproject.toml, the build tool, and the list `DEV` below; everything
they need is pinned with them, so that an installation resolves nothing. To move a pin: install the wanted version
into .venv with pip, run the tests, then `make lock`.
"""

import sys
import tomllib
from collections.abc import Iterable
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import NormalizedName, canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
BUILD = ("setuptools",)
DEV = (
    "pytest",
    "pytest-timeout",
    "pytest-xdist",
    "hypothesis",
    "jsonschema",
    "llguidance",
    "anthropic",
    "openai",
    "httpx",
    "ruff",
    "mypy",
    "import-linter",
    "types-jsonschema",
    "atheris",
    "tiktoken",
    "schemathesis",
    "packaging",
    "opentelemetry-sdk",
    "opentelemetry-exporter-otlp-proto-http",
)
HEAD = "# {what}\n# Written by scripts/lock.py (`make lock`); do not edit.\n"


def workspace_roots(root: Path) -> tuple[list[Requirement], set[NormalizedName]]:
    """Third-party requirements of the five distributions, and the distributions' own names."""
    projects = [tomllib.loads(path.read_text())["project"] for path in sorted(root.glob("packages/*/pyproject.toml"))]
    own = {canonicalize_name(project["name"]) for project in projects}
    wanted = [Requirement(text) for project in projects for text in project["dependencies"]]
    return [requirement for requirement in wanted if canonicalize_name(requirement.name) not in own], own


def closure(roots: Iterable[Requirement]) -> dict[NormalizedName, Requirement]:
    """Every installed distribution the roots need, transitively, by canonical name. Raises PackageNotFoundError."""
    found: dict[NormalizedName, Requirement] = {}
    todo = [(requirement, extra) for requirement in roots for extra in ("", *requirement.extras)]
    seen: set[tuple[NormalizedName, str]] = set()
    while todo:
        requirement, extra = todo.pop()
        name = canonicalize_name(requirement.name)
        if (name, extra) in seen:
            continue
        seen.add((name, extra))
        found.setdefault(name, requirement)
        for text in distribution(name).requires or ():
            needed = Requirement(text)
            if needed.marker is None or needed.marker.evaluate({"extra": extra}):
                todo.extend((needed, wanted) for wanted in ("", *needed.extras))
    return found


def pin_lines(names: Iterable[NormalizedName], markers: dict[NormalizedName, str]) -> str:
    """`name==version` lines in alphabetical order, with the marker of a direct requirement."""
    return "".join(f"{name}=={distribution(name).version}{markers.get(name, '')}\n" for name in sorted(names))


def main() -> None:
    """Writes both files."""
    direct, own = workspace_roots(ROOT)
    direct += [Requirement(name) for name in BUILD]
    markers = {canonicalize_name(item.name): f"; {item.marker}" for item in direct if item.marker is not None}
    runtime = set(closure(direct)) - own
    dev = set(closure(Requirement(name) for name in DEV)) - runtime - own
    folder = ROOT / "requirements"
    (folder / "runtime.txt").write_text(HEAD.format(what="What serving needs.") + pin_lines(runtime, markers))
    (folder / "dev.txt").write_text(HEAD.format(what="What tests and linters need on top.") + pin_lines(dev, {}))
    sys.stdout.write(f"pinned {len(runtime)} packages for serving and {len(dev)} for development\n")


if __name__ == "__main__":
    main()
