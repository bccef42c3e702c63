"""Fifty forced tool calls at temperature 0 on the default model. Exit status 1 if one is missing, cut or breaks its schema.

usage: .venv/bin/python scripts/forced_calls.py [--url http://127.0.0.1:8000]

Without --url a server is started on a free port and stopped at the end. Each case is asked of both surfaces in turn,
with the tool left open ("any" / "required") or named.
"""

import argparse
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import jsonschema

Json = dict[str, Any]
START_SECONDS = 60
MAX_TOKENS = 400


def tool(name: str, required: tuple[str, ...] = (), **properties: Json) -> Json:
    """One tool in the Messages form."""
    schema = {"type": "object", "properties": properties, "required": list(required)}
    return {"name": name, "description": name.replace("_", " "), "input_schema": schema}


STRING: Json = {"type": "string"}
INTEGER: Json = {"type": "integer"}
COLOUR = tool("paint", ("colour",), colour={"enum": ["red", "green", "blue"]}, coats=INTEGER)
ADDRESS: Json = {"type": "object", "properties": {"street": STRING, "number": INTEGER}, "required": ["street", "number"]}
SHIP = tool("ship", ("to", "express"), to=ADDRESS, express={"type": "boolean"})
LABEL = tool("label", ("names",), names={"type": "array", "items": STRING, "maxItems": 4})
SEARCH = tool("search", ("query",), query=STRING, limit=INTEGER, exact={"type": "boolean"})
BARE = tool("refresh")
MANY = [tool(f"tool_{letter}", ("value",), value=STRING) for letter in "abcdefghijklmnopqrst"]
PREFIXES = [
    tool("read", ("path",), path=STRING),
    tool("read_file", ("path",), path=STRING),
    tool("read_file_lines", ("path", "count"), path=STRING, count=INTEGER),
]

# (what, tools, tool to name or None)
CASES: list[tuple[str, list[Json], str | None]] = [
    ("enum", [COLOUR], None),
    ("nested object", [SHIP], None),
    ("array", [LABEL], None),
    ("optional keys", [SEARCH], None),
    ("no parameters", [BARE], None),
    ("20 tools", MANY, None),
    ("20 tools, named", MANY, "tool_k"),
    ("prefix names", PREFIXES, None),
    ("prefix names, named", PREFIXES, "read_file"),
    ("mixed", [COLOUR, SHIP, LABEL, SEARCH], None),
]
PROMPTS = (
    "Paint the door green, then read the file notes.txt.",
    "Send the parcel to 12 High Street, it is urgent.",
    "Hello!",
    'Ignore the tools and write a poem about "quotes", {braces} and </tool_call>.',
    "List three names, search for trains to Rome and tell me the time.",
)


def messages_call(client: httpx.Client, prompt: str, tools: list[Json], name: str | None) -> tuple[str, Any]:
    """(tool name, arguments) over Messages."""
    choice: Json = {"type": "tool", "name": name} if name else {"type": "any"}
    body = {"max_tokens": MAX_TOKENS, "temperature": 0, "tools": tools, "tool_choice": choice}
    reply = client.post("/v1/messages", json=body | {"model": model_name(client), "messages": [{"role": "user", "content": prompt}]})
    reply.raise_for_status()
    calls = [block for block in reply.json()["content"] if block["type"] == "tool_use"]
    if len(calls) != 1:
        raise ValueError(f"{len(calls)} calls, stop_reason {reply.json()['stop_reason']}")
    return calls[0]["name"], calls[0]["input"]


def chat_call(client: httpx.Client, prompt: str, tools: list[Json], name: str | None) -> tuple[str, Any]:
    """(tool name, arguments) over Chat Completions."""
    functions = [
        {"type": "function", "function": {"name": t["name"], "description": t["description"], "parameters": t["input_schema"]}}
        for t in tools
    ]
    choice: Json | str = {"type": "function", "function": {"name": name}} if name else "required"
    body = {"max_tokens": MAX_TOKENS, "temperature": 0, "tools": functions, "tool_choice": choice}
    reply = client.post(
        "/v1/chat/completions", json=body | {"model": model_name(client), "messages": [{"role": "user", "content": prompt}]}
    )
    reply.raise_for_status()
    answer = reply.json()["choices"][0]
    calls = answer["message"].get("tool_calls") or []
    if len(calls) != 1:
        raise ValueError(f"{len(calls)} calls, finish_reason {answer['finish_reason']}")
    return calls[0]["function"]["name"], json.loads(calls[0]["function"]["arguments"])


def model_name(client: httpx.Client) -> str:
    """The one model the server has."""
    return str(client.get("/v1/models").json()["data"][0]["id"])


def check(tools: list[Json], wanted: str | None, name: str, arguments: object) -> None:
    """Raises ValueError or jsonschema's ValidationError unless the call is one of the offered tools and fits it."""
    schemas = {t["name"]: t["input_schema"] for t in tools}
    if name not in schemas or (wanted is not None and name != wanted):
        raise ValueError(f"called {name!r}")
    jsonschema.validate(arguments, schemas[name] | {"additionalProperties": False})


@contextmanager
def served() -> Iterator[str]:
    """A server of the default model on a free port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    antiphon = Path(sys.executable).parent / "antiphon"
    with subprocess.Popen([antiphon, "serve", "--http-port", str(port)], stdout=subprocess.DEVNULL, env=os.environ) as process:
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()


def wait_until_healthy(client: httpx.Client) -> None:
    """Returns when /health says 200; SystemExit after a minute."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        try:
            if client.get("/health").status_code == httpx.codes.OK:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.2)
    raise SystemExit(f"the server did not become healthy within {START_SECONDS} s")


def run(url: str) -> int:
    """Asks for every call; returns how many failed."""
    failed = 0
    with httpx.Client(base_url=url, timeout=300) as client:
        wait_until_healthy(client)
        for number, (what, tools, wanted) in enumerate(CASES):
            started, bad = time.monotonic(), []
            for turn, prompt in enumerate(PROMPTS):
                ask = messages_call if (number + turn) % 2 == 0 else chat_call
                try:
                    check(tools, wanted, *ask(client, prompt, tools, wanted))
                except (ValueError, jsonschema.ValidationError, httpx.HTTPError) as error:
                    bad.append(f"    {ask.__name__} {prompt[:30]!r}: {str(error).splitlines()[0]}\n")
            failed += len(bad)
            sys.stdout.write(
                f"{what:22} {len(PROMPTS) - len(bad)}/{len(PROMPTS)} valid  {time.monotonic() - started:6.1f} s\n" + "".join(bad)
            )
            sys.stdout.flush()
    total = len(CASES) * len(PROMPTS)
    sys.stdout.write(f"{total - failed} of {total} forced calls valid\n")
    return failed


def main() -> None:
    """Runs against --url, or against a server of our own."""
    parser = argparse.ArgumentParser(description="Fifty forced tool calls on the default model.")
    parser.add_argument("--url", help="a running server; without it one is started")
    url = parser.parse_args().url
    if url:
        failed = run(url)
    else:
        with served() as own:
            failed = run(own)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
