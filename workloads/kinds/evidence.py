"""Data that a kind gets about a trial that has run, and the account that it makes of that trial."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from testbed.workloads.kinds.ranks import Failed
from testbed.workloads.kinds.transfers import Carried
from testbed.workloads.learning.updates import Step, Update
from testbed.workloads.sync.cost import Cost

if TYPE_CHECKING:
    import pandas as pd  # not needed to plan a trial


@dataclass(frozen=True)
class Exchanged:
    """Bytes that one process has sent another in a whole trial, without headers.

    Attributes:
        src, dst: their nodes.
        bytes: what it has counted, and ``theory_bytes`` what the plan says.
        mp_bytes: of these, outputs of operators and gradients of outputs.
    """

    src: int
    dst: int
    bytes: int
    theory_bytes: int
    mp_bytes: int


@dataclass(frozen=True)
class Expected:
    """Values that theory expects of a job, for the checks of its kind.

    Attributes:
        iterations: of each worker, as the spec has them.
        cost: of an average synchronisation.
        least_gst_s: the least that one can take.
        goodput: share of a link's rate that is payload.
        pace_s: what computing takes at least, before anything that the spec does to it.
    """

    iterations: int
    cost: Cost
    least_gst_s: float
    goodput: float
    pace_s: float


@dataclass(frozen=True)
class Told:
    """Reports of a trial's processes about what they did, checked against each other.

    Attributes:
        samples: those that count, of all iterations, as :mod:`testbed.analysis.metrics` has them; without a row or a
            column where processes tell of none.
        order: updates, and steps of several, in the order in which weights were changed by them, where that is not the
            order of iterations; None where it is. Several servers' orders are merged
            (:func:`testbed.workloads.learning.parts.merged`).
        updates: how many synchronisations each rank took part in for each of the trial's iterations; None where that is
            one.
        moved: (sender, receiver, bytes) of an average synchronisation, where that is known only now; otherwise None.
        transfers: all that were planned one by one; None of a kind that plans none.
        pairs: what each process has sent another; None where that is not counted by pair.
        spoilt_bytes: the most that may have been sent besides ``moved``, on any link, because processes were lost.
        medians: columns of the samples of which the trial's metrics have, by the same name, the median over iterations
            after the warm-up of the mean over workers.
        metrics: numbers of its own for the trial's metrics, by names that :mod:`testbed.analysis.dictionary` defines.
        ended_before: ranks that have the weights of a server in the end that was lost. The others have those of the
            server after it, which may have added in another order.
        lost_updates: by node that was lost, the updates that went with it, as (rank, iteration), where its process's
            successor cannot tell of them in its last line.
        norms: of updates, by (rank, iteration), where a theory needs them.
        most_apart: how far the weights of a server that was lost may have been from those of its replica; None where
            none was.
        calls: a row for each collective and rank of a script
            (:class:`testbed.analysis.record.tables.CollectiveCall`), with moments on the clock of the samples; None of
            other kinds.
        failed: collectives that failed on a rank; None where ranks do not tell.
    """

    samples: pd.DataFrame
    order: Sequence[Update | Step] | None = None
    updates: Sequence[float] | None = None
    moved: Sequence[tuple[int, int, float]] | None = None
    transfers: Sequence[Carried] | None = None
    pairs: Sequence[Exchanged] | None = None
    medians: Sequence[str] = ()
    metrics: Mapping[str, float | None] = field(default_factory=dict)
    spoilt_bytes: float = 0.0
    ended_before: frozenset[int] = frozenset()
    lost_updates: Mapping[int, Sequence[tuple[int, int]]] = field(default_factory=dict)
    norms: Mapping[tuple[int, int], float] = field(default_factory=dict)
    most_apart: float | None = None
    calls: pd.DataFrame | None = None
    failed: Sequence[Failed] | None = None
