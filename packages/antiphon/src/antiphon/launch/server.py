"""The server of a launch: found at a URL, or started as a child and stopped at the end."""

import contextlib
import json
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from antiphon_turns.errors import ConfigError

ASK_SECONDS = 10.0
POLL_SECONDS = 0.2
STOP_SECONDS = 40.0
LOG_LINES = 15
LOOPBACK = ("127.0.0.1", "localhost", "::1")
# A proxy of the environment has no way to this machine's loopback.
_opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def ask(url: str, path: str, key: str) -> dict[str, Any] | None:
    """The JSON object at `path`, or None where nobody listens. Raises ConfigError where somebody else answers."""
    request = urllib.request.Request(f"{url}{path}", headers={"authorization": f"Bearer {key}"})
    try:
        with _opener.open(request, timeout=ASK_SECONDS) as answer:
            body = json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            raise ConfigError(f"{url}{path} answers {error.code}: {refusal(error.read())}") from None
    except (urllib.error.URLError, ConnectionError) as error:
        reason = getattr(error, "reason", error)
        if isinstance(reason, ConnectionRefusedError | ConnectionResetError):
            return None
        raise ConfigError(f"{url} cannot be reached: {reason}") from None
    except (TimeoutError, HTTPException, ValueError) as error:
        raise ConfigError(f"{url} does not answer as a model server does: {error}") from None
    if not isinstance(body, dict):
        raise ConfigError(f"{url}{path} does not answer as a model server does")
    return body


def refusal(body: bytes) -> str:
    """The message of an error body of any vendor's shape."""
    with contextlib.suppress(ValueError, TypeError, KeyError):
        return str(json.loads(body)["error"]["message"])
    return body[:200].decode("utf-8", "replace") or "no reason given"


def find_model(url: str, key: str, name: str | None) -> dict[str, Any] | None:
    """The catalog object of the named model, or of the first one; None where nobody listens. Raises ConfigError."""
    if name is not None:
        return ask(url, f"/v1/models/{quote(name)}", key)
    listed = ask(url, "/v1/models", key)
    if listed is None:
        return None
    data = listed.get("data")
    if not (isinstance(data, list) and data and isinstance(data[0], dict) and isinstance(data[0].get("id"), str)):
        raise ConfigError(f"{url}/v1/models lists no model")
    entries = {entry.get("slug"): entry for entry in listed.get("models") or [] if isinstance(entry, dict)}
    return {**entries.get(data[0]["id"], {}), **data[0]}


@contextlib.contextmanager
def own_server(url: str, flags: Sequence[str], log: Path) -> Iterator[None]:
    """Runs `antiphon serve` at `url` while the block runs. Raises ConfigError if it does not come up; its output is in `log`."""
    parts = urlsplit(url)
    if parts.scheme != "http" or parts.hostname not in LOOPBACK:
        raise ConfigError(f"no server answers at {url}, and `antiphon launch` starts one on this machine only")
    where = ["--http-host", parts.hostname, "--http-port", str(parts.port or 80)]
    log.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with log.open("wb") as output:
        # A session of its own: Ctrl-C in the terminal is for the client.
        child = subprocess.Popen(
            [sys.executable, "-m", "antiphon", "serve", *where, *flags],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        wait_until_ready(url, child, log)
        yield
    finally:
        stop(child)


def wait_until_ready(url: str, child: "subprocess.Popen[bytes]", log: Path) -> None:
    """Returns when the child takes requests. Raises ConfigError with the end of its log when it ends instead."""
    while child.poll() is None:
        try:
            if ask(url, "/health", "") is not None:
                return
        except ConfigError:
            pass  # it listens before its model is loaded
        time.sleep(POLL_SECONDS)
    said = log.read_text("utf-8", "replace").strip().splitlines()[-LOG_LINES:]
    raise ConfigError("the server did not start:\n" + "\n".join(said))


def stop(child: "subprocess.Popen[bytes]") -> None:
    """Asks the child to end, and ends it if it does not."""
    child.terminate()
    try:
        child.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
