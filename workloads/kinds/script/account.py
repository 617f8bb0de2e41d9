"""Account of the collectives of a script: its iterations, its waits, and the bytes on each link."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from testbed.topologies.model import Topology
from testbed.workloads.kinds.ranks import PAIRED, Account, Call, RankRows
from testbed.workloads.kinds.script.plan import library_of
from testbed.workloads.kinds.script.rounds import Round, begins_s, connect_s, gradients, rounds
from testbed.workloads.kinds.script.ways import DIRECT, Ways
from testbed.workloads.sync.cost import IDEAL, Cost, Shaper, cost
from testbed.workloads.sync.forest import Forest

LEAST_S = 1e-9
"""Least time (s) of a collective: a rate needs a time."""


@dataclass(frozen=True, eq=False)
class ScriptCost(Cost):
    """Cost of an average iteration of a script. A synchronisation's bound is that of its sums alone.

    Attributes:
        sums_bytes: float64[2 x links], by directed link: what the sums of an iteration put there.
    """

    sums_bytes: NDArray[np.float64]

    @property
    def late_bytes(self) -> NDArray[np.float64]:
        return self.sums_bytes


def account(
    plan: Forest, topology: Topology, ranks: Sequence[RankRows], warmup: int, shaper: Shaper = IDEAL
) -> Account:
    """Put together the reports of all ranks, in their order; medians leave ``warmup`` iterations out if others stay."""
    by_gloo = bool(library_of(plan))
    found = rounds(ranks, by_gloo=by_gloo)
    count = min((len(one) for one in found), default=0)
    table, failed = collectives(plan, topology, ranks, shaper), [one for rows in ranks for one in rows.failed]
    sums = min(_summed(rows, len(ranks), by_gloo=by_gloo) for rows in ranks)
    if count == 0:
        return Account(None, 0, 0, 0, None, {}, table, failed, sums, calls_of(ranks, table))
    samples = _samples(plan, ranks, found)
    warmup = min(warmup, count - 1)
    last = found[0][-1]
    nbytes = sum(call.nbytes for call in last)
    return Account(
        samples=samples,
        warmup=warmup,
        gradient_bytes=nbytes,
        buckets=len(last),
        cost=_cost(plan, topology, ranks, last, count),
        metrics=_metrics(samples, warmup, ranks),
        collectives=table,
        failed=failed,
        sums=sums,
        calls=calls_of(ranks, table),
    )


def _summed(rows: RankRows, world: int, *, by_gloo: bool) -> int:
    """Count the sums of gradients that a rank got."""
    failed = {(one.group, one.op, one.sequence) for one in rows.failed}
    each = gradients(rows, world, by_gloo=by_gloo)
    return sum((call.group, call.op, call.sequence) not in failed for call in each)


# Iterations


def _samples(plan: Forest, ranks: Sequence[RankRows], each: Sequence[Sequence[Round]]) -> pd.DataFrame:
    """Make a row for each iteration of each rank. Without marks, an iteration ends when the rank has its last sum. The
    first iteration begins at the same moment on all ranks; a rank may have had its gradient before."""
    ends_s = [_ends(rows.marks_s, own) for rows, own in zip(ranks, each, strict=True)]
    first_s = begins_s(ranks, each, ends_s)
    tables = [_of_rank(plan, *own, first_s) for own in zip(ranks, each, ends_s, strict=True)]
    return pd.concat(tables, ignore_index=True).sort_values(["rank", "iteration"], ignore_index=True)


def _sums_s(each: Sequence[Round]) -> list[float]:
    """Return when a rank has the last sum of each iteration."""
    return [max(call.done_s for call in one) for one in each]


def _of_rank(
    plan: Forest, rows: RankRows, each: Sequence[Round], ends_s: Sequence[float], first_s: float
) -> pd.DataFrame:
    """Make one rank's rows; ``first_s`` is when its first iteration begins."""
    of: dict[int, list[Call]] = defaultdict(list)  # by iteration, by when they were asked for
    for call in rows.calls:
        of[bisect_left(ends_s, call.asked_s)].append(call)
    since = [_left(call, first_s) for call in of[0] if call.done_s > first_s]
    errors, odd = _found_wrong(rows, of, plan)
    return pd.DataFrame(
        {
            "rank": rows.rank,
            "node": rows.node,
            "iteration": range(len(each)),
            "start_s": [first_s, *ends_s[:-1]],
            "ready_s": [max(call.asked_s for call in one) for one in each],
            "sum_s": [min(one) for one in zip(_sums_s(each), ends_s, strict=True)],
            "end_s": ends_s,
            "loss": _losses(rows, ends_s),
            "overrun_s": _overruns(rows, ends_s),
            **_exposed([since, *(of[i] for i in range(1, len(each)))]),
            "setup_busy_s": [_busy_s([call for call in of[0] if call.asked_s < first_s], first_s)]
            + [0.0] * len(each[1:]),
            "sum_error": [errors.get(i, np.nan) for i in range(len(each))],
            "nonfinite": [odd.get(i, 0) for i in range(len(each))],
        }
    )


