"""House rules that no linter knows. usage: python scripts/check_tree.py [ROOT]; exit status 1 if a rule is broken.

* a Python file has at most 500 lines (files of grammar data, under `families/`, aside);
* no file names a path of somebody's machine or the host of a package registry;
* package sources do not use the names GLOSSARY.md rules out.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

MAX_LINES = 500
TEXT = {".py", ".md", ".toml", ".txt", ".sh", ".jinja", ".json", ".jsonl", ".yaml", ".yml", ".cfg", ""}
SKIPPED = {"__pycache__", "build", "dist", "node_modules"}
# Put together here, so that this file does not break its own rule.
MACHINE_PATH = re.compile(r"(?<![\w.~/-])/(?:" + "|".join(("work", "root", "home", "Users")) + r")/\w")
REGISTRY = re.compile(r"\b(?:" + "|".join(("pypi" r"\.org", "pythonhosted" r"\.org", "npmjs" r"\.(?:org|com)")) + r")\b")
FORBIDDEN_NAME = re.compile(r"detector|converter|\bjail|backend node", re.IGNORECASE)


def text_files(root: Path) -> Iterator[Path]:
    """Text files below `root`, in order, without caches, environments and build outputs."""
    for path in sorted(root.iterdir()):
        if path.is_dir():
            hidden = path.name.startswith(".") and path.name != ".ci"
            if not (hidden or path.name in SKIPPED or path.name.endswith(".egg-info") or path.is_symlink()):
                yield from text_files(path)
        elif path.suffix in TEXT and path.name not in ("LICENSE", ".git"):
            yield path


def is_package_source(relative: Path) -> bool:
    """Whether the file is code of one of the distributions (packages/NAME/src/...)."""
    return len(relative.parts) > 3 and relative.parts[0] == "packages" and relative.parts[2] == "src"


def violations(root: Path) -> Iterator[str]:
    """One line for each broken rule: `path:line: what`."""
    for path in text_files(root):
        relative = path.relative_to(root)
        lines = path.read_text(encoding="utf-8").splitlines()
        if path.suffix == ".py" and "families" not in relative.parts and len(lines) > MAX_LINES:
            yield f"{relative}:{len(lines)}: more than {MAX_LINES} lines"
        for number, line in enumerate(lines, 1):
            if found := MACHINE_PATH.search(line):
                yield f"{relative}:{number}: a path of somebody's machine: {found[0]}"
            if found := REGISTRY.search(line):
                yield f"{relative}:{number}: the host of a registry: {found[0]}"
            if is_package_source(relative) and (found := FORBIDDEN_NAME.search(line)):
                yield f"{relative}:{number}: GLOSSARY.md rules this name out: {found[0]}"


def main() -> None:
    """Prints every violation, or one line that all is well."""
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent)
    found = list(violations(root))
    sys.stdout.write("".join(f"{line}\n" for line in found) or "House rules: kept.\n")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
