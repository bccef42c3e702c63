"""Writes docs/configuration.md from the settings records.

usage: config_table.py            writes the file
       config_table.py --check    exit status 1 if the file is not what would be written
"""

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, get_args, get_type_hints

import msgspec

from antiphon.config import Settings, WorkerSettings, flag_of, is_file_only, place_of, variable_of
from antiphon.engine_settings import PANELS, EngineSettings

PAGE = Path(__file__).resolve().parent.parent / "docs" / "configuration.md"
HEAD = """# Configuration

Made by `make docs` from the settings records; a test keeps it current.

Every setting has one name, and three places where it can be said:

1. a **flag** of the command, `--http-port 8123`; of a switch also `--no-`, `--no-enable-store`;
2. an **environment variable**, `ANTIPHON_HTTP_PORT=8123`; lists are words with spaces between them, switches `true` or `false`;
3. the **file**, TOML, `http_port = 8123` (`http-port` too): `antiphon.toml` of the working folder for `serve` and `frontend`,
   `antiphon-worker.toml` for `worker`, or the one that `--config` or `ANTIPHON_CONFIG` names.

The first of them that says something counts, then the default: **flag > environment > file > default**. A list from one place takes the
place of a list from another; nothing is merged.

```sh
antiphon config show                   # every setting of `antiphon serve`: its value, and where that comes from
antiphon config show --max-turns 8 --json
antiphon config check                  # all that is wrong with antiphon.toml; exit status 2 if something is
antiphon config check --for worker antiphon-worker.toml
```

`config check` finds unknown keys, wrong types, values that exclude each other, and files that are not there. A server stops at the first
of these at its start. Secrets (`api_key`, `keys`, `worker_key`) are masked wherever settings are shown.

## API keys

`--api-key` is one key that may do everything. Several, each with limits of its own, are tables of the file. `antiphon keys new ci` prints
a fresh key and its table, which has only the key's hash:

```toml
[keys.ci]
hash = "sha256:0000000000000000000000000000000000000000000000000000000000000000"
models = ["claude-*", "qwen3"]
requests_per_minute = 60
prompt_tokens_per_minute = 2_000_000
max_turns = 4
operator = false
```

| key | default | what |
|---|---|---|
| `hash` | | `sha256:` and the key's hash in hex |
| `models` | every name | names it may ask for, with `*` and `?`, in any case; others are a 404, and not in its catalog |
| `requests_per_minute` | no limit | a minute's worth may come at once; then a 429 with `retry-after` |
| `prompt_tokens_per_minute` | no limit | counted once a prompt is read; one above a minute's worth passes and costs its time afterwards |
| `max_turns` | no limit | turns at once; one more is a 429 |
| `operator` | `false` | may ask for what tells of all: `/metrics`, `/router`, `/antiphon/kv-snapshot`, the workers in `/health` |

A key comes as `x-api-key` or as a Bearer token, on HTTP and on WebSockets; where a request has both, the one that is known counts. The
tenant of a request is its key: stored responses, seals, `antiphon explain` and, with `cache_scope` `auto` or `tenant`, cached prefixes are
by tenant. With `--processes N` each process counts for itself, so limits are N times what is written.

## What is read again while the server runs

On SIGHUP, and within two seconds when a file changes: `[keys.NAME]` of the configuration file, the file of `stabilizer_rules`, and the
files of `tls_certificate` and `tls_key`; the file of `workers` on its own. Everything is read before anything is exchanged: a bad file
changes nothing, and the log says why. A key that is gone is refused from then on, also on WebSockets that are open; turns that run end as
usual. A server that began without `[keys.NAME]` tables takes them at its next start, and the last key cannot be taken away while it
runs. Other settings that have changed are named in the log; they take effect at the next start.

## Settings of `antiphon serve` and `antiphon frontend`
"""
WORKER_HEAD = """
## Settings of `antiphon worker`

Those of the panels above that `antiphon worker --help` lists, and these.
"""


def page() -> str:
    """The text of docs/configuration.md."""
    own = [name for name in WorkerSettings.__struct_fields__ if name not in Settings.__struct_fields__ or differs(name)]
    return HEAD + "".join(panels(Settings, list(Settings.__struct_fields__))) + WORKER_HEAD + "".join(panels(WorkerSettings, own))


def differs(name: str) -> bool:
    """Whether a worker has another default."""
    return bool(getattr(WorkerSettings(), name) != getattr(Settings(), name))


def panels(record: type[EngineSettings], names: list[str]) -> Iterator[str]:
    """A heading and a table for each panel."""
    for number, panel in enumerate(PANELS):
        rows = [row(record, name) for name in names if place_of(name, record) == number]
        if rows:
            yield f"\n### {panel['panel']}\n\n" + table(("setting", "flag", "default", "what"), rows)


def row(record: type[EngineSettings], name: str) -> tuple[str, ...]:
    """One setting."""
    kind, meta = get_args(get_type_hints(record, include_extras=True)[name])
    flags = "file only" if is_file_only(name, record) else f"`{flag_of(name, record)}`"
    if "alias" in meta.extra:
        flags += f", `{meta.extra['alias']}`"
    variable = "" if is_file_only(name, record) else f"<br>`{variable_of(name)}`"
    choices = [repr(choice).replace("'", "`") for choice in get_args(kind) if isinstance(choice, str)]
    text = meta.description + (f" One of {', '.join(choices)}." if choices else "")
    return f"`{name}`", flags + variable, spelled(getattr(record(), name)), text.replace("|", "\\|")


def spelled(value: Any) -> str:
    """A default as a file would have it."""
    return "" if value in (None, [], {}) else f"`{msgspec.json.encode(value).decode()}`"


def table(headings: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """A Markdown table."""
    lines = [headings, ("---",) * len(headings), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def main() -> None:
    """Writes the page, or with --check says whether it is current."""
    if "--check" in sys.argv[1:]:
        current = PAGE.is_file() and PAGE.read_text(encoding="utf-8") == page()
        sys.stdout.write("docs/configuration.md is current.\n" if current else "docs/configuration.md is not current: run `make docs`.\n")
        sys.exit(0 if current else 1)
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
