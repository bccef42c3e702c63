"""Whether the other end of a connection is still there: a host that has vanished says nothing, so the kernel asks it."""

import asyncio
import socket

# After so many seconds without a byte it is asked, so often, and given up after so many askings. Bytes that nobody takes count too.
IDLE_SECONDS = 10
ASK_SECONDS = 5
ASKINGS = 3
_NAMED = (
    ("TCP_KEEPIDLE", IDLE_SECONDS),
    ("TCP_KEEPINTVL", ASK_SECONDS),
    ("TCP_KEEPCNT", ASKINGS),
    ("TCP_USER_TIMEOUT", (IDLE_SECONDS + ASK_SECONDS * ASKINGS) * 1000),
)


def watch_peer(transport: asyncio.Transport) -> None:
    """A peer that has vanished is noticed within half a minute, where the system can do it; the connection is then lost like any other."""
    peer = transport.get_extra_info("socket")
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _NAMED:
        option = getattr(socket, name, None)
        if option is not None:
            peer.setsockopt(socket.IPPROTO_TCP, option, value)
