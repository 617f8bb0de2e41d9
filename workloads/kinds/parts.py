"""Optional parts of a kind of trial: attributes of :class:`.base.Kind` that are None where a kind does without them.

Whoever needs a part asks whether it is there. Nothing of a part has to be defined by kinds without it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Generic, TypeVar

from numpy.typing import NDArray

from testbed.topologies.model import Topology
from testbed.workloads.kinds.asked import Demand, Floats, Stage
from testbed.workloads.plan import Plan
from testbed.workloads.sync.cost import Cost

if TYPE_CHECKING:
    import numpy as np

    from testbed.workloads.job import WorkerJob
    from testbed.workloads.tasks.base import Participant

P = TypeVar("P", bound=Plan)
"""The type of a kind's plans."""


class Software(Generic[P]):
    """Programs and packages of other people that move the bytes. The processes meet and wait as these like."""

    def require(self, plan: P) -> None:
        """Return only if this machine has the programs and packages that the plan takes.

        Raises:
            MissingToolError: it lacks one.
        """

    def meeting_port(self, plan: P) -> int | None:
        """Return the port at which rank 0 listens for the others, if they meet by themselves; otherwise None."""
        return None

    def needs_agent(self, plan: P) -> bool:
        """Whether a process starts programs on the hosts of others."""
        return False

    def uses_torch(self, plan: P) -> bool:
        """Whether processes have a use for PyTorch even where they train nothing."""
        return False

    def polling(self, plan: P) -> str:
        """Name the processes that keep their cores busy while they wait, so that idle time says nothing; empty if none
        does."""
        return ""


class ModelParallel(Generic[P]):
    """A model of which each worker holds a part only, so that the plan decides what a worker computes."""

    def paces(self, plan: P) -> Sequence[float]:
        """Return by rank the least share of the pace for which a worker computes."""
        raise NotImplementedError

    def take_part(self, job: WorkerJob, rank: int) -> Participant:
        """Make a worker's part in a job."""
        raise NotImplementedError

    def losing(self, plan: P) -> Sequence[int]:
        """Return the ranks that compute a loss in each iteration of a training."""
        raise NotImplementedError

    def held(self, plan: P) -> Sequence[int]:
        """Return by rank how many weights each worker saves in the end."""
        raise NotImplementedError

    def collected(self, plan: P, parts: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
        """Put together all weights, as the task orders them, from those that each worker has saved (:meth:`held`).

        Raises:
            WorkerError: workers that hold the same ones have not the same bits.
        """
        raise NotImplementedError


class Gate(Generic[P]):
    """A gate at each process, which tells what the process has still to send, and holds it while circuits move
    (:attr:`.WorkerJob.gate`)."""

    def cost(self, plan: P, topology: Topology, gradient_bytes: float, link_bytes: Floats) -> Cost:
        """Return the cost of an average synchronisation over circuits that moved meanwhile, so that links carried these
        bytes."""
        raise NotImplementedError


class Predictor(Generic[P]):
    """A theory of trials, which predicts times. These methods are those of a theory that predicts nothing."""

    def likely_jct_s(self, plan: P, demand: Demand) -> float | None:
        """Estimate how long (s) a job takes, to guess the time of a run; None where the least time says as much. This
        has to be quick."""
        return None

    def predicted(self, plan: P, demand: Demand) -> Mapping[str, float]:
        """Predict numbers of a job in which only computing and links take time, links change as :attr:`Demand.changes`
        says, and nothing else disturbs. Keys are names of metrics that :mod:`testbed.analysis.dictionary` defines;
        empty where there is no prediction, or it would take too long."""
        return {}

    def iteration_s(self, plan: P, topology: Topology, pace_s: float, goodput: float) -> float | None:
        """Predict the time of an iteration (s), where ``goodput`` is payload's share of a link's rate, and computing
        takes ``pace_s``; None where there is no prediction."""
        return None

    def critical_path(self, plan: P, topology: Topology, pace_s: float, goodput: float) -> Sequence[Stage]:
        """List the stages that decide the time of :meth:`iteration_s`, from its start to its end; empty where there is
        no prediction."""
        return ()
