"""On whose behalf the running task works: the labels of what is counted far from the request."""

from contextvars import ContextVar

from antiphon import client_family

NO_SURFACE = "none"

surface: ContextVar[str] = ContextVar("surface", default=NO_SURFACE)
"""The surface of the turn that the running task serves; NO_SURFACE outside of turns."""


def labels() -> tuple[str, str]:
    """The surface, and the client's family."""
    return surface.get(), client_family.current.get()
