"""Process that measures one host's links before a program runs that is not ours; our own workers do that themselves.

It runs as a worker does (:mod:`testbed.workloads.worker`), so that a lab that forks workers forks it, too. Writes a
``probe`` line a NIC to the job's samples file, as a worker does. There may be several rounds of bursts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np

from testbed.base.errors import NeighbourError, TestbedError
from testbed.workloads import kinds
from testbed.workloads.bursts.probe import measure
from testbed.workloads.job import Peer, Probe
from testbed.workloads.sync import chunks, transport
from testbed.workloads.sync.engine import Engine
from testbed.workloads.sync.forest import Forest


@dataclass(frozen=True)
class MeetingJob:
    """Part of one host in a measurement, and the hosts that it meets, along a forest for barriers alone; ``measures``
    says in the job's file which measurement it is (:data:`testbed.workloads.worker.MEASURES`)."""

    measures: ClassVar[str]
    node: int
    forest: str
    peers: tuple[Peer, ...]
    congestion_control: str
    start_timeout_s: float
    timeout_s: float
    samples: str

    def save(self, path: Path) -> None:
        path.write_text(json.dumps({"measures": self.measures, **asdict(self)}))

    @classmethod
    def fields(cls, raw: dict[str, Any]) -> dict[str, Any]:
        """Return the fields of the job that the JSON of its file tells."""
        own = {name: value for name, value in raw.items() if name != "measures"}
        return own | {"peers": tuple(Peer(**peer) for peer in raw["peers"])}


@dataclass(frozen=True)
class ProbingJob(MeetingJob):
    """Bursts of one host: those of each round."""

    measures = "bursts"
    rounds: tuple[tuple[Probe, ...], ...]

    @classmethod
    def read(cls, raw: dict[str, Any]) -> ProbingJob:
        return cls(
            **cls.fields(raw) | {"rounds": tuple(tuple(Probe(**probe) for probe in some) for some in raw["rounds"])}
        )


AnyJob = TypeVar("AnyJob", bound=MeetingJob)


@contextmanager
def meeting(job: MeetingJob) -> Iterator[Callable[[], None]]:
    """Meet the other hosts, and yield a barrier for all of them.

    Raises:
        TrialTimeoutError, WorkerError: somebody does not come.
    """
    forest = kinds.load(Path(job.forest))
    assert isinstance(forest, Forest)  # the ring that the harness wrote
    least = np.zeros(forest.classes, np.float32)
    table = chunks.cut(forest, len(least), [(0, len(least))], chunks.FLOAT_BYTES)
    sockets = transport.connect_all(job.node, job.peers, forest.nodes, job.congestion_control, job.start_timeout_s)
    with Engine(job.node, forest, table, sockets, least) as engine:
        engine.barrier(job.start_timeout_s)
        yield lambda: engine.barrier(job.timeout_s)


def run(job: AnyJob, measured: Callable[[AnyJob, Callable[[], None]], Iterable[Mapping[str, Any]]]) -> None:
    """Meet the other hosts and write the lines that ``measured`` makes, given a barrier.

    Raises:
        TestbedError: what the last line tells, too.
    """
    with Path(job.samples).open("w") as samples:
        try:
            with meeting(job) as barrier:
                for line in measured(job, barrier):
                    samples.write(json.dumps({**line, "node": job.node}) + "\n")
                    samples.flush()
        except TestbedError as error:
            last = {"error": error.problem, "fix": error.fix, "elsewhere": isinstance(error, NeighbourError)}
            samples.write(json.dumps({"kind": "error", **last}) + "\n")
            raise


def main(raw: dict[str, Any]) -> None:
    """Do the job that the JSON of its file tells."""
    run(ProbingJob.read(raw), _bursts)


def _bursts(job: ProbingJob, barrier: Callable[[], None]) -> Iterator[Mapping[str, Any]]:
    for number, probes in enumerate(job.rounds):
        for one in measure(probes, barrier):
            yield {"kind": "probe", "round": number, **asdict(one)}
