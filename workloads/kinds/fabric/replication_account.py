"""Account of a trial's replica, checked against the server's: how far it was behind at each commit. Once the server was
lost and the replica has served, the two have one journal."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, zip_longest
from typing import Any

import pandas as pd

from testbed.base.errors import WorkerError
from testbed.workloads.kinds.fabric.distance import apart
from testbed.workloads.kinds.fabric.fates import FIX, Fate, Line, lines
from testbed.workloads.kinds.fabric.plan import Fabric
from testbed.workloads.kinds.fabric.scheduling.divergence import Lead, most_within
from testbed.workloads.kinds.fabric.sums import rates
from testbed.workloads.learning.updates import Step, Update

MOST_APART = 1e-4
"""Largest distance of the replica's weights from the server's in the end, as a share of the weights' norm. A replica
sums other updates together than the server, so its rounding errors differ. Trained weights came within 1e-6 of each
other."""
Counted = tuple[Update, bool, float]
"""An update that was sent, whether it was applied, and the rate at which it was."""
_SAME_RATE = 1e-6
"""Rates that differ by less, as a share, count as the same: the rates that follow from a sum are rounded."""


@dataclass(frozen=True)
class Replicated:
    """Result of the check of a replica; empty where there is no replica.

    Attributes:
        wrong: what is wrong with the accounts; empty if nothing is.
        behind: by (rank, iteration) of an update that was sent, by how many updates the replica was behind when the
            server had decided it, and the bound of the divergence then (eq. 11); None where there is no replica.
        metrics: for the trial.
    """

    wrong: str = ""
    behind: Mapping[tuple[int, int], tuple[int, float]] | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)


def replicated(
    plan: Fabric,
    server: Mapping[str, Any],
    journal: Sequence[Line],
    copied: Sequence[Line],
    lines: Sequence[float] | None,
) -> Replicated:
    """Check the replica; ``copied`` is its journal, and ``lines`` is what it reports of its weights; None where there
    are no weights, as in simulated time."""
    off = None if lines is None else apart(server["lines"], lines)
    momentum = server["momentum"]
    wrong = other(counted(journal, momentum), counted(copied, momentum))
    leads, sent = server["leads"], sum(len(line.updates) for line in journal if line.fate != Fate.DROPPED)
    is_possible = len(leads) == len(journal) and list(leads) == sorted(leads)
    if not wrong and not (is_possible and (not leads or 0 <= leads[0] <= leads[-1] <= sent)):
        wrong = f"the replica is said to have had {list(leads)[:20]} of {sent} updates at {len(journal)} steps"
    if not wrong and off is not None and off > MOST_APART:
        wrong = f"the replica's weights end {off:.2g} of their norm away from the server's"
    if wrong:
        return Replicated(wrong)
    found = until(plan, server, journal)
    return found if off is None else replace(found, metrics={**found.metrics, "replica_error": off})


def until(plan: Fabric, server: Mapping[str, Any], journal: Sequence[Line]) -> Replicated:
    """Compute how far the replica was behind at each step of a journal, or of its beginning, while there were server
    and replica."""
    commits = list(_commits(plan, server, journal))
    metrics = {
        "divergence_max": max((divergence for _, _, divergence in commits), default=0.0),
        "replica_behind_max": float(max((behind for _, behind, _ in commits), default=0)),
    }
    bounds = {
        "divergence_allowed": plan.options.divergence_bound,
        "replica_behind_allowed": plan.options.divergence_updates,
    }
    metrics |= {name: float(bound) for name, bound in bounds.items() if bound is not None}
    if plan.options.divergence_bound is not None:  # a single update may go beyond it
        most = most_within(plan.options.divergence_bound)
        metrics["divergence_breaches"] = float(sum(line.fate.is_applied and far > most for line, _, far in commits))
    behind = {(one.rank, one.iteration): (count, far) for line, count, far in commits for one in line.updates}
    return Replicated("", behind, metrics)


def other(journal: Iterable[Counted], copied: Iterable[Counted]) -> str:
    """Describe the first update with which the replica dealt otherwise than the server; empty if there is none."""
    for at, (one, another) in enumerate(zip_longest(journal, copied)):
        if one is None or another is None or one[:2] != another[:2]:
            return f"update {at} was {one} to the server, and {another} to the replica"
        if not math.isclose(one[2], another[2], rel_tol=_SAME_RATE):
            return f"update {at} counted {one[2]} at the server, and {another[2]} at the replica"
    return ""


def counted(journal: Sequence[Line], momentum: float) -> Iterator[Counted]:
    """Yield each update that was sent, whether it was applied, and the rate at which it was."""
    for line in journal:
        if line.fate != Fate.DROPPED:
            for update, rate in zip(line.updates, rates(line.shares, momentum), strict=True):
                yield update, line.fate.is_applied, rate


def _commits(plan: Fabric, server: Mapping[str, Any], journal: Sequence[Line]) -> Iterator[tuple[Line, int, float]]:
    """Yield each step of what was sent, by how many updates the replica was behind then, and the bound of the
    divergence."""
    lead, norms, world = plan.options.lead(server["momentum"]), dict(map(tuple, server["norms"])), len(plan.workers)
    for line, had in zip(journal, server["leads"][: len(journal)], strict=True):
        if line.fate == Fate.DROPPED:
            continue
        _advance(lead, line, norms, world, server["momentum"])
        yield line, max(0, len(lead) - had), lead.divergence(had, len(lead))


def _advance(lead: Lead, line: Line, norms: Mapping[int, float], world: int, momentum: float) -> None:
    """Move the server on by a step of what was sent."""
    if line.fate.is_applied:
        counts = zip(line.updates, rates(line.shares, momentum), strict=True)
        lead.add(rate * norms[update.iteration * world + update.rank] for update, rate in counts)
    else:
        lead.pass_over(len(line.updates))


def with_behind(samples: pd.DataFrame, found: Replicated) -> pd.DataFrame:
    """Return the samples with ``behind`` and ``divergence``, NaN for updates that were not sent, or decided when one of
    the two was lost; unchanged without a replica."""
    if found.behind is None:
        return samples
    known = zip(samples["rank"].tolist(), samples["iteration"].tolist(), strict=True)
    rows = [found.behind.get(one, (math.nan, math.nan)) for one in known]
    return samples.join(pd.DataFrame(rows, columns=["behind", "divergence"], index=samples.index))


@dataclass(frozen=True)
class TakenOver:
    """The reports of the server and of its replica, put together.

    Attributes:
        server: the last line of a server that has decided all that was decided, put together from both.
        steps: what changed the weights of either, in an order in which one process can repeat it.
        replicated: how far the replica was behind while the server served; and of the loss, how many updates the server
            had applied and the replica had not when it took over, how many of these nobody has applied since, and the
            bound on how far the weights were apart (eq. 11).
        lost: those that nobody has applied since.
        ended_before: ranks that have the lost server's weights in the end.
        most_apart: how far the weights of the two may have been apart when the replica took over.
    """

    server: Mapping[str, Any]
    steps: Sequence[Step]
    replicated: Replicated
    lost: Sequence[Update]
    ended_before: frozenset[int]
    most_apart: float


def taken_over(plan: Fabric, done: Sequence[Mapping[str, Any]]) -> TakenOver | None:
    """Read it from processes' last lines and from what the server reported as it went; None if the replica has not
    served.

    Raises:
        WorkerError: the two contradict each other.
    """
    served = [one for one in done if "served" in one]
    if not served:
        return None
    (replica,), told = served, [one for one in done if "step" in one]
    world = len(plan.workers)
    own_from, inherited, firsts = replica["served"]
    every, copied = lines([one["step"] for one in told], world), lines(replica["copied"], world)
    momentum = float(told[0]["momentum"]) if told else 0.0
    count = _steps_of(every, inherited)
    theirs = every[:count]
    known = list(counted(theirs, momentum))
    wrong = other(known, islice(counted(copied, momentum), len(known)))
    if wrong:
        raise WorkerError(f"what the processes of scheme {plan.scheme} tell does not fit together: {wrong}", fix=FIX)
    decided = {update for line in theirs for update in line.updates}
    journal = [*theirs, *(left for line in copied if (left := _without(line, decided)).updates)]
    first = dict(map(tuple, firsts))
    norms = [pair for one in told for pair in zip(one["step"][1], one["norms"], strict=True)]
    server = {"momentum": momentum, "norms": norms, "leads": [one["lead"] for one in told]}
    again = {*_applied(copied)}
    lost = [update for update in _applied(every) if update not in again]
    loss = _loss(plan, server, every, copied, own_from, int(replica["had"]))
    loss["takeover_lost"] = float(len(lost))
    return TakenOver(
        {**replica, "journal": [_raw(line, world) for line in journal]},
        list(_steps(every, copied, own_from, first)),
        # Later steps of the server moved its weights; but the replica has decided again on their updates, so nothing is
        # reported about them.
        replace(until(plan, server, theirs), metrics={**until(plan, server, every).metrics, **loss}),
        lost,
        frozenset(range(world)) - first.keys(),
        loss["takeover_bound"],
    )


def _steps_of(every: Sequence[Line], entries: int) -> int:
    """Return how many of these lines have so many entries. Raises WorkerError: none have."""
    ends = [0]
    for line in every:
        ends.append(ends[-1] + len(line.updates))
    if entries not in ends:
        raise WorkerError(f"the replica goes on after {entries} entries of a journal with {ends[-1]}", fix=FIX)
    return ends.index(entries)


def _without(line: Line, decided: set[Update]) -> Line:
    """Return the part of a line that the replica has decided itself."""
    left = [at for at, update in enumerate(line.updates) if update not in decided]
    return Line(line.fate, tuple(line.updates[at] for at in left), tuple(line.shares[at] for at in left))


def _raw(line: Line, world: int) -> list[Any]:
    numbers = [update.iteration * world + update.rank for update in line.updates]
    return [int(line.fate), numbers, [update.version for update in line.updates], line.shares]


def _steps(every: Sequence[Line], copied: Sequence[Line], own_from: int, first: Mapping[int, int]) -> Iterator[Step]:
    """Yield the steps of both. The replica's come once the server has made their updates, so that no gradient is kept
    for longer than the replica was behind."""
    made: set[tuple[int, int]] = set()
    waiting = deque(enumerate(copied))
    for one in (*every, None):
        if one is not None:
            yield _step(one, "former", {})
            made.update((update.rank, update.iteration) for update in one.updates)
        while waiting and (one is None or made.issuperset((own.rank, own.iteration) for own in waiting[0][1].updates)):
            at, line = waiting.popleft()
            yield _step(line, "replica" if at < own_from else "", first)


def _step(line: Line, by: str, first: Mapping[int, int]) -> Step:
    """Make a step; ``first`` are, by rank, the first iterations that were computed on the replica's weights."""
    updates = tuple(
        replace(update, on_former=update.rank not in first or update.iteration < first[update.rank])
        for update in line.updates
    )
    return Step(updates, line.shares, line.fate == Fate.AGGREGATED, not line.fate.is_applied, by)


