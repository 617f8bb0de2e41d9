"""Perturbations of computing: workers that are slow always, by chance or as a trace has it, and processes that compete
for the cores."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from pydantic import Field

from testbed.base.errors import SpecError
from testbed.base.groups import Share, Time, Whole
from testbed.perturb import targets
from testbed.perturb.events import Event, Helper, helped
from testbed.perturb.kinds.base import (
    COMPUTING,
    STEPS,
    Context,
    Names,
    OfWorkers,
    Perturbation,
    Slowdown,
    Slowing,
    Timed,
)
from testbed.topologies.model import Topology

if TYPE_CHECKING:
    from testbed.perturb.stragglers import Stragglers, Workers


class Straggle(Slowing):
    """In each iteration each worker has a chance of computing ``slowdown`` times as long."""

    kind: Literal["straggle"]
    probability: Share = Field(examples=["10 %"])
    """The probability, for each worker and iteration."""
    slowdown: Slowdown
    """The factor by which the time of computing grows."""

    def lengthen(self, drawn: Stragglers, workers: Workers, random: np.random.Generator) -> None:
        chosen = workers.chosen(self.workers)
        slowed = random.random(drawn.factor.shape) < self.probability
        drawn.factor[chosen] *= np.where(slowed, self.slowdown, 1.0)[chosen]


class Slow(Slowing):
    """Some workers always compute ``slowdown`` times as long."""

    kind: Literal["slow"]
    workers: Names = Field(examples=["[h0]"])
    """The hosts of the slow workers."""
    slowdown: Slowdown
    """The factor by which the time of computing grows."""

    def lengthen(self, drawn: Stragglers, workers: Workers, random: np.random.Generator) -> None:
        del random
        drawn.factor[workers.chosen(self.workers)] *= self.slowdown


class Jitter(OfWorkers):
    """A random time is added to the computing of each iteration, or to each step of a synchronisation (Rina equation
    3). It is drawn from the positive half of a normal distribution, so nothing becomes faster."""

    kind: Literal["jitter"]
    sigma_s: Time = Field(alias="sigma", gt=0, examples=["20 ms"])
    """The standard deviation of the normal distribution."""
    of: Literal["iteration", "step"] = "iteration"
    """``iteration``: the computing of each iteration takes longer. ``step``: each step of a synchronisation does."""

    @property
    def effects(self) -> frozenset[str]:
        return frozenset({STEPS if self.of == "step" else COMPUTING})

    def lengthen(self, drawn: Stragglers, workers: Workers, random: np.random.Generator) -> None:
        chosen = workers.chosen(self.workers)
        drawn.extra_s[chosen] += np.maximum(random.normal(0.0, self.sigma_s, drawn.extra_s.shape), 0.0)[chosen]

    def step_sigma_s(self, topology: Topology) -> Mapping[int, float]:
        """Standard deviation by host (s). The engine draws for each step (:mod:`testbed.workloads.sync.steps`)."""
        return dict.fromkeys(targets.hosts(topology, self.workers), self.sigma_s) if self.of == "step" else {}


LARGEST_TRACE_BYTES = 4 * 2**20  # 300,000 lines
TRACE_COLUMNS = ("worker", "iteration", "slowdown")


class Trace(Perturbation):
    """Slowdowns of computing from a CSV file with the columns ``worker``, ``iteration`` and ``slowdown``."""

    kind: Literal["trace"]
    file: str = Field(examples=["stragglers.csv"])
    """The CSV file, from the spec's directory."""

    multiplies_computing: ClassVar[bool] = True

    @property
    def effects(self) -> frozenset[str]:
        return frozenset({COMPUTING})

    @property
    def inputs(self) -> Sequence[str]:
        return (self.file,)

    def lengthen(self, drawn: Stragglers, workers: Workers, random: np.random.Generator) -> None:
        """Multiply the factors by the file's. Iterations after the trial's last one are left out."""
        del random
        for (rank, iteration), slowdown in _trace(workers.folder / self.file, workers).items():
            if iteration < drawn.factor.shape[1]:
                drawn.factor[rank, iteration] *= slowdown


def _trace(path: Path, workers: Workers) -> dict[tuple[int, int], float]:
    """Read the slowdowns of a trace, by (rank, iteration).

    Raises:
        SpecError: no such file, too large, or a line that makes no sense.
    """
    example = f"begin with the line {','.join(TRACE_COLUMNS)}, then one such as h0,3,2.5"
    try:
        if not path.is_file() or path.stat().st_size > LARGEST_TRACE_BYTES:
            raise SpecError(f"{path} is no file of at most {LARGEST_TRACE_BYTES >> 20} MiB", fix=example)
        with path.open(newline="", encoding="utf-8") as file:
            rows = csv.DictReader(file)
            if set(rows.fieldnames or ()) != set(TRACE_COLUMNS):
                raise SpecError(f"{path}: its columns are {', '.join(rows.fieldnames or ['none'])}", fix=example)
            return {_place(path, i, row, workers): _slowdown(path, i, row) for i, row in enumerate(rows, 2)}
    except OSError as error:
        raise SpecError(f"{path}: {error.strerror}", fix="give a file that can be read") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise SpecError(f"{path} is not CSV: {error}", fix=example) from None


def _place(path: Path, line: int, row: Mapping[str, str], workers: Workers) -> tuple[int, int]:
    try:
        host = targets.node(workers.topology, row["worker"])
        return workers.rank[host], _whole(row["iteration"])
    except KeyError:
        raise SpecError(f"{path}, line {line}: {row['worker']} has no worker", fix="name a worker's host") from None
    except SpecError as error:
        raise SpecError(f"{path}, line {line}: {error.problem}", fix=error.fix) from None
    except (TypeError, ValueError):
        raise SpecError(f"{path}, line {line}: iteration {row['iteration']!r}", fix="count from 0") from None


def _whole(text: str) -> int:
    number = int(text)
    if number < 0:
        raise ValueError(text)
    return number


def _slowdown(path: Path, line: int, row: Mapping[str, str]) -> float:
    try:
        slowdown = float(row["slowdown"])
    except (TypeError, ValueError):
        slowdown = 0.0
    if not 1 <= slowdown <= 1000:
        raise SpecError(f"{path}, line {line}: slowdown {row['slowdown']!r}", fix="give 1 to 1000")
    return slowdown


class Hog(Timed):
    """Processes on a host that take CPU time from everything on this machine."""

    kind: Literal["hog"]
    hosts: Names = Field(examples=["[h0]"])
    """The hosts on which these processes run."""
    cores: Whole = Field(1, ge=1, le=256)
    """The number of processes on each host. Each takes the time of one core if it can."""

    def helpers(self, context: Context) -> list[Helper]:
        topology = context.topology
        return [
            Helper(f"hog{context.number}-{topology.nodes[host].name}-{core}", host, "testbed.workloads.perturbing.hog")
            for host in targets.hosts(topology, self.hosts)
            for core in range(self.cores)
        ]

    def events(self, context: Context) -> Sequence[Event]:
        return helped(self.window(f"{self.cores} busy on {', '.join(self.hosts)}"), self.helpers(context))
