"""The legacy OpenAI Completions surface: `ingest` a body, `Projector` a turn. Errors are those of Chat."""

from antiphon_protocols.completions.ingest import CompletionsRequest, ingest
from antiphon_protocols.completions.project import Options, Projector

__all__ = ["CompletionsRequest", "Options", "Projector", "ingest"]
