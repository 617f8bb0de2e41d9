"""The daemon of a program's worker: its child process, which ends with it.

Usage: ``python -P -m testbed.workloads.kinds.fabric.processes.own_daemon PARENT``, with a :class:`Job` on its standard
input.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from socket import socket
from typing import Any

from testbed.base.errors import TestbedError, TrialTimeoutError, WorkerError
from testbed.base.python import module_command
from testbed.workloads.job import Peer
from testbed.workloads.kinds.fabric import plan as plans
from testbed.workloads.kinds.fabric.plan import Fabric
from testbed.workloads.kinds.fabric.processes.daemon import Daemon
from testbed.workloads.kinds.fabric.processes.shared import Memory
from testbed.workloads.process.lifeline import end_with
from testbed.workloads.sync import transport
from testbed.workloads.sync.reception import WAIT_LONGER
from testbed.workloads.sync.session import Session


@dataclass(frozen=True)
class Job:
    """Settings of a process of a program.

    Attributes:
        node: its place in the plan.
        peers: how to reach the others that it is connected with.
        timeout_s: how long it waits at most while nothing moves.
    """

    plan: Fabric
    node: int
    peers: Sequence[Peer]
    congestion_control: str
    timeout_s: float

    def connect(self) -> dict[int, socket]:
        """Connect to the other processes.

        Raises:
            TrialTimeoutError, WorkerError: one of them did not come.
        """
        try:
            return transport.connect(self.node, self.peers, self.plan.nodes, self.congestion_control, self.timeout_s)
        except TrialTimeoutError as error:
            fix = str(error.fix).replace(WAIT_LONGER, "wait longer (timeout_s of Params)")
            raise TrialTimeoutError(error.problem, fix=fix) from error

    def run(self, process: Session) -> None:
        """Run a process that serves workers, until no process has anything left to do.

        Raises:
            TrialTimeoutError, WorkerError: others fell silent, or are gone.
        """
        with process:
            for _ in process.serve(1, 0, 1, self.timeout_s):
                pass


def start(job: Job, floats: int, worker: socket, memory: Memory) -> subprocess.Popen[bytes]:
    """Start a daemon, which takes the other end of its worker's socket, and the memory.

    Raises:
        WorkerError: it ended at once.
    """
    descriptors = worker.fileno(), memory.descriptor
    told = {"job": asdict(job), "floats": floats, "descriptors": descriptors}
    command = module_command(__name__, str(os.getpid()))
    child = subprocess.Popen(command, stdin=subprocess.PIPE, pass_fds=descriptors)
    assert child.stdin is not None
    try:
        with child.stdin as stdin:
            stdin.write(json.dumps(told).encode())
    except BrokenPipeError:
        raise WorkerError(
            f"the daemon of {job.plan.nodes[job.node]} ended with exit status {child.wait()}",
            fix="read what it wrote before",
        ) from None
    return child


def main(parent: int) -> int:
    """Run the daemon, and return the exit status."""
    if not end_with(parent):
        return 1
    told: dict[str, Any] = json.load(sys.stdin)
    fields = told["job"]
    peers = [Peer(**one) for one in fields.pop("peers")]
    job = Job(plans.from_fields(fields.pop("plan")), peers=peers, **fields)
    worker, memory = told["descriptors"]
    try:
        sockets = job.connect()
        job.run(Daemon(job.plan, job.node, sockets, socket(fileno=worker), Memory(memory, told["floats"]), 0.0))
    except TestbedError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
