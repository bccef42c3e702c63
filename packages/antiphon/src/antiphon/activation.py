"""A listening socket that the service manager holds: while one server drains and the next one loads, clients wait instead of being refused.

The protocol is that of sd_listen_fds(3): LISTEN_PID names the process that is meant, LISTEN_FDS says how many sockets begin at 3.
"""

import socket
from collections.abc import MutableMapping

from antiphon_turns.errors import ConfigError

FIRST = 3


def inherited_listener(environment: MutableMapping[str, str], pid: int) -> socket.socket | None:
    """The socket that was handed to this process, None where there is none. The variables are taken away, so that no child believes in
    them. Raises ConfigError for more than one socket, and for one that does not listen."""
    count, meant = environment.get("LISTEN_FDS", ""), environment.get("LISTEN_PID", "")
    if meant != str(pid) or not count.isdecimal() or int(count) == 0:
        return None
    for name in ("LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES"):
        environment.pop(name, None)
    if int(count) > 1:
        raise ConfigError(f"the service manager hands over {count} sockets, and this server listens to one; name one ListenStream")
    try:
        listener = socket.socket(fileno=FIRST)
        listens = listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    except OSError as error:
        raise ConfigError(f"the service manager's socket cannot be used: {error.strerror}") from error
    if not listens or listener.family not in (socket.AF_INET, socket.AF_INET6):
        listener.close()
        raise ConfigError("the service manager's socket must be a TCP socket that listens (ListenStream=ADDRESS:PORT)")
    listener.set_inheritable(False)
    return listener
