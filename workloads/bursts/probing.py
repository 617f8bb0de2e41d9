"""Process that measures one host's links before a program runs that is not ours; our own workers do that themselves.

Usage: ``python -P -m testbed.workloads.bursts.probing JOB.json``

Writes a ``probe`` line a NIC to the job's samples file, as a worker does.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from testbed.base.errors import TestbedError
from testbed.workloads import kinds
from testbed.workloads.bursts.probe import measure
from testbed.workloads.job import Peer, Probe
from testbed.workloads.sync import chunks, transport
from testbed.workloads.sync.engine import Engine
from testbed.workloads.sync.forest import Forest


@dataclass(frozen=True)
class ProbingJob:
    """The part of one host: the hosts that it meets, along a forest that is used for barriers alone, and its bursts."""

    node: int
    forest: str
    peers: tuple[Peer, ...]
    probes: tuple[Probe, ...]
    congestion_control: str
    start_timeout_s: float
    timeout_s: float
    samples: str

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self)))

    @classmethod
    def load(cls, path: Path) -> ProbingJob:
        raw = json.loads(path.read_text())
        raw["peers"] = tuple(Peer(**peer) for peer in raw["peers"])
        raw["probes"] = tuple(Probe(**probe) for probe in raw["probes"])
        return cls(**raw)


@contextmanager
def meeting(
    node: int, forest_file: str, peers: Sequence[Peer], congestion_control: str, timeouts_s: tuple[float, float]
) -> Iterator[Callable[[], None]]:
    """Meet the other hosts, and yield a barrier for all of them; ``timeouts_s`` are those of the start, and later.

    Raises:
        TrialTimeoutError, WorkerError: somebody does not come.
    """
    forest = kinds.load(Path(forest_file))
    assert isinstance(forest, Forest)  # the ring that the harness wrote
    least = np.zeros(forest.classes, np.float32)
    table = chunks.cut(forest, len(least), [(0, len(least))], chunks.FLOAT_BYTES)
    sockets = transport.connect_all(node, peers, forest.nodes, congestion_control, timeouts_s[0])
    with Engine(node, forest, table, sockets, least) as engine:
        engine.barrier(timeouts_s[0])
        yield lambda: engine.barrier(timeouts_s[1])


def main(argv: list[str]) -> int:
    """Run the job whose file is ``argv[0]``; return 0, or 1 after an error that standard error tells."""
    job = ProbingJob.load(Path(argv[0]))
    timeouts_s = job.start_timeout_s, job.timeout_s
    try:
        with (
            meeting(job.node, job.forest, job.peers, job.congestion_control, timeouts_s) as barrier,
            Path(job.samples).open("w") as samples,
        ):
            for one in measure(job.probes, barrier):
                samples.write(json.dumps({"kind": "probe", "node": job.node, **asdict(one)}) + "\n")
    except TestbedError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