def _ends(marks_s: Sequence[float], each: Sequence[Round]) -> list[float]:
    """Return when each iteration ends: at the first mark after its last sum, or at that sum.

    Gloo's thread may note a sum only after the script, which has it, has called ``mark()``. So two iterations that
    would end at the same mark end at marks of their own, unless the first one's was before its sum was asked for.
    """
    found: list[float] = []
    before = len(marks_s) + len(each)
    for one, sum_s in zip(reversed(each), reversed(_sums_s(each)), strict=True):
        asked = bisect_left(marks_s, max(call.asked_s for call in one))
        before = max(asked, min(bisect_left(marks_s, sum_s), before - 1))
        found.append(marks_s[before] if before < len(marks_s) else sum_s)
    return found[::-1]


def _losses(rows: RankRows, ends_s: Sequence[float]) -> list[float]:
    """Return the last loss that was logged in each iteration, or right after it."""
    found = [np.nan] * len(ends_s)
    for at, values in _told(rows, ends_s):
        if "loss" in values:
            found[min(max(at, 0), len(found) - 1)] = values["loss"]
    return found


def _told(rows: RankRows, ends_s: Sequence[float]) -> Iterator[tuple[int, Mapping[str, float]]]:
    """Yield the numbers that a rank logged, with the iteration that they are of. Without marks an iteration ends with
    its last sum, and the script logs them after that."""
    for one in rows.logged:
        yield bisect_left(ends_s, one.at_s) - (not rows.marks_s), one.values


def _overruns(rows: RankRows, ends_s: Sequence[float]) -> list[float]:
    """Return by how much the backward passes of each iteration were longer than their pace; 0 without one. The first
    iteration counts with the median computing time of the later ones (:mod:`.rounds`), so its overrun is at most
    theirs."""
    found = [0.0] * len(ends_s)
    for at_s, overrun_s in rows.overruns:
        at = bisect_left(ends_s, at_s)
        if at < len(found):
            found[at] += overrun_s
    return [min(found[0], median(found[1:] or found)), *found[1:]]


def _left(call: Call, first_s: float) -> Call:
    """Cut a collective to the time from that moment on."""
    if call.asked_s >= first_s:
        return call
    waited_s = None if call.held_s is None else min(call.held_s, call.done_s - first_s)
    return replace(call, asked_s=first_s, asking_s=0.0, waited_s=waited_s)


def _exposed(each: Sequence[Sequence[Call]]) -> dict[str, list[float]]:
    """Return for each iteration for how long the script waited for collectives, and for how long some were on their way
    while it did not."""
    waited = [sum(call.held_s or 0.0 for call in calls) + _unseen_s(calls) for calls in each]
    busy = [_busy_s(calls) for calls in each]
    hidden = np.maximum(0.0, np.array(busy) - np.array(waited)).tolist()
    return {"exposed_s": waited, "hidden_s": hidden}


def _busy_s(calls: Iterable[Call], until_s: float = math.inf) -> float:
    """Return for how long some collectives were on their way, until that moment."""
    return covered_s([(call.asked_s, min(call.done_s, until_s)) for call in calls])


def _unseen_s(calls: Sequence[Call]) -> float:
    """Return how long calls took whose waits are not seen, and these waits: DDP asks for its last bucket at the end of
    the backward pass, and then waits until it has all of them, and all sums that its hook asks for afterwards. The hook
    computes in between, and that time is no wait for a collective. NaN if DDP asked for none by itself: nobody knows
    then when it began to wait."""
    unseen = [call for call in calls if call.waited_s is None]
    if not unseen:
        return 0.0
    begun_s = max((call.asked_s for call in unseen if not call.chained), default=None)
    if begun_s is None:
        return math.nan
    asking = [(call.asked_s, min(call.asked_s + call.asking_s, begun_s)) for call in unseen if call.asked_s < begun_s]
    waits = [(max(call.asked_s, begun_s), call.done_s) for call in unseen if call.done_s > begun_s]
    return covered_s([*asking, *waits])


