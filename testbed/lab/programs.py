"""Processes on the nodes of a lab: what to start, how it ended, and what can be done to it meanwhile."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from testbed.base.errors import LabError
from testbed.base.process_names import check_name
from testbed.topologies.model import Topology


@dataclass(frozen=True)
class Program:
    """A program to run in place of a worker: its words, variables added to the environment, the folder it starts in,
    and the caller's variables that it does not get."""

    words: tuple[str, ...]
    environment: Mapping[str, str]
    folder: str
    cleared: tuple[str, ...] = ()


@dataclass(frozen=True)
class Launch:
    """One process to start: its name, the node that it runs on, its job file and the file that its output goes to.

    A node may have several. Only its own process has the node's name (:mod:`testbed.base.process_names`). A lab that
    forks workers imports PyTorch before, once, if one of them has a use for ``torch``.
    """

    process: str
    node: int
    job: str
    log: str
    program: Program | None = None
    torch: bool = True


def need_torch(workers: Sequence[Launch]) -> bool:
    """Whether any of some workers has a use for PyTorch; a program imports its own."""
    return any(worker.torch for worker in workers if not worker.program)


def check_launches(workers: Sequence[Launch], topology: Topology) -> None:
    """
    Raises:
        SpecError: a name that no process can have.
        LabError: two of them have the same name, or one has the name of a node on which it does not run.
    """
    names = set()
    for worker in workers:
        check_name(worker.process)
        if worker.process in names:
            raise LabError(f"two processes are called {worker.process}", fix="give each a name of its own")
        if topology.index.get(worker.process, worker.node) != worker.node:
            raise LabError(
                f"the process {worker.process} is to run on {topology.nodes[worker.node].name}, and has the name of "
                "another node",
                fix=f"call it {topology.nodes[worker.node].name}.{worker.process}",
            )
        names.add(worker.process)


def check_target(target: str, topology: Topology, processes: Collection[str]) -> None:
    """
    Raises:
        LabError: a signal is meant for what is neither a node nor one of the ``processes`` that were started.
    """
    if target not in topology.index and target not in processes:
        raise LabError(f"there is no node or process {target!r:.120} in this lab", fix="name one that was started")


@dataclass(frozen=True)
class Exit:
    """A process that ended: ``status`` is its exit status, or minus the signal that ended it; times are
    ``time.monotonic()``."""

    process: str
    node: int
    status: int
    started_s: float = 0.0
    ended_s: float = 0.0


@dataclass(frozen=True)
class Completed:
    """A command that ran on a node."""

    status: int
    stdout: str
    stderr: str


class Running(Protocol):
    """A program that was started on a node beside the workers."""

    def signal(self, number: int) -> object:
        """Send a signal to the program and to the processes that it started."""

    def wait(self, timeout_s: float) -> int:
        """Wait for its end; return the exit status, or minus the signal that ended it.

        Raises:
            LabError: it did not end in time.
        """


class Command(Protocol):
    """A command that a person runs on a node; readable for select() when it ends."""

    def signal(self, number: int) -> object:
        """Send a signal to the command and to the processes that it started."""

    def fileno(self) -> int: ...

    def wait(self) -> int:
        """Wait for its end; return the exit status, or minus the signal that ended it."""
