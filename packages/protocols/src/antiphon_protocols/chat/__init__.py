"""The OpenAI Chat Completions surface: `ingest` a body, `Projector` a turn, `error_response` a failure."""

from antiphon_protocols.chat.errors import ERRORS, error_body, error_event, error_response
from antiphon_protocols.chat.ingest import ChatRequest, ingest
from antiphon_protocols.chat.project import Options, Projector

__all__ = ["ERRORS", "ChatRequest", "Options", "Projector", "error_body", "error_event", "error_response", "ingest"]
