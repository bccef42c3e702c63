"""The OpenAI Responses surface: `read` and `ingest` a body, `Projector` a turn, `error_response` a failure."""

from antiphon_protocols.responses.compaction import CompactionProjector, SealText, compaction_body, compaction_item
from antiphon_protocols.responses.envelope import Options, Outcome, Status, response_object
from antiphon_protocols.responses.errors import ERRORS, error_response, failure, socket_error
from antiphon_protocols.responses.history import OpenCompaction, after_compaction
from antiphon_protocols.responses.ingest import ResponsesRequest, ingest, references
from antiphon_protocols.responses.labels import item_id
from antiphon_protocols.responses.project import Projector, framed
from antiphon_protocols.responses.read import ResponsesCall, read, read_compact
from antiphon_protocols.responses.tools import Target, ToolMap
from antiphon_protocols.responses.truncation import shortened

__all__ = [
    "ERRORS",
    "CompactionProjector",
    "OpenCompaction",
    "Options",
    "Outcome",
    "Projector",
    "ResponsesCall",
    "ResponsesRequest",
    "SealText",
    "Status",
    "Target",
    "ToolMap",
    "after_compaction",
    "compaction_body",
    "compaction_item",
    "error_response",
    "failure",
    "framed",
    "ingest",
    "item_id",
    "read",
    "read_compact",
    "references",
    "response_object",
    "shortened",
    "socket_error",
]
