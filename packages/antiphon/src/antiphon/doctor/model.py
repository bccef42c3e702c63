"""The model: its files, its template, its parsers, and whether its context is long enough for the known clients."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from antiphon.config import Settings
from antiphon.doctor.finding import Finding, failed, ok, warning
from antiphon.engines.slot_count import default_slots
from antiphon.model import Model


class Need(NamedTuple):
    """What a client wants of a context, in tokens; the table of docs/clients/README.md has the same."""

    client: str
    least: int
    better: int


NEEDS = (
    Need("Claude Code", 32_768, 65_536),
    Need("Codex", 16_384, 65_536),
    Need("OpenCode", 16_384, 65_536),
    Need("OpenClaw", 40_960, 65_536),
    Need("pi", 8_192, 8_192),
)


def examine_file(path: Path) -> Finding:
    """Whether the model's files are there and can be read."""
    if not path.exists():
        return failed("model", f"{path} is not there", "give --model-path a .gguf file, or a folder with tokenizer.json")
    if not os.access(path, os.R_OK | (os.X_OK if path.is_dir() else 0)):
        return failed("model", f"{path} may not be read", "let the user of the server read it (chmod, chown)")
    if path.is_dir():
        return ok("model", f"{path}, a folder")
    return ok("model", f"{path}, {path.stat().st_size / 1e6:,.0f} MB")


def examine_model(model: Model, settings: Settings, *, memory: int) -> Iterator[Finding]:
    """What a model that could be loaded is like. `memory`: the machine's, in bytes; 0 where it is not known."""
    yield examine_template(model)
    yield examine_parsers(model)
    yield examine_context(model.context_length)
    runs_here = settings.engine == "embedded" and (settings.local_worker or not (settings.worker_urls or settings.workers))
    if memory and runs_here and model.path.is_file():
        yield examine_memory(model, settings, memory=memory)


def examine_template(model: Model) -> Finding:
    """What the chat template can show of a session."""
    abilities = model.renderer.abilities
    if not abilities.renders_tools:
        return warning("template", "it does not show tools, so agents cannot act", "use a model that was trained to call tools")
    shown = {"system text": abilities.accepts_system, "results": abilities.accepts_tool_role}
    shows = ["tools", *(name for name, can in shown.items() if can)]
    return ok("template", f"{len(model.template_text):,} characters; shows {', '.join(shows)}")


def examine_parsers(model: Model) -> Finding:
    """Whether it is certain how the output must be read."""
    if model.others:
        others = ", ".join(f"{other.name} ({other.confidence:.0%})" for other in model.others)
        return warning(
            "parsers",
            f"{model.label}; {others} would fit as well",
            "name it: --tool-call-parser, --reasoning-parser (antiphon models detect)",
        )
    if model.format.names[0] is None:
        return warning(
            "parsers", "no format of tool calls was recognized, so calls stay text", "name it: --tool-call-parser (antiphon models list)"
        )
    return ok("parsers", f"{model.label}: {model.why}")


def examine_context(context_length: int) -> Finding:
    """Which clients the context is long enough for."""
    short = [need for need in NEEDS if context_length < need.least]
    says = f"{context_length:,} tokens"
    if short:
        names = ", ".join(f"{need.client} ({need.least:,})" for need in short)
        advice = f"--context-length {max(need.least for need in short)}, if the model was trained for it, or another model"
        return warning("context", f"{says}: too short for {names}", advice)
    tight = ", ".join(need.client for need in NEEDS if context_length < need.better)
    return ok("context", f"{says}: enough for all known clients" + (f"; tight for {tight}" if tight else ""))


def examine_memory(model: Model, settings: Settings, *, memory: int) -> Finding:
    """Whether weights and cache fit."""
    slots = settings.slots or default_slots(model.kv_bytes_per_token, model.context_length, memory=memory)
    weights, cache = model.path.stat().st_size, (model.kv_bytes_per_token or 0) * model.context_length * slots
    says = f"{weights / 1e9:.1f} GB of weights and {cache / 1e9:.1f} GB of cache ({slots} slots), of {memory / 1e9:.1f} GB"
    if weights + cache > memory * 0.9:
        return warning("memory", says, "fewer --slots, a shorter --context-length, or a smaller quantization")
    return ok("memory", says)
