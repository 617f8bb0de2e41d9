"""Data that a kind gets about a trial before the trial runs, and a kind's words for what cannot be or is missing."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from testbed.base.errors import SpecError

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Asked:
    """The options of a trial that may make no sense for its kind.

    Attributes:
        overlap: ``none``, ``layer`` or ``both``: whether gradients leave, and arrive, while workers compute.
        priority: whether chunks that are needed earlier overtake.
        mode: of computing, as :class:`testbed.workloads.job.Compute`.
        iterations: of each worker.
        is_trained: whether weights depend on the sums; otherwise values of a profile are played back.
        largest: the largest magnitude of an element of a gradient or of a sum, if all are whole numbers whose sums must
            be exact; None where that is not known before.
        has_agent: whether the lab lets a process on one host start programs on another.
        lab: its name, for people.
        optimiser: the workload's; ``sgd`` where it has none.
    """

    overlap: str
    priority: bool
    mode: str
    iterations: int
    is_trained: bool
    has_agent: bool
    lab: str
    largest: int | None = None
    optimiser: str = "sgd"


@dataclass(frozen=True)
class Change:
    """Directed links with new rates (bit/s, headers included), and the moment (s) from which on they have them."""

    at_s: float
    rates_bps: Mapping[int, float]


@dataclass(frozen=True)
class Demand:
    """The load of a job on its network, for a theory that predicts times.

    Attributes:
        iterations: of each worker, of which the first ``warmup`` count for no number but JCT.
        pace_s: float64[workers, iterations], how long computing takes.
        goodput: share of a link's rate that is payload.
        momentum: 0 where the task has none; ``learning_rate`` is 1 then.
        changes: of links' rates, in their order; moments are from the trial's start.
        norms: of updates, by (rank, iteration), as a trial had them; nobody knows them before.
    """

    gradient_bytes: int
    iterations: int
    warmup: int
    pace_s: Floats
    goodput: float
    seed: int
    momentum: float = 0.0
    learning_rate: float = 1.0
    changes: Sequence[Change] = ()
    norms: Mapping[tuple[int, int], float] = field(default_factory=dict)


@dataclass(frozen=True)
class Tool:
    """A program on PATH, or a package of Python, that some trials of a kind need.

    Attributes:
        use: what needs it.
        fix: the command that installs it.
    """

    name: str
    use: str
    fix: str
    is_package: bool = False

    @property
    def is_there(self) -> bool:
        if self.is_package:
            return importlib.util.find_spec(self.name) is not None
        return shutil.which(self.name) is not None


@dataclass(frozen=True)
class Stage:
    """One stage of a prediction of an iteration's time: ``what`` happens at ``where``, which is a node or a directed
    link by its ends; times (s) are from the iteration's start."""

    what: str
    where: str
    start_s: float
    end_s: float


@dataclass(frozen=True)
class Refusal:
    """Why something that could happen to a trial cannot happen to one of this kind, and what to do instead."""

    problem: str
    fix: str

    def error(self) -> SpecError:
        return SpecError(self.problem, fix=self.fix)
