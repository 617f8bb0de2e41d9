"""Account of a trial's replica, checked against the server's: how far it was behind at each commit."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Any

import pandas as pd

from testbed.workloads.kinds.fabric.distance import apart
from testbed.workloads.kinds.fabric.fates import Fate
from testbed.workloads.kinds.fabric.journal_lines import Line
from testbed.workloads.kinds.fabric.plan import Fabric
from testbed.workloads.kinds.fabric.scheduling.divergence import most_within
from testbed.workloads.kinds.fabric.sums import rates
from testbed.workloads.learning.updates import Update

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
    wrong = other(counted(journal, momentum), counted(copied, momentum)) or _impossible(server["leads"], journal)
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
        **_bounds(plan),
        **_breaches(plan, commits),
    }
    behind = {(one.rank, one.iteration): (count, far) for line, count, far in commits for one in line.updates}
    return Replicated("", behind, metrics)


def _bounds(plan: Fabric) -> dict[str, float]:
    """Return the bounds on how far behind the replica may be."""
    options = plan.options
    found = {
        "divergence_allowed": options.divergence_bound,
        "replica_behind_allowed": options.divergence_updates,
    }
    return {name: float(bound) for name, bound in found.items() if bound is not None}


def _breaches(plan: Fabric, commits: Iterable[tuple[Line, int, float]]) -> dict[str, float]:
    """Count the commits that went beyond a bound of the divergence, as a single update may."""
    bound = plan.options.divergence_bound
    if bound is None:
        return {}
    most = most_within(bound)
    return {"divergence_breaches": float(sum(line.fate.is_applied and far > most for line, _, far in commits))}


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


def _impossible(leads: Sequence[int], journal: Sequence[Line]) -> str:
    """Say why the replica cannot have had so many updates; empty if it can."""
    sent = sum(len(line.updates) for line in journal if line.fate != Fate.DROPPED)
    if len(leads) != len(journal) or list(leads) != sorted(leads) or (leads and not 0 <= leads[0] <= leads[-1] <= sent):
        return f"the replica is said to have had {list(leads)[:20]} of {sent} updates at {len(journal)} steps"
    return ""


def _commits(plan: Fabric, server: Mapping[str, Any], journal: Sequence[Line]) -> Iterator[tuple[Line, int, float]]:
    """Yield each step of what was sent, by how many updates the replica was behind then, and the bound of the
    divergence."""
    lead, norms, world = plan.options.lead(server["momentum"]), dict(map(tuple, server["norms"])), len(plan.workers)
    for line, had in zip(journal, server["leads"][: len(journal)], strict=True):
        if line.fate == Fate.DROPPED:
            continue
        if line.fate.is_applied:
            numbers = [update.iteration * world + update.rank for update in line.updates]
            counts = zip(numbers, rates(line.shares, server["momentum"]), strict=True)
            lead.add(rate * norms[number] for number, rate in counts)
        else:
            lead.pass_over(len(line.updates))
        yield line, max(0, len(lead) - had), lead.divergence(had, len(lead))


def with_behind(samples: pd.DataFrame, found: Replicated) -> pd.DataFrame:
    """Return the samples with ``behind`` and ``divergence``, NaN for updates that were not sent, or decided when one of
    the two was lost; unchanged without a replica."""
    if found.behind is None:
        return samples
    known = zip(samples["rank"].tolist(), samples["iteration"].tolist(), strict=True)
    rows = [found.behind.get(one, (math.nan, math.nan)) for one in known]
    return samples.join(pd.DataFrame(rows, columns=["behind", "divergence"], index=samples.index))
