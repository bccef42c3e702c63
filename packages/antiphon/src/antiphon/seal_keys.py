"""Where the keys of the seals come from: a file the operator names, or one made in the state folder. Keys are never logged."""

import base64
import binascii
import os
from collections.abc import Callable
from pathlib import Path

from antiphon.seals import KEY_BYTES, SealKey
from antiphon_turns.errors import ConfigError

KEY_FILE = "seal-keys"


def read_keys(path: Path) -> tuple[SealKey, ...]:
    """Keys of a file: one a line, 32 bytes as base64 (either alphabet) or 64 hex digits; `#` begins a comment. The first one
    seals, all open. Raises ConfigError."""
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read the seal keys {path}: {error}") from error
    keys = []
    for number, line in enumerate(lines, 1):
        text = line.partition("#")[0].strip()
        if not text:
            continue
        secret = _secret(text)
        if secret is None:
            raise ConfigError(f"{path}, line {number}: a seal key is {KEY_BYTES} bytes as base64 or hex (openssl rand -base64 32)")
        keys.append(SealKey(secret))
    if not keys:
        raise ConfigError(f"{path} holds no seal key; write one with: openssl rand -base64 32")
    return tuple(keys)


def own_keys(state_dir: Path, *, random_bytes: Callable[[int], bytes]) -> tuple[tuple[SealKey, ...], Path | None]:
    """The keys of the state folder, made there if it has none; the path is told when they are new. Raises ConfigError."""
    path = state_dir / KEY_FILE
    if path.exists():
        return read_keys(path), None
    fresh = path.with_name(f"{KEY_FILE}.{os.getpid()}")
    try:
        state_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise ConfigError(f"cannot make {state_dir}: {error.strerror}; choose another folder with --state-dir") from error
    try:
        # For the owner alone from the first moment; it appears under its name only when it is whole, and only once.
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(base64.b64encode(random_bytes(KEY_BYTES)) + b"\n")
        os.link(fresh, path)
    except FileExistsError:
        return read_keys(path), None
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror}; choose another folder with --state-dir") from error
    finally:
        fresh.unlink(missing_ok=True)
    return read_keys(path), path


def _secret(text: str) -> bytes | None:
    try:
        if len(text) == 2 * KEY_BYTES:
            return bytes.fromhex(text)
        raw = base64.b64decode(text.replace("-", "+").replace("_", "/") + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        return None
    return raw if len(raw) == KEY_BYTES else None
