"""MLfabric for programs of one's own: the interface of the paper's Table 1.

A program runs on every host, and each process takes a role: workers, a server, a scheduler::

    from testbed.workloads.kinds.fabric import api

    params = api.Params(floats=len(weights), updates=100, rate_bps=100e6, delay_bound=8)
    match api.role(params):
        case "worker":
            with api.register_as_worker(params) as worker:
                while worker.goes_on:
                    update = -0.1 * gradient(weights)
                    worker.push(worker.server, update, norm(update))
                    worker.get(worker.server, weights)
        case "server":
            server = api.register_as_server(params)
            server.register_update_callback(add)
            server.serve(weights)
        case _:
            api.run_scheduler(params)

Nothing else has to run, and nothing of the harness: a worker's daemon is its child process, and processes find each
other by what torchrun and workloads of kind ``command`` tell a program (:mod:`.processes.meeting`). The scheduler takes
the network for a star whose links have the rate that each process tells of its host: a host knows its NIC and nothing
of switches, and in the paper's evaluation NICs are the bottlenecks. No monitor tells it of changes.
"""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType

import numpy as np

from testbed.base.errors import SpecError, WorkerError
from testbed.workloads.kinds.fabric.planning.work import Work
from testbed.workloads.kinds.fabric.processes import own_daemon, replica, server
from testbed.workloads.kinds.fabric.processes.exchange import check_floats, check_room
from testbed.workloads.kinds.fabric.processes.meeting import Place
from testbed.workloads.kinds.fabric.processes.own_daemon import Job
from testbed.workloads.kinds.fabric.processes.scheduler import Scheduler, goodput_of
from testbed.workloads.kinds.fabric.processes.server import Served
from testbed.workloads.kinds.fabric.processes.shared import Memory
from testbed.workloads.kinds.fabric.processes.worker import Worker
from testbed.workloads.kinds.fabric.program import Params, name_of, register, role
from testbed.workloads.kinds.fabric_sync.processes import SumsServer
from testbed.workloads.link_rates import Follower
from testbed.workloads.serving.exchange import Floats

__all__ = [
    "Params",
    "Place",
    "Replica",
    "Server",
    "Worker",
    "name_of",
    "register_as_replica",
    "register_as_server",
    "register_as_worker",
    "role",
    "run_scheduler",
]

UpdateCallback = Callable[[Floats, Floats, int], None]
"""Changes weights, the first array, by an update, or by the sum of several; the number says of how many."""
RequestCallback = Callable[[Floats], Floats]
"""Makes, from the weights, those that workers get; the result is copied before the weights change again."""


def register_as_worker(params: Params, place: Place | None = None) -> Worker:
    """Meet the other processes, and start this host's daemon; to be used in a ``with`` statement, whose end ends the
    daemon.

    All workers begin with the weights that the server begins with. The thread that calls this must live until the end,
    for the daemon ends with it.

    Raises:
        SpecError: the processes do not fit together, or the machine has less memory than the arrays need.
        TrialTimeoutError, WorkerError: others did not come, or the daemon has ended.
    """
    job = register("worker", params, place)
    with ExitStack() as undo:
        memory = Memory.make(params.floats)
        undo.callback(memory.close)
        ours, theirs = socket.socketpair()
        undo.enter_context(ours)
        with theirs:
            daemon = own_daemon.start(job, params.floats, theirs, memory)
        undo.pop_all()
    return _OwnWorker(job, ours, memory, daemon, params.sums)


def register_as_server(params: Params, place: Place | None = None) -> Server:
    """Meet the other processes, as the server.

    Raises:
        SpecError: the processes do not fit together.
        TrialTimeoutError, WorkerError: others did not come.
    """
    return Server(register("server", params, place), params)


def register_as_replica(server: str, params: Params, place: Place | None = None) -> Replica:
    """Meet the other processes, as the replica of ``server`` (:func:`name_of` its rank).

    Raises:
        SpecError: the processes do not fit together, or the server is another one.
        TrialTimeoutError, WorkerError: others did not come.
    """
    job = register("replica", params, place)
    found = job.plan.nodes[job.plan.server]
    if server != found:
        raise SpecError(
            f"{job.plan.nodes[job.node]} is to be the replica of {server!r}, and the server is {found}",
            fix=f"register as the replica of {found}",
        )
    return Replica(job, params)


