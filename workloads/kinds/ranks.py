"""Reports of a script's ranks while it runs, read and checked, and the account that its kind of trial makes of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from testbed.workloads.sync.cost import Cost

if TYPE_CHECKING:
    import pandas as pd  # not needed to plan a trial

SUMS = frozenset({"allreduce", "reduce_scatter"})
"""Collectives that add gradients up."""
PAIRED = frozenset({"send", "recv"})
"""Operations between two ranks, of which the others of their group do not know."""


@dataclass(frozen=True)
class Call:
    """One collective as one rank saw it; moments on the clock of its machine (s).

    Attributes:
        group: its number; 0 is the group of all ranks.
        sequence: which of the group's collectives it is, the same on all its ranks; of sends and receives, which of
            this rank's.
        op: such as ``allreduce``.
        nbytes: of the whole array: what each rank adds to, or has in the end, whichever is more.
        asked_s: when the script called it.
        asking_s: for how long that call held the script's own thread, before it could do something else or wait.
        done_s: when this rank had the result.
        waited_s: for how long a thread of the script waited for it; None if that is not seen, as where PyTorch waits
            for a future within DDP.
        by: who moved it: ``scheme``, ``ring`` for a group that the scheme cannot serve, ``gloo``, or ``direct`` between
            two hosts.
        ranks: how many are in the group.
        root: of the collectives that have one, and the other rank of a send or a receive.
        chained: whether it was asked for by what is done at the end of another collective, as DDP's hook PowerSGD does,
            and not by the script's own thread.
        is_other: whether it is what Gloo makes beside a scheme, such as a maximum: no sum of gradients, with
            ``scheme: gloo`` either.
        came_s: when its first chunk from another process had come; None if none did, or if that is not seen, as with
            Gloo.
    """

    group: int
    sequence: int
    op: str
    dtype: str
    nbytes: int
    asked_s: float
    done_s: float
    waited_s: float | None
    by: str
    ranks: int
    root: int | None = None
    chained: bool = False
    is_other: bool = False
    asking_s: float = 0.0
    came_s: float | None = None

    @property
    def held_s(self) -> float | None:
        """Time (s) for which it held the script in all; None if its waits are not seen."""
        return None if self.waited_s is None else self.asking_s + self.waited_s

    @property
    def adds(self) -> bool:
        """Whether it adds arrays of all its ranks up."""
        return self.op in SUMS and not self.is_other

    @property
    def moves_s(self) -> float:
        """Moment from which on it moves; when it was asked for, if that is not known."""
        return self.asked_s if self.came_s is None else self.came_s


class Collected(NamedTuple):
    """A collective that a rank asks for; fields are those of :class:`Call`. Of a ``send``, the group is its two ends,
    the sender first."""

    op: str
    nbytes: int
    root: int = -1


@dataclass(frozen=True)
class Logged:
    """Numbers that a script logged at a moment (s), by name."""

    at_s: float
    values: Mapping[str, float]


@dataclass(frozen=True)
class Compared:
    """Comparison of a sum with Gloo's of the same arrays: the largest difference over the largest number."""

    group: int
    sequence: int
    dtype: str
    largest: float


@dataclass(frozen=True)
class Failed:
    """A collective that failed on a rank, whether or not the script caught the error.

    Attributes:
        sequence: as that of :class:`Call`; None if it failed before it had one.
        why: the error, its kind first.
    """

    rank: int
    group: int
    op: str
    sequence: int | None
    why: str

    @property
    def name(self) -> str:
        """Name of the collective, such as ``allreduce 12 of group 0``."""
        number = "" if self.sequence is None else f" {self.sequence}"
        return f"{self.op}{number} of group {self.group}"


@dataclass(frozen=True)
class RankRows:
    """All that a rank reported.

    Attributes:
        met_s: when its process group was made (s).
        marks_s: when it ended an iteration, if the script says so.
        groups: by number, the ranks of groups that are not of all.
        overruns: (moment, by how much), in seconds, of backward passes that were to keep a pace.
        nonfinite: (group, sequence, where) of arrays with numbers that are not finite: ``input`` or ``sum``.
        failed: collectives that gave an error, in the order in which they did.
        slow_rows_of: the version of PyTorch for which C++ that makes rows is not compiled, so that Python made them;
            None if it needed none, or has it.
    """

    rank: int
    node: int
    met_s: float
    calls: Sequence[Call]
    marks_s: Sequence[float] = ()
    logged: Sequence[Logged] = ()
    groups: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    compared: Sequence[Compared] = ()
    overruns: Sequence[tuple[float, float]] = ()
    nonfinite: Sequence[tuple[int, int, str]] = ()
    failed: Sequence[Failed] = ()
    slow_rows_of: str | None = None


@dataclass(frozen=True)
class Account:
    """Account of a script's run.

    Attributes:
        samples: a row for each rank and iteration (:mod:`testbed.analysis.metrics`); None where its sums show no
            iterations.
        warmup: how many iterations at the beginning count for no median.
        gradient_bytes: what is summed in an iteration.
        buckets: how many sums that is.
        cost: of an average iteration; None without iterations.
        metrics: numbers by names that :mod:`testbed.analysis.dictionary` defines.
        collectives: of each kind and size of collective, how many there were and how long they took, by names that
            :mod:`testbed.analysis.dictionary` defines.
        failed: collectives that failed on any rank.
        sums: how many sums of gradients each rank got in all; of the rank that got fewest.
        calls: a row for each collective of each rank (:class:`testbed.analysis.record.tables.CollectiveCall`).
    """

    samples: pd.DataFrame | None
    warmup: int
    gradient_bytes: int
    buckets: int
    cost: Cost | None
    metrics: Mapping[str, float | None]
    collectives: Sequence[Mapping[str, Any]]
    failed: Sequence[Failed] = ()
    sums: int = 0
    calls: pd.DataFrame | None = None
