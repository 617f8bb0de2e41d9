"""The job of a rank of a script: one JSON file from the harness, whose path is in the rank's environment.

Ranks are processes of the user's script. Our backend for ``torch.distributed`` reads the file when the script makes its
process group. Nothing in here imports PyTorch.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from testbed.base.errors import WorkerError
from testbed.workloads.job import Peer

VARIABLE = "TESTBED_RANK"
"""The environment variable with the path of the rank's file. Outside of a trial it is not there."""
VERSION = 3
LONGEST_POSITION = 500
"""The bytes of the file in which a rank says what it is at."""


@dataclass(frozen=True)
class RankJob:
    """One rank of one trial. Paths are as its process sees them."""

    node: int
    name: str
    rank: int
    world: int
    kind: str
    """The name of its kind of trial."""
    plan: str
    """Path of the plan (:func:`testbed.workloads.kinds.load`)."""
    peers: tuple[Peer, ...]
    """Its neighbours in the forest."""
    addresses: tuple[str, ...]
    """Address of each rank's host for this process, by rank; its own first one for itself."""
    chunk_bytes: int
    congestion_control: str
    start_timeout_s: float
    """Time (s) within which the processes of the trial must have met, after the group is made."""
    timeout_s: float
    """Longest time (s) for which nothing may move, unless the script says otherwise."""
    samples: str
    """Path of the file to which it writes its rows, JSON lines."""
    check: int = 0
    """Interval, in sums, between those that are compared with Gloo's, outside of measured time; 0 for none."""
    library: str = ""
    """Library that moves the bytes: ``gloo``, while rows report its collectives; empty for our engine."""
    topology: str | None = None
    """Path of the topology, for groups of some ranks; None where it is not told."""
    pace_s: float = 0.0
    """Least time (s) of each backward pass; 0 for as long as it takes."""
    position: str = ""
    """Path of the file in which a rank keeps what it is at, for the error if it is killed; empty for none."""
    priorities: Mapping[int, int] = field(default_factory=dict)
    """Priorities of a trace's receives, by node: a rank that reads only its own file does not know those of sends."""
    version: int = VERSION

    def text(self) -> str:
        """Return the job as the text of its file."""
        return json.dumps(asdict(self))

    @classmethod
    def load(cls, path: Path) -> RankJob:
        """Load a job. Raises WorkerError: another version wrote it."""
        raw: dict[str, Any] = json.loads(path.read_text())
        if raw["version"] != VERSION:
            raise WorkerError(
                f"{path}: a rank's job of version {raw['version']}, and this testbed reads {VERSION}",
                fix="install the same version of testbed for the script and for the harness",
            )
        raw["peers"] = tuple(Peer(**peer) for peer in raw["peers"])
        raw["addresses"] = tuple(raw["addresses"])
        raw["priorities"] = {int(node): priority for node, priority in raw["priorities"].items()}
        return cls(**raw)

    @classmethod
    def of_environment(cls) -> RankJob | None:
        """Load the job of this process; None outside of a trial."""
        path = os.environ.get(VARIABLE)
        return None if path is None else cls.load(Path(path))
