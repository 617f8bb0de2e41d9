"""Files that a trial's processes read and write while it runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from testbed.base.process_names import file_name
from testbed.lab.base import SHARED
from testbed.topologies.model import Topology
from testbed.workloads.failover import SAMPLES

WORK = "work"
"""The folder of a run directory that is only needed while a trial runs."""


@dataclass(frozen=True)
class Files:
    """Paths of one trial's files while it runs; ``logs`` stays, ``work`` goes.

    ``work`` is the harness's: processes on the nodes read there, and write each in its node's :meth:`own` folder. Where
    a node has several, they share that folder, and the names of their files tell them apart.
    """

    work: Path
    logs: Path
    homes: Mapping[str, str] = field(default_factory=dict)
    """Names of nodes by process; a process that is missing is its node's own, and has its name."""
    stage: str = ""
    """Mark of the files of processes that run before the trial's own, which have the same names."""
    role: Callable[[str], str] = lambda _: "worker"
    """Function that says in a word what a process is for."""
    lacks: Callable[[str], str] = lambda module: f"pip install {module}"
    """Function that says how a Python module is added which a process lacks."""

    def home(self, process: str) -> str:
        """Return the name of the node on which a process runs."""
        return self.homes.get(process, process)

    def called(self, process: str) -> str:
        """Return the words with which errors name a process: ``the server on h3``, ``the process h3.daemon``."""
        return f"the {self.role(process)} on {process}" if self.home(process) == process else f"the process {process}"

    def own(self, process: str) -> Path:
        """Return the folder of the node on which a process runs, where it writes all that it writes."""
        return self.work / self.home(process)

    def _written(self, process: str, name: str) -> Path:
        """Return the file of that kind which a process writes."""
        name = f"{self.stage}-{name}" if self.stage else name
        return self.own(process) / (name if self.home(process) == process else f"{file_name(process)}.{name}")

    def make(self, topology: Topology) -> None:
        """Make the folders of processes, wherever there may be some, in ``work``, which is there."""
        for node in topology.nodes:
            if node.kind != "panel":
                self.own(node.name).mkdir(0o700)

    @property
    def shared(self) -> Path:
        """Return the folder that all ranks of a program may write to, in labs of one machine."""
        return self.work / SHARED

    @property
    def outputs(self) -> Path:
        """Return the folder of what a program's ranks wrote and what stays."""
        return self.logs.parent.with_name("outputs") / self.logs.name

    def job(self, process: str) -> Path:
        return self.work / f"{file_name(process)}{f'.{self.stage}' if self.stage else ''}.json"

    def samples(self, process: str) -> Path:
        return self._written(process, SAMPLES)

    def position(self, process: str) -> Path:
        """Return the file in which a process keeps what it is at, if it does."""
        return self._written(process, "position")

    def weights(self, process: str) -> Path:
        """Return the file with the final weights that a worker saved."""
        return self._written(process, "weights.npy")

    def checkpoint(self, process: str) -> Path:
        """Return the file with the last checkpoint that a process wrote."""
        return self._written(process, "checkpoint")

    def log(self, process: str) -> Path:
        return self.logs / f"{file_name(process)}.log"

    @property
    def agent(self) -> Path:
        """The program that runs a command on another host."""
        return self.work / "agent.sh"

    @property
    def gate(self) -> Path:
        """The socket of the controller that tells processes to hold; no node's folder has a ``+`` in its name."""
        return self.work / "+gate"

    def plan(self, job: str = "") -> Path:
        """Return the file with a job's plan of what moves in it."""
        return self._shared(job, "forest.npz")

    def collected(self, job: str = "") -> Path:
        """Return the file with the final weights of a job in which no worker has all of them."""
        return self._shared(job, "weights.npy")

    def prepared(self, job: str = "") -> Path:
        """Return the folder with the user's own model and data."""
        return self._shared(job, "prepared")

    def fenced(self, job: str = "") -> Path:
        """Return the file in which a job's processes are told of each that stood still, was ended, and is started
        again."""
        return self._shared(job, "fenced.jsonl")

    def generation(self, number: int, job: str = "") -> Path:
        """Return the folder of one generation of a job that goes on when nodes die, see
        :mod:`testbed.recovery.failover`."""
        return self._shared(job, f"generation-{number}")

    def _shared(self, job: str, name: str) -> Path:
        """Return a file that all processes of a job read; no node's folder has a ``+`` in its name."""
        return self.work / (f"{job}+{name}" if job else name)
