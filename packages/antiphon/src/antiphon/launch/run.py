"""One launch: find the server, plan, write the configuration, say what was set, run the client."""

import contextlib
import json
import os
import shlex
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from antiphon.launch.plan import Client, ConfigFile, Plan, Target, Wire, command, merged
from antiphon.launch.server import find_model, own_server
from antiphon_protocols.models import ModelCard, codex_entry
from antiphon_turns.errors import ConfigError

Say = Callable[[str], None]

# A server may report Messages counts in a measure of its own; `max_input_tokens` is in that measure.
_WINDOW_KEYS: dict[Wire, tuple[str, ...]] = {
    "messages": ("max_input_tokens", "context_length", "max_model_len"),
    "chat": ("context_length", "max_model_len", "max_input_tokens"),
    "responses": ("context_length", "max_model_len", "max_input_tokens"),
}
_CATALOG_KEYS = ("slug", "base_instructions", "shell_type")


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What the user asked for. `window` and `model` None: as the server says. `program`: a path instead of a search in PATH."""

    client: Client
    url: str
    arguments: tuple[str, ...] = ()
    serve_flags: tuple[str, ...] = ()
    model: str | None = None
    window: int | None = None
    wire: Wire | None = None
    key: str = "local"
    program: Path | None = None
    folder: Path


def print_plan(request: Request, say: Say) -> int:
    """Writes the plan as a shell script and changes nothing. Raises ConfigError."""
    target = offline_target(request) if request.model and request.window else online_target(request)
    if target is None:
        raise ConfigError(f"no server answers at {request.url}; start one, or give both --model and --context")
    say(script(request, request.client.plan(target)))
    return 0


def launch(request: Request, say: Say) -> int:
    """Runs the client; its exit status. Raises ConfigError."""
    program = find_program(request)
    with contextlib.ExitStack() as stack:
        target = online_target(request)
        own = target is None
        if own:
            log = request.folder.parent / "server.log"
            say(f"No server at {request.url}: starting one (its output: {log})")
            stack.enter_context(own_server(request.url, request.serve_flags, log))
            target = online_target(request)
        elif request.serve_flags:
            given = " ".join(request.serve_flags)
            raise ConfigError(f"a server answers at {request.url} already, so flags for a new one make no sense: {given}")
        if target is None:
            raise ConfigError(f"the server at {request.url} is gone")
        plan = request.client.plan(target)
        for file in plan.files:
            write(file)
        for line in summary(request, target, plan):
            say(line)
        return run_client(command(program, plan, request.arguments), environment(plan, os.environ))


def find_program(request: Request) -> str:
    """The client's executable. Raises ConfigError with the way to install it."""
    client = request.client
    if request.program is not None:
        if not os.access(request.program, os.X_OK):
            raise ConfigError(f"--client-path {request.program} is no program that can be run")
        return str(request.program.absolute())
    found = shutil.which(client.program)
    if found is None:
        raise ConfigError(f"{client.title} is not installed ({client.program} is not in PATH); get it: {client.install}")
    return found


def online_target(request: Request) -> Target | None:
    """The target as the server describes it; None where nobody listens. Raises ConfigError."""
    found = find_model(request.url, request.key, request.model)
    if found is None:
        return None
    keys = _WINDOW_KEYS[chosen_wire(request)]
    window = request.window or next((found[key] for key in keys if isinstance(found.get(key), int)), None)
    if window is None:
        raise ConfigError(f"{request.url} does not say how long the context of {found['id']} is; give --context")
    entry = {key: value for key, value in found.items() if key in codex_fields()} if all(key in found for key in _CATALOG_KEYS) else None
    return make_target(request, model=found["id"], window=window, entry=entry)


def offline_target(request: Request) -> Target:
    """The target as the user describes it."""
    return make_target(request, model=request.model or "", window=request.window or 0, entry=None)


def codex_fields() -> frozenset[str]:
    """The keys of a Codex entry; a model's object holds the other vendors' keys as well."""
    return frozenset(codex_entry(ModelCard(id="", created=0, context_length=1), 1))


def chosen_wire(request: Request) -> Wire:
    """The wire the user named, or the client's first. Raises ConfigError for one the client lacks."""
    client = request.client
    wire = request.wire or client.wires[0]
    if wire not in client.wires:
        raise ConfigError(f"{client.title} does not speak {wire}; it speaks {', '.join(client.wires)}")
    return wire


