"""Every exception that a user can meet, one class per cause.

::

    TestbedError
    |-- SpecError            what was asked for makes no sense             exit 2
    |   |-- TopologyError    a network that cannot exist, or has no route
    |   `-- SchemeError      a forest that is wrong, or does not fit its topology
    |-- UsageError           a command line that makes no sense            exit 2
    |-- OutputError          a directory or file that cannot be used       exit 2
    |-- PrivilegeError       the kernel does not let us build the lab      exit 2
    |-- MemoryLimitError     less memory is allowed than is needed         exit 2
    |-- MissingToolError     a program or package that is needed is absent exit 2
    |-- HostError            a bare-metal host that cannot be used          exit 2
    |-- IncomparableError    two runs of which nothing can be concluded    exit 4
    `-- TrialError           a trial that started and failed               exit 1
        |-- LabError         the network built is not the one asked for
        |-- WorkerError      a worker died or reported an error
        |   `-- NeighbourError  its neighbour did, which is the cause
        |-- TrialTimeoutError     no progress within the stated time
        |-- ChangedError     a file that trials read was changed while a run goes on
        `-- DiskFullError    no room for the results

This module imports nothing of ours, so every package may import it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class TestbedError(Exception):
    """A message for the user: what is wrong (names the thing and its value), and the change that mends it."""

    __test__ = False  # pytest: not a test class

    def __init__(self, problem: str, *, fix: str | None = None) -> None:
        super().__init__(problem)
        self.problem = problem
        self.fix = fix

    def __str__(self) -> str:
        return self.problem if self.fix is None else f"{self.problem}\n  fix: {self.fix}"


class SpecError(TestbedError):
    """A request that makes no sense: a spec, a topology or a scheme."""


class TopologyError(SpecError):
    """A network that cannot exist, or two nodes of it without a route."""


class SchemeError(SpecError):
    """A forest that does not sum every contribution once, or a scheme on a topology it cannot use."""


class UsageError(TestbedError):
    """A command line that makes no sense."""


class OutputError(TestbedError):
    """A directory or file that cannot be read or written."""


class PrivilegeError(TestbedError):
    """The kernel does not let this user build the lab."""


class MemoryLimitError(TestbedError):
    """Lack of memory: this process may have, or gets, less than it needs."""


class MissingToolError(TestbedError):
    """A program or package that is needed is absent."""


class HostError(TestbedError):
    """A bare-metal host that cannot be used, or not so; whoever knows which one says so in front."""


class IncomparableError(TestbedError):
    """Two runs that were measured under different conditions, or that have nothing in common."""


class TrialError(TestbedError):
    """A trial that started and failed.

    Attributes:
        events: what had been done to it by then, see :func:`testbed.control.conductor.timeline`.
        process: the name of that which failed first, where one did.
        at_s: when that ended, on ``time.monotonic``; None where the error is of the moment at which it is raised.
        signalled: whether a signal ended it.
        found: what hosts had found for it by then, as its record has it.
        not_kept: what is to be told of files that a program's ranks wrote.
        by_perturb: whether it is because of what the spec does to the trial, so that it would fail again.
    """

    events: Sequence[dict[str, Any]] = ()
    process: str | None = None
    at_s: float | None = None
    signalled: bool = False
    found: Sequence[Any] = ()
    not_kept: Sequence[str] = ()
    by_perturb: bool = False


class LabError(TrialError):
    """The kernel's read-back differs from what was asked for, or the lab process died."""


class WorkerError(TrialError):
    """A worker died or reported an error."""


class NeighbourError(WorkerError):
    """A worker's neighbour is gone: what happened there is the cause."""


class TrialTimeoutError(TrialError):
    """A trial made no progress within the time that the spec allows."""


class ChangedError(TrialError):
    """A file that trials read is not what it was when the run began."""


class DiskFullError(TrialError):
    """Lack of room for the results."""


def as_json(error: TestbedError) -> dict[str, str | None]:
    """Describe an error for a program: its class in this tree, the problem and the fix."""
    kind = next(one for one in type(error).__mro__ if one.__module__ == __name__)
    return {"type": kind.__name__, "problem": error.problem, "fix": error.fix}


def from_json(told: dict[str, str | None]) -> TestbedError:
    """Make the error that :func:`as_json` described."""
    kind = globals()[str(told["type"])]
    made: TestbedError = kind(str(told["problem"]), fix=told["fix"])
    return made
