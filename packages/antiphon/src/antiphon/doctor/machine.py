"""The machine: port, clock, engine package, state folder."""

import datetime
import shutil
import tempfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import antiphon
from antiphon.config import Settings
from antiphon.doctor.finding import Finding, failed, ok, warning
from antiphon.serve import bind
from antiphon.state import state_dir_of
from antiphon_turns.errors import ConfigError

ENGINE_PACKAGE = "xllamacpp"


def examine_port(settings: Settings) -> Finding:
    """Whether the port is free."""
    try:
        bind(settings).close()
    except ConfigError as error:
        place, _, advice = error.message.partition("; ")
        return failed("port", place, advice)
    return ok("port", f"{settings.http_host}:{settings.http_port or 'any'} is free")


def examine_clock(now: float, written: float | None = None) -> Finding:
    """Whether the clock can be right: it is not before our own files were `written`. Both are unix times."""
    written = Path(antiphon.__file__).stat().st_mtime if written is None else written
    says = datetime.datetime.fromtimestamp(now, datetime.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    if now < written:
        return failed(
            "clock",
            f"{says} is before this program was installed",
            "set the clock (timedatectl set-ntp true): certificates and stored responses depend on it",
        )
    return ok("clock", says)


def examine_engine(settings: Settings, package: str = ENGINE_PACKAGE) -> Finding:
    """Whether the engine of this process is installed."""
    if settings.engine == "mock":
        return ok("engine", "mock: a script, no weights")
    if (settings.worker_urls or settings.workers) and not settings.local_worker:
        return ok("engine", "none in this process: the workers have theirs")
    try:
        return ok("engine", f"{package} {version(package)}")
    except PackageNotFoundError:
        return failed("engine", f"the package {package} is not installed", f"pip install {package}, or use --worker")


def examine_state(settings: Settings) -> Finding:
    """Whether what outlives a run can be written, and how much room there is."""
    folder = state_dir_of(settings)
    nearest = next((path for path in (folder, *folder.parents) if path.exists()), folder)
    try:
        with tempfile.TemporaryFile(dir=nearest):
            pass
    except OSError as error:
        text = f"{folder} cannot be written ({error.strerror}), so keys and responses end with the process"
        return (failed if settings.state_dir is not None else warning)("state", text, "choose another folder with --state-dir")
    free = shutil.disk_usage(nearest).free
    if free < settings.store_max_bytes:
        says = f"{folder}: {free / 1e9:.1f} GB free, and responses may take {settings.store_max_bytes / 1e9:.1f} GB"
        return warning("state", says, "make room, or lower --store-max-bytes")
    return ok("state", f"{folder} can be written, {free / 1e9:.1f} GB free")