def make_target(request: Request, *, model: str, window: int, entry: Mapping[str, Any] | None) -> Target:
    """A target; servers that know nothing of Codex get an entry of the default profile. Raises ConfigError for a wire the client lacks."""
    made = codex_entry(ModelCard(id=model, created=0, context_length=window), 1)
    return Target(
        url=request.url,
        model=model,
        window=window,
        key=request.key,
        wire=chosen_wire(request),
        folder=request.folder,
        work=Path.cwd(),
        entry={**(entry or made), **({"context_window": window, "max_context_window": window} if request.window else {})},
    )


def write(file: ConfigFile) -> None:
    """Writes one file, readable by its owner only: it may hold a key. Raises ConfigError."""
    text = file.text
    try:
        file.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if file.mode == "first" and file.path.exists():
            return
        if file.mode == "merge" and file.path.exists():
            text = json.dumps(merged(json.loads(file.path.read_text("utf-8")), json.loads(text)), indent=2) + "\n"
        fresh = file.path.with_name(file.path.name + ".new")
        with open(fresh, "w", encoding="utf-8", opener=lambda name, flags: os.open(name, flags, 0o600)) as out:
            out.write(text)
        fresh.replace(file.path)
    except OSError as error:
        raise ConfigError(f"cannot write {file.path}: {error.strerror}; choose another folder with --state-dir") from error
    except ValueError as error:
        raise ConfigError(f"{file.path} is no JSON any more ({error}); mend it or remove it") from None


def environment(plan: Plan, inherited: Mapping[str, str]) -> dict[str, str]:
    """The client's environment."""
    return {**{key: value for key, value in inherited.items() if key not in plan.unset}, **plan.environment}


def summary(request: Request, target: Target, plan: Plan) -> Iterator[str]:
    """What was set, line by line."""
    yield f"{request.client.title} with {target.model} at {target.url}, context {target.window:,} tokens, over {target.wire}"
    for file in plan.files:
        yield f"  file   {file.path}"
    for name, value in plan.environment.items():
        shown = "(the key)" if value == target.key else " ".join(value.split())
        yield f"  set    {name}={shown}"
    for name in plan.unset:
        if name in os.environ:
            yield f"  unset  {name}"
    if target.window < request.client.least_context:
        yield f"  note   {request.client.title} wants a context of {request.client.least_context:,} tokens or more; this one is small"
    for note in plan.notes:
        yield f"  note   {note}"


def script(request: Request, plan: Plan) -> str:
    """The plan as a shell script that does by hand what a launch does."""
    lines = [f"# {request.client.title} against {request.url}"]
    for folder in dict.fromkeys(file.path.parent for file in plan.files):
        lines.append(f"mkdir -p {shlex.quote(str(folder))}")
    for file in plan.files:
        path = shlex.quote(str(file.path))
        if file.mode != "ours":
            lines.append(
                f"# only if {path} is not there yet" if file.mode == "first" else f"# keys to be merged into {path} if it is there"
            )
        lines += [f"cat > {path} <<'END'", file.text.rstrip("\n"), "END"]
    lines += [f"unset {name}" for name in plan.unset]
    lines += [f"export {name}={shlex.quote(value)}" for name, value in plan.environment.items()]
    lines.append(shlex.join(command(str(request.program or request.client.program), plan, request.arguments)))
    lines += [f"# {note}" for note in plan.notes]
    return "\n".join(lines)


def run_client(words: Sequence[str], variables: Mapping[str, str]) -> int:
    """Runs the client in the foreground; its exit status as a shell counts it. Raises ConfigError if it cannot be started.

    Ctrl-C is the client's: the terminal sends it to both, and only the client acts. A polite end is handed on to it.
    """
    try:
        child = subprocess.Popen(list(words), env=dict(variables))
    except OSError as error:
        raise ConfigError(f"cannot run {words[0]}: {error.strerror}") from error
    handlers: dict[int, Any] = {signal.SIGINT: signal.SIG_IGN}
    handlers |= {number: lambda received, _: child.send_signal(received) for number in (signal.SIGTERM, signal.SIGHUP)}
    kept = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        status = child.wait()
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)
    return status if status >= 0 else 128 - status