def run_scheduler(params: Params, place: Place | None = None) -> None:
    """Schedule until all updates are applied or dropped. The paper's table lacks it: there it is a service.

    Raises:
        SpecError: the processes do not fit together.
        TrialTimeoutError, WorkerError: others did not come, fell silent, or are gone.
    """
    job = register("scheduler", params, place)
    sockets = job.connect()
    work = Work(4 * params.floats, params.updates, 0.0, 0, goodput_of(sockets[job.plan.server]))
    nobody_tells = Follower(Path(os.devnull), 2 * len(job.plan.links))
    job.run(Scheduler(job.plan, sockets, work, nobody_tells))


class _OwnWorker(Worker):
    def __init__(
        self, job: Job, sock: socket.socket, memory: Memory, daemon: subprocess.Popen[bytes], sums: bool
    ) -> None:
        super().__init__(job.plan, job.node, sock, memory, job.timeout_s)
        self._daemon, self.leaves_sums = daemon, sums

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Raises WorkerError: the daemon did not end well, because the training had not ended or others failed."""
        super().__exit__(kind, error, trace)
        self._memory.close()
        if error is not None:
            self._daemon.kill()
        try:
            status = self._daemon.wait(self._timeout_s)
        except subprocess.TimeoutExpired:
            self._daemon.kill()
            status = self._daemon.wait()
        if error is None and status:
            raise WorkerError(
                f"the daemon of {self._name} ended with exit status {status}",
                fix="read what it wrote before; push and get until goes_on is false",
            )


class _Applies:
    """A process with weights, whose program says by a callback how updates change them."""

    def __init__(self, job: Job, params: Params) -> None:
        self._job, self._params = job, params
        self._update: UpdateCallback = _add

    def register_update_callback(self, callback: UpdateCallback) -> None:
        """Change the weights by ``callback``; otherwise an update is added to them (eq. 2 without momentum)."""
        self._refuse_sums("an update callback")
        self._update = callback

    def _served(self, weights: object) -> Served:
        """Return the weights, and the function that changes them."""
        fit = check_floats(weights, self._params.floats, "the array of weights")
        check_room(fit, "the array of weights")

        def apply(floats: Floats, _is_sum: bool, count: int) -> None:
            with _named("update"):
                self._update(fit, floats, count)

        return Served((fit,), apply)

    def _run(self, made: server.Server) -> int:
        self._job.run(made)
        return made.journal.version

    def _refuse_sums(self, what: str) -> None:
        if self._params.sums:
            raise SpecError(f"a server has {what}, and makes sums", fix=f"remove {what}, or sums from Params")


class Server(_Applies):
    """The server."""

    def __init__(self, job: Job, params: Params) -> None:
        super().__init__(job, params)
        self._request: RequestCallback = np.asarray

    def register_request_callback(self, callback: RequestCallback) -> None:
        """Send what ``callback`` makes of the weights. Without it, the weights themselves are sent."""
        self._refuse_sums("a request callback")
        self._request = callback

    def serve(self, weights: Floats | None = None) -> int:
        """Apply updates until all have come or were dropped; return how many were applied.

        Args:
            weights: float32[floats], which change in place; None for a server that makes sums.

        Raises:
            SpecError: the weights are no such array, or a callback gives none.
            TrialTimeoutError, WorkerError: others fell silent, or are gone, or a callback failed.
        """
        if not self._params.sums:
            served = replace(self._served(weights), copied=self._asked)
            return self._run(server.Server(self._job.plan, self._job.node, self._job.connect(), served))
        if weights is not None:
            self._refuse_sums("weights")
        return self._run(SumsServer(self._job.plan, self._job.node, self._job.connect(), self._params.floats))

    def _asked(self, weights: Floats) -> Floats:
        with _named("request"):
            made = self._request(weights)
        # It may be the weights themselves, which change while it is sent, or a view of any order.
        return np.array(check_floats(made, self._params.floats, "what the request callback returns"), order="C")


class Replica(_Applies):
    """The server's replica: it applies the same updates in the same order, at most Div_max behind."""

    def serve(self, weights: Floats) -> int:
        """Apply updates until the server has ended; return how many were applied.

        Args:
            weights: float32[floats], those that the server begins with, which change in place.

        Raises:
            SpecError: the weights are no such array.
            TrialTimeoutError, WorkerError: others fell silent, or are gone, or the callback failed.
        """
        served = self._served(weights)
        return self._run(replica.Replica(self._job.plan, self._job.node, self._job.connect(), served))


@contextmanager
def _named(what: str) -> Iterator[None]:
    """Raises WorkerError: a callback failed, which is the program's mistake whatever it raised."""
    try:
        yield
    except Exception as error:
        raise WorkerError(
            f"the {what} callback failed: {type(error).__name__}: {error}", fix=f"mend the {what} callback"
        ) from error


def _add(weights: Floats, update: Floats, _count: int) -> None:
    weights += update
