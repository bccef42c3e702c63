"""Chat templates of the project's own, for families whose models come without one. Package data: one Jinja text a family, which
shows a turn's content as it stands, because renderers put past turns into it in the writer's text."""

from functools import lru_cache
from importlib import resources

from antiphon_parsers.registry import ModelFormat


def native_template(model: ModelFormat) -> str | None:
    """The template text of a format; None for formats whose models bring their own."""
    return _read(model.template) if model.template is not None else None


@lru_cache(maxsize=16)
def _read(name: str) -> str:
    return resources.files("antiphon_parsers").joinpath("families", "templates", f"{name}.jinja").read_text(encoding="utf-8")
