"""Long checks run only when their path is named on the command line."""

from pathlib import Path

import pytest


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leaves this folder out of a run of the whole suite."""
    named = any("long" in Path(argument.split("::")[0]).parts for argument in config.args)
    return None if named else True
