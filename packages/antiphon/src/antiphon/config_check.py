"""`antiphon config check`: everything that is wrong with a configuration file, at once, before a server stumbles over the first of it."""

import difflib
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_type_hints

import msgspec

from antiphon.access.keyring import keyring_of
from antiphon.aliases import alias_entries, read_aliases
from antiphon.catalog import chosen_profile
from antiphon.config import Settings, WorkerSettings
from antiphon.engine_settings import EngineSettings
from antiphon.engines.mock_faults import parse_fault
from antiphon.engines.mock_script import load_script
from antiphon.explain_route import is_loopback
from antiphon.seal_keys import read_keys
from antiphon.stabilizer_rules import rules_of
from antiphon.tls import tls_context
from antiphon.workers.static import parse_worker, parse_workers
from antiphon_turns.errors import ConfigError


class Checked(msgspec.Struct, frozen=True):
    """`problems` keep a server from starting, or a setting from meaning what it says; `notes` are worth knowing."""

    problems: tuple[str, ...]
    notes: tuple[str, ...] = ()


def check_file(path: Path, record: type[EngineSettings]) -> Checked:
    """All that is wrong with a file of settings."""
    try:
        values = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        return Checked((f"cannot be read: {error.strerror}",))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        return Checked((f"is no TOML: {error}",))
    named = {key.replace("-", "_"): value for key, value in values.items()}
    problems = [*_unknown(named, record)]
    good, wrong = _typed(named, record)
    problems += wrong
    settings = record(**good)
    problems += conflicts(settings)
    return Checked(tuple(problems), tuple(notes(settings)))


def _unknown(named: dict[str, Any], record: type[EngineSettings]) -> Iterator[str]:
    for name in named:
        if name not in record.__struct_fields__:
            near = difflib.get_close_matches(name, record.__struct_fields__, 1)
            yield f"no setting is called {name}{f'; did you mean {near[0]}?' if near else ''}"


def _typed(named: dict[str, Any], record: type[EngineSettings]) -> tuple[dict[str, Any], list[str]]:
    """The values that have the right type, and what is wrong with the others."""
    good: dict[str, Any] = {}
    wrong = []
    hints = get_type_hints(record, include_extras=True)
    for name, value in named.items():
        if name not in hints:
            continue
        try:
            plain = alias_entries(value) if name == "aliases" else value
            good[name] = msgspec.convert(plain, hints[name], strict=False, dec_hook=_path)
        except (msgspec.ValidationError, ConfigError) as error:
            wrong.append(f"{name}: {error}")
    return good, wrong


def _path(kind: type, value: Any) -> Any:
    if not isinstance(value, str):
        raise msgspec.ValidationError("Expected `str`, the path of a file")
    return Path(value)


def conflicts(settings: EngineSettings) -> Iterator[str]:
    """What cannot be, of values that are each right."""
    for field in ("model_path", "workers"):
        path = getattr(settings, field, None)
        if path is not None and not path.exists():
            yield f"{field}: {path} is not there"
    for field in ("trace_tokens", "store"):
        path = getattr(settings, field, None)
        if path is not None and str(path) != ":memory:" and not path.parent.is_dir():
            yield f"{field}: the folder {path.parent} is not there"
    yield from _refused(lambda: load_script(settings.mock_script) if settings.mock_script else None)
    yield from _refused(lambda: parse_fault(settings.mock_fault) if settings.mock_fault else None)
    if isinstance(settings, Settings):
        yield from _server_conflicts(settings)


def _server_conflicts(settings: Settings) -> Iterator[str]:
    yield from _refused(lambda: keyring_of(settings))
    yield from _refused(lambda: tls_context(settings.tls_certificate, settings.tls_key))
    yield from _refused(lambda: chosen_profile(settings))
    yield from _refused(lambda: rules_of(strip_anthropic_preamble=settings.strip_anthropic_preamble, file=settings.stabilizer_rules))
    yield from _refused(lambda: read_keys(settings.seal_keys) if settings.seal_keys else None)
    if settings.model_name is not None:
        served = settings.model_name
        yield from _refused(lambda: read_aliases(settings.aliases, served=served, vendors=settings.vendor_aliases))
    for flag in settings.worker_urls:
        yield from _refused(lambda flag=flag: parse_worker(flag))  # type: ignore[misc]
    if settings.workers is not None and settings.workers.is_file():
        text, name = settings.workers.read_text("utf-8", "replace"), str(settings.workers)
        yield from _refused(lambda: parse_workers(text, name))
    if settings.processes > 1 and (settings.local_worker or not (settings.worker_urls or settings.workers)):
        yield "processes: more than one needs workers (worker_urls, workers) and no local_worker"


def _refused(read: Callable[[], object]) -> Iterator[str]:
    try:
        read()
    except ConfigError as error:
        yield error.message


def notes(settings: EngineSettings) -> Iterator[str]:
    """What is allowed, and may not be meant."""
    if settings.engine != "mock" and (settings.mock_script or settings.mock_fault or settings.mock_seed is not None):
        yield 'mock_script, mock_fault and mock_seed do nothing without engine = "mock"'
    if isinstance(settings, Settings):
        if not is_loopback(settings.http_host) and not (settings.api_key or settings.keys):
            yield f"everybody who reaches {settings.http_host} can use this server: set api_key, or keys"
        if not is_loopback(settings.http_host) and settings.tls_certificate is None:
            yield "requests and API keys cross the network in clear: set tls_certificate and tls_key, or serve behind a proxy that has them"
        if not settings.enable_store and settings.store is not None:
            yield "store does nothing with enable_store = false"
    if isinstance(settings, WorkerSettings) and not is_loopback(settings.http_host) and not settings.worker_key:
        yield f"everybody who reaches {settings.http_host} can use this worker: set worker_key"
