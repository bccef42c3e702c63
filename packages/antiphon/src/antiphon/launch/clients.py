"""The clients that can be launched."""

from antiphon.launch.claude import CLAUDE
from antiphon.launch.codex import CODEX
from antiphon.launch.openclaw import OPENCLAW
from antiphon.launch.opencode import OPENCODE
from antiphon.launch.pi import PI
from antiphon.launch.plan import Client

CLIENTS: dict[str, Client] = {client.name: client for client in (CLAUDE, CODEX, OPENCODE, OPENCLAW, PI)}