def covered_s(spans: Iterable[tuple[float, float]]) -> float:
    """Return the time (s) that spans cover together."""
    total, end_s = 0.0, -np.inf
    for begin_s, stop_s in sorted(spans):
        total += max(0.0, stop_s - max(begin_s, end_s))
        end_s = max(end_s, stop_s)
    return total


def _found_wrong(
    rows: RankRows, of: Mapping[int, Sequence[Call]], plan: Forest
) -> tuple[dict[int, float], dict[int, int]]:
    """Return by iteration how far its worst sum is from Gloo's, as a share of what its type allows; and how many arrays
    had numbers that are not finite."""
    at = {(call.group, call.sequence): i for i, calls in of.items() for call in calls if call.op not in PAIRED}
    errors: dict[int, float] = {}
    odd: dict[int, int] = defaultdict(int)
    for one in rows.compared:
        i = at.get((one.group, one.sequence))
        if i is not None:
            errors[i] = max(errors.get(i, 0.0), one.largest / allowed(one.dtype, plan))
    for group, sequence, _ in rows.nonfinite:
        i = at.get((group, sequence))
        if i is not None:
            odd[i] += 1
    return errors, odd


ROUNDING = {"float64": 2.0**-51, "float32": 2.0**-22, "float16": 2.0**-9, "bfloat16": 2.0**-6}
"""Error that each addition may have, by type, as a share of the largest number of a sum: two bits more than its last
one, as the terms may be larger than the sum."""
OF_FIXED_POINT = 1e-3
"""Error that fixed point may have where switches add: the scale that a spec gives may be coarse for a gradient."""


def allowed(dtype: str, plan: Forest) -> float:
    """Return by how much a sum may differ from Gloo's of the same arrays, as a share of its largest number. Whole
    numbers are exact, but for 1 in 10^18, so that there is a share of it."""
    if plan.fixed is not None and dtype in ROUNDING:
        return OF_FIXED_POINT
    return len(plan.workers) * ROUNDING.get(dtype, 1e-18)


def _metrics(samples: pd.DataFrame, warmup: int, ranks: Sequence[RankRows]) -> dict[str, float | None]:
    counted = samples[samples["iteration"] >= warmup]
    jct_s = float(samples["end_s"].max() - samples["start_s"].min())
    metrics: dict[str, float | None] = {}
    for name in ("exposed_s", "hidden_s"):  # the median over iterations of the mean over ranks, if all are known
        is_known = counted[name].notna().all()
        metrics[name] = float(counted.groupby("iteration")[name].mean().median()) if is_known else None
    return metrics | {"throughput_sps": _throughput(samples, ranks, jct_s), "connect_s": connect_s(ranks)}


def _throughput(samples: pd.DataFrame, ranks: Sequence[RankRows], jct_s: float) -> float | None:
    """Return the samples of all iterations, as all ranks reported them, per second of JCT; None where none did."""
    last = samples["iteration"].max()
    told = []
    for rows in ranks:
        own = samples[samples["rank"] == rows.rank].sort_values("iteration")
        each = _told(rows, own["end_s"].tolist())
        told += [values["samples"] for at, values in each if 0 <= at <= last and "samples" in values]
    whole = sum(told)
    return whole / jct_s if told and jct_s > 0 and math.isfinite(whole) else None


# Collectives


def collectives(
    plan: Forest, topology: Topology, ranks: Sequence[RankRows], shaper: Shaper = IDEAL
) -> list[dict[str, Any]]:
    """Make a row for each kind, type and size of collective, in the order in which they first came: how many there
    were, and how long the median one took, from the last rank that asked for it to the last rank that had it."""
    seen: dict[tuple[int, int, str, int], list[Call]] = defaultdict(list)
    for rows in ranks:
        for call in rows.calls:
            seen[call.group, call.sequence, call.op, rows.rank if call.op in PAIRED else -1].append(call)
    groups: dict[_Alike, list[list[Call]]] = defaultdict(list)
    for calls in seen.values():
        (first, *_) = calls
        groups[first.op, first.dtype, first.nbytes, first.by, first.ranks].append(calls)
    unit, world = cost(plan, topology, 1.0), len(plan.workers)
    table = []
    for key, each in groups.items():
        op, _, nbytes, by, size = key
        link_s = shaper.least_s(nbytes * unit.link_bytes, unit.link_rate_bps)
        is_sum = (op, by, size) == ("allreduce", "scheme", world)  # of others it is not known what links allow
        table.append({**_row(key, each), "least_s": float(link_s.max(initial=0.0)) if is_sum else None})
    return table


