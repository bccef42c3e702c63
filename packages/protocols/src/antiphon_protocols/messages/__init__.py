"""The Anthropic Messages surface: `ingest` a body, `Projector` a turn, `error_response` a failure."""

from antiphon_protocols.messages.errors import ERRORS, error_event, error_response
from antiphon_protocols.messages.ingest import MessagesRequest, ingest, ingest_count
from antiphon_protocols.messages.project import Options, Projector, count_body

__all__ = ["ERRORS", "MessagesRequest", "Options", "Projector", "count_body", "error_event", "error_response", "ingest", "ingest_count"]
