"""``trace``: slowdowns that a file tells."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from pydantic import Field

from testbed.base.errors import SpecError
from testbed.perturb import targets
from testbed.perturb.kinds.base import COMPUTING, Perturbation

if TYPE_CHECKING:
    from testbed.perturb.stragglers import Stragglers, Workers

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