def _loss(
    plan: Fabric, server: Mapping[str, Any], every: Sequence[Line], copied: Sequence[Line], own_from: int, had: int
) -> dict[str, float]:
    """Count the updates that the server had applied, and the replica had not, when it took over. The bound is on the
    updates that the replica had not got by then (it ``had`` so many): it applies whatever it has got before it serves.
    Raises WorkerError: that was more than the bound allows, or the replica had less than the server counted on."""
    applied = _applied(every)
    before = {*_applied(copied[:own_from])}
    norms, world, momentum = dict(server["norms"]), len(plan.workers), server["momentum"]
    lead = plan.options.lead(momentum)
    for line in every:
        if line.fate != Fate.DROPPED:
            _advance(lead, line, norms, world, momentum)
    if had < max(server["leads"], default=0):
        raise WorkerError(
            f"the replica had {had} updates when the server was lost, which counted on {max(server['leads'])}", fix=FIX
        )
    if len(lead) > had + 1 and lead.is_beyond(had, len(lead)):
        far = lead.divergence(had, len(lead))
        raise WorkerError(
            f"the server was {len(lead) - had} updates and {far:g} ahead of its replica when it was lost; "
            f"scheme {plan.scheme} allows less",
            fix=FIX,
        )
    return {
        "takeover_behind": float(len([update for update in applied if update not in before])),
        "takeover_bound": lead.divergence(len(list(counted(copied[:own_from], momentum))), len(lead)),
    }


def _applied(journal: Sequence[Line]) -> list[Update]:
    return [update for line in journal if line.fate.is_applied for update in line.updates]
