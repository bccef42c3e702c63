"""A server of its own for each benchmark: `antiphon serve --engine mock` as a child process on a free loopback port."""

from collections.abc import Mapping

from bench.measure import cpu_seconds
from bench.processes import Process


class MockServer(Process):
    """A `Process` with these flags of `serve`."""

    def __init__(self, *flags: str, environment: Mapping[str, str] | None = None, module: str = "antiphon") -> None:
        super().__init__("serve", "--engine", "mock", "--http-port", "0", *flags, environment=environment, module=module)

    def cpu_seconds(self) -> float:
        """CPU time of the server so far; waits until it is at rest."""
        return cpu_seconds(self.pid)
