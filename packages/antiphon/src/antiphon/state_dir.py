"""The folder for what outlives a run: seal keys, the store of responses."""

import os
from collections.abc import Mapping
from pathlib import Path


def default_state_dir(environment: Mapping[str, str] = os.environ) -> Path:
    """`$XDG_STATE_HOME/antiphon`, or `~/.local/state/antiphon`; a relative XDG path counts as unset, as its specification says."""
    base = Path(environment.get("XDG_STATE_HOME", ""))
    return (base if base.is_absolute() else Path.home() / ".local" / "state") / "antiphon"
