"""How much longer each worker computes in each iteration, drawn before the trial starts."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from testbed.base.errors import SpecError
from testbed.perturb import targets
from testbed.spec.base import Group
from testbed.spec.perturb import Jitter, Slow, Straggle, Trace
from topologies.model import Topology

LARGEST_TRACE_BYTES = 4 * 2**20  # 300,000 lines
TRACE_COLUMNS = ("worker", "iteration", "slowdown")


@dataclass(frozen=True, eq=False)
class Stragglers:
    """float64[workers, iterations] each: computing takes ``factor`` times as long and ``extra_s`` more.

    Several perturbations multiply their factors and add their times.
    """

    factor: NDArray[np.float64]
    extra_s: NDArray[np.float64]


def draw(
    perturbations: Sequence[Group],
    topology: Topology,
    workers: Sequence[int],
    iterations: int,
    seed: int,
    folder: Path,
) -> Stragglers | None:
    """Draw all; each perturbation has random numbers of its own, so that adding one leaves the others as they were.

    None if nothing of this kind is among the perturbations.

    Raises:
        SpecError: it names a host that there is not, or a trace that cannot be read.
    """
    rank = {host: r for r, host in enumerate(workers)}
    factor, extra_s = np.ones((len(workers), iterations)), np.zeros((len(workers), iterations))
    found = False
    for number, one in enumerate(perturbations):
        if isinstance(one, Trace):
            _apply(_trace(folder / one.file, topology, rank), factor)
        elif isinstance(one, Straggle | Slow | Jitter):
            if isinstance(one, Jitter) and one.of == "step":
                continue
            chosen = [rank[host] for host in targets.hosts(topology, one.workers) if host in rank]
            random = np.random.default_rng([seed, number])
            if isinstance(one, Slow):
                factor[chosen] *= one.slowdown
            elif isinstance(one, Straggle):
                slowed = random.random(factor.shape) < one.probability
                factor[chosen] *= np.where(slowed, one.slowdown, 1.0)[chosen]
            else:
                extra_s[chosen] += np.maximum(random.normal(0.0, one.sigma_s, extra_s.shape), 0.0)[chosen]
        else:
            continue
        found = True
    return Stragglers(factor, extra_s) if found else None


def _apply(slowdowns: Mapping[tuple[int, int], float], factor: NDArray[np.float64]) -> None:
    """Iterations after the trial's last one are of no concern to it."""
    for (rank, iteration), slowdown in slowdowns.items():
        if iteration < factor.shape[1]:
            factor[rank, iteration] *= slowdown


def _trace(path: Path, topology: Topology, rank: Mapping[int, int]) -> dict[tuple[int, int], float]:
    """By (rank, iteration), the slowdown that a trace tells.

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
            return {_place(path, i, row, topology, rank): _slowdown(path, i, row) for i, row in enumerate(rows, 2)}
    except OSError as error:
        raise SpecError(f"{path}: {error.strerror}", fix="give a file that can be read") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise SpecError(f"{path} is not CSV: {error}", fix=example) from None


def _place(
    path: Path, line: int, row: Mapping[str, str], topology: Topology, rank: Mapping[int, int]
) -> tuple[int, int]:
    try:
        host = targets.node(topology, row["worker"])
        return rank[host], _whole(row["iteration"])
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
