"""A process without a rank: a parameter server, or a switch that adds. It makes a call when a neighbour tells of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from socket import socket

from testbed.base.errors import SchemeError
from testbed.workloads.job import WorkerJob
from testbed.workloads.kinds.script.collectives.calls import Call
from testbed.workloads.kinds.script.collectives.shapes import kept, shape
from testbed.workloads.kinds.script.engine.carrier import Carrier
from testbed.workloads.kinds.script.engine.operation import Ending, Key, Operation
from testbed.workloads.sync import transport
from testbed.workloads.sync.connection import Connection
from testbed.workloads.sync.forest import Forest


class Server(Carrier):
    """A server: it takes part in whatever ranks call, until all have left. It has no timeout: ranks have those of their
    script."""

    def __init__(self, node: int, forest: Forest, sockets: Mapping[int, socket], chunk_bytes: int) -> None:
        super().__init__(node, forest.nodes, sockets)
        self._forest = forest
        self._shape = kept(lambda call: shape(forest, call, chunk_bytes, node))

    def serve(self, buckets: int, done: int, total: int, silence_s: float) -> Iterator[int]:
        """Serve until all ranks have left, without counting iterations.

        Raises:
            WorkerError: ranks make other calls than each other, or one has ended.
        """
        self.run()
        if self._failed is not None:
            raise self._failed
        yield from ()

    _failed: BaseException | None = None

    def _fail(self, error: BaseException) -> None:
        self._failed = error
        super()._fail(error)

    def _let_go(self) -> None:
        """Keep the connections open: the code that has entered this session leaves it, and asks for its counts
        before."""

    def _left(self, node: int) -> None:
        """Pass the leaving of a node on to other servers, which may have no rank beside them; when the last rank has
        left, this process leaves, too."""
        for connection in self._connections:
            if connection.node not in self._forest.workers:
                self._say_left(connection, node)
        if self._gone.issuperset(self._forest.workers):
            self._say_bye()

    def _announced(self, connection: Connection, key: Key, signature: bytes) -> None:
        """Make the call that a neighbour has made, too.

        Raises:
            WorkerError: it is none that this process has a part in.
        """
        try:
            call = Call.decode(signature)
            own = self._shape(call)
        except (ValueError, SchemeError):
            raise self._misfit(connection.name, key, 0) from None
        op = Operation(key, own, self._name, None, Ending(lambda _: None))
        super()._announced(connection, key, signature)
        self._begin(op)


def join(job: WorkerJob, plan: Forest, called_off: Callable[[], None]) -> Server:
    """Meet the ranks.

    Raises:
        TrialTimeoutError, WorkerError: one of them did not come.
        PrivilegeError: the kernel refuses the congestion control.
    """
    names: Sequence[str] = plan.nodes
    sockets = transport.connect(job.node, job.peers, names, job.congestion_control, job.start_timeout_s, called_off)
    return Server(job.node, plan, sockets, job.chunk_bytes)