MOST_CALLS = 200_000
"""The most rows of the table of collectives, of all ranks together: later ones are left out."""


def calls_of(ranks: Sequence[RankRows], table: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Make a row for each collective of each rank, in the order in which they were asked for; ``kind`` is the number of
    the row of ``table`` that it counts in."""
    kinds = {tuple(row[name] for name in ("op", "dtype", "bytes", "by", "ranks")): i for i, row in enumerate(table)}
    rows = [
        {
            "rank": rows.rank,
            "kind": kinds[call.op, call.dtype, call.nbytes, call.by, call.ranks],
            "group": call.group,
            "sequence": call.sequence,
            **{name: getattr(call, name) for name in ("asked_s", "came_s", "done_s", "held_s")},
        }
        for rows in ranks
        for call in rows.calls
    ]
    columns = ("rank", "kind", "group", "sequence", "asked_s", "came_s", "done_s", "held_s")
    found = pd.DataFrame(rows, columns=columns).astype({name: float for name in columns if name.endswith("_s")})
    return found.sort_values(["asked_s", "rank"], ignore_index=True).head(MOST_CALLS)


_Alike = tuple[str, str, int, str, int]
"""Key of the collectives that share a row: kind, type, bytes, the mover, and how many ranks."""


def _row(key: _Alike, each: Sequence[Sequence[Call]]) -> dict[str, Any]:
    op, dtype, nbytes, by, size = key
    complete = [calls for calls in each if len(calls) == size] or list(each)
    taken_s = [max(call.done_s for call in calls) - max(call.asked_s for call in calls) for calls in complete]
    time_s = max(median(taken_s), LEAST_S)
    seen_s = [call.held_s for calls in each for call in calls if call.held_s is not None]
    factor = bus_factor(op, size)
    return {
        "op": op,
        "dtype": dtype,
        "bytes": nbytes,
        "by": by,
        "ranks": size,
        "count": len(each),
        "median_s": time_s,
        "waited_s": fmean(seen_s) if seen_s else None,
        "algbw_bps": 8 * nbytes / time_s if nbytes else None,
        "busbw_bps": 8 * nbytes / time_s * factor if nbytes and factor is not None else None,
    }


def bus_factor(op: str, ranks: int) -> float | None:
    """Return the factor from algbw to busbw, as nccl-tests (PERFORMANCE.md) has it for ``bytes`` of the whole array;
    None for collectives that nccl-tests does not have."""
    share = (ranks - 1) / ranks
    known = {"allreduce": 2 * share, "reduce_scatter": share, "all_gather": share, "all_to_all": share}
    return known.get(op, 1.0 if op in ("broadcast", "reduce", "send", "recv") else None)


# Bytes


def _cost(plan: Forest, topology: Topology, ranks: Sequence[RankRows], last: Round, iterations: int) -> ScriptCost:
    """Compute the cost of an average iteration: all that the script moved, shared out over its iterations."""
    groups = {number: members for rows in ranks for number, members in rows.groups.items()}
    ways = Ways(plan, topology, groups)
    once = {  # with the first rank that reported it
        (call.group, call.sequence, call.op): (rows.rank, call)
        for rows in reversed(ranks)
        for call in rows.calls
        if call.op not in DIRECT
    }
    direct = [(rows.rank, call) for rows in ranks for call in rows.calls if call.op in DIRECT]
    links, wire = ways.moved([*once.values(), *direct])
    sums, _ = ways.moved((0, call) for call in last)
    unit = cost(plan, topology, 1.0)
    return ScriptCost(
        rounds=unit.rounds,
        wire_bytes=wire / iterations,
        cross_rack_bytes=sum(call.nbytes for call in last) * unit.cross_rack_bytes,
        link_bytes=links / iterations,
        link_rate_bps=unit.link_rate_bps,
        sums_bytes=sums,
    )
