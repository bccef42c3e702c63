"""Wire protocols of coding agents: a request body in, turn events out as wire bytes. Pure; no I/O."""

from antiphon_protocols.errors import ErrorResponse
from antiphon_protocols.sessions import parent_session_id, session_id

__all__ = ["ErrorResponse", "parent_session_id", "session_id"]
