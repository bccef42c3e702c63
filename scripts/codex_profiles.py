"""What Codex does with no catalog entry, with the profile `minimal` and with `gpt-5.5`. Prints the table of docs/clients/codex.md.

usage: codex_profiles.py CODEX_PROGRAM      (run by scripts/codex_profiles.sh, in a network namespace without a way out)

Each arm is one session of `codex exec` against a small server of this script: the model asks for a command whose output is long and
then says its last words. Of what Codex sends, only counts, names and settings are kept.
"""

import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from antiphon_protocols.models import ModelCard, codex_entry
from antiphon_protocols.profiles import PROFILES

MODEL = "local"
WINDOW = 131_072
COMMAND = "seq 1 30000"
COMMAND_BYTES = 168_894
LIMIT_SECONDS = 90
FEW_TOKENS, MANY_TOKENS = 1000, 116_000
ARMS = {"no entry": None, "`minimal`": "minimal", "`gpt-5.5`": "gpt-5.5"}


def events(items: list[dict[str, Any]], number: int, tokens: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """A whole answer: its items, then the end with the usage Codex insists on."""
    response = {"id": f"resp_{number}", "object": "response", "status": "in_progress", "output": []}
    yield "response.created", {"response": response}
    for index, item in enumerate(items):
        yield "response.output_item.added", {"output_index": index, "item": item}
        yield "response.output_item.done", {"output_index": index, "item": item}
    details = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 1}}
    usage = {"input_tokens": tokens, "output_tokens": 10, "total_tokens": tokens + 10, **details}
    yield "response.completed", {"response": {**response, "status": "completed", "output": items, "usage": usage}}


def answer(number: int, tokens: int) -> bytes:
    """The first answer thinks and calls, and says that its prompt had so many tokens; the others speak."""
    if number > 1:
        tokens = FEW_TOKENS
        content = [{"type": "output_text", "text": "FINAL_OK", "annotations": []}]
        items: list[dict[str, Any]] = [{"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": content}]
    else:
        summary = [{"type": "summary_text", "text": "A thought in summary."}]
        call = {"name": "exec_command", "arguments": json.dumps({"cmd": COMMAND}), "call_id": "call_1", "status": "completed"}
        items = [
            {"type": "reasoning", "id": "rs_1", "summary": summary, "encrypted_content": "x"},
            {"type": "function_call", "id": "fc_1", **call},
        ]
    return b"".join(
        f"event: {kind}\ndata: {json.dumps({'type': kind, **data})}\n\n".encode() for kind, data in events(items, number, tokens)
    )


class Recorder(ThreadingHTTPServer):
    """Answers `POST /v1/responses` and keeps the bodies."""

    def __init__(self, tokens: int) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.tokens = tokens
        self.bodies: list[dict[str, Any]] = []


class Handler(BaseHTTPRequestHandler):
    server: Recorder
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.bodies.append(body)
        data = answer(len(self.server.bodies), self.server.tokens)
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing: the table is the output."""


def session(program: str, profile: str | None, *, tokens: int = FEW_TOKENS) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """(bodies Codex sent, events it printed) of one session."""
    with Recorder(tokens) as server, tempfile.TemporaryDirectory() as folder:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        settings = {
            "model": json.dumps(MODEL),
            "model_provider": '"local"',
            "model_providers.local.name": '"local"',
            "model_providers.local.base_url": json.dumps(f"http://127.0.0.1:{server.server_address[1]}/v1"),
            "model_providers.local.wire_api": '"responses"',
            "model_providers.local.env_key": '"LOCAL_KEY"',
            "check_for_update_on_startup": "false",
            "analytics.enabled": "false",
        }
        if profile is not None:
            entry = codex_entry(ModelCard(id=MODEL, created=0, context_length=WINDOW, profile=PROFILES[profile]), 1)
            catalog = Path(folder) / "models.json"
            catalog.write_text(json.dumps({"models": [entry]}))
            settings["model_catalog_json"] = json.dumps(str(catalog))
        overrides = [word for key, value in settings.items() for word in ("-c", f"{key}={value}")]
        flags = ["exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "--json", "Run the command."]
        variables = {**os.environ, "HOME": folder, "CODEX_HOME": f"{folder}/codex", "LOCAL_KEY": "x"}
        Path(folder, "codex").mkdir()
        done = subprocess.run(
            [program, *overrides, *flags],
            cwd=folder,
            env=variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT_SECONDS,
            check=False,
        )
        server.shutdown()
    printed = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode != 0 or len(server.bodies) < 2:
        sys.exit(f"codex ended with {done.returncode} after {len(server.bodies)} requests: {done.stderr[-800:]}")
    return server.bodies, printed


def compacts(bodies: list[dict[str, Any]]) -> bool:
    """Whether Codex asked for a summary of the session."""
    return any(
        '"request_kind":"compaction"' in json.dumps(body.get("client_metadata")).replace("\\", "").replace(" ", "") for body in bodies
    )


def tool_names(tools: list[dict[str, Any]]) -> list[str]:
    """Names, with the kind where a tool is no function."""
    kinds = {"custom": " (freeform)", "namespace": " (namespace)"}
    return [tool.get("name", tool["type"]) + kinds.get(tool["type"], "") for tool in tools]


def facts(bodies: list[dict[str, Any]], printed: list[dict[str, Any]]) -> dict[str, str]:
    """The rows of one arm."""
    first = bodies[0]
    output = next(item["output"] for item in bodies[-1]["input"] if item.get("type") == "function_call_output")
    text = output if isinstance(output, str) else "".join(part.get("text", "") for part in output)
    items = [event["item"] for event in printed if event.get("type") == "item.completed"]
    warnings = [item.get("message", "")[:60] for item in items if item.get("type") == "error"]
    base = first["input"][0]["content"][0]["text"] if first["input"][0].get("role") == "developer" else ""
    reasoning = first.get("reasoning") or {}
    return {
        "tools offered": ", ".join(tool_names(first.get("tools", []))),
        "bytes of the tools": f"{len(json.dumps(first.get('tools', []))):,}",
        "bytes of the base instructions": f"{len(base.encode()):,}",
        "bytes of the whole first request": f"{len(json.dumps(first)):,}",
        "`reasoning.effort`": str(reasoning.get("effort", "not sent")),
        "`reasoning.summary`": str(reasoning.get("summary", "not sent")),
        "`text.verbosity`": str((first.get("text") or {}).get("verbosity", "not sent")),
        "`parallel_tool_calls`": str(first.get("parallel_tool_calls")).lower(),
        f"of {COMMAND_BYTES:,} bytes of tool output, sent back": f"{len(text.encode()):,}",
        "reasoning shown to the user": "yes" if any(item.get("type") == "reasoning" for item in items) else "no",
        "warnings": "; ".join(warnings) or "none",
    }


def main() -> None:
    """Runs the arms and prints the table."""
    arms = {name: facts(*session(sys.argv[1], profile)) for name, profile in ARMS.items()}
    for name, profile in ARMS.items():
        bodies, _ = session(sys.argv[1], profile, tokens=MANY_TOKENS)
        arms[name][f"compacts a session of {MANY_TOKENS:,} tokens (context {WINDOW:,})"] = "yes" if compacts(bodies) else "no"
    lines = ["| | " + " | ".join(arms) + " |", "|---|" + "---|" * len(arms)]
    lines += [f"| {row} | " + " | ".join(arm[row] for arm in arms.values()) + " |" for row in next(iter(arms.values()))]
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
