"""What a trial has done whose transfers are scheduled: the accounts of workers, server and scheduler against each
other."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from testbed.base.errors import WorkerError
from workloads.kinds.base import Told
from workloads.kinds.fabric.fates import Fate
from workloads.kinds.fabric.plan import Fabric
from workloads.kinds.transfers import Carried, Purpose
from workloads.updates import Step, Update

FIX = "report it: the protocol is broken"


@dataclass(frozen=True)
class Line:
    """A line of the server's journal: what became of an update, or of several that came in a sum."""

    fate: Fate
    updates: tuple[Update, ...]
    shares: tuple[tuple[float, float], ...]


def told(plan: Fabric, samples: pd.DataFrame, done: Sequence[Mapping[str, Any]], iterations: int) -> Told:
    """The samples that count, the order of updates, and what was sent.

    Raises:
        WorkerError: the processes' accounts cannot be, or contradict each other.
    """
    (server,) = [one for one in done if "journal" in one]
    (scheduler,) = [one for one in done if "transfers" in one]
    journal = lines(server["journal"], len(plan.workers))
    wrong = problem(journal, plan, iterations * len(plan.workers)) or _disagreement(journal, samples)
    wrong = wrong or lost(scheduler["transfers"]) or other_order(scheduler["order"], journal, len(plan.workers))
    if wrong:
        raise WorkerError(f"what the processes of scheme {plan.scheme} tell does not fit together: {wrong}", fix=FIX)
    transfers = on_our_clock(scheduler)
    return Told(
        timed(samples, transfers, plan),
        order(journal),
        moved=moved(transfers, iterations),
        transfers=carried(transfers, plan),
        metrics=took(scheduler["plans_s"]),
    )


def lines(journal: Sequence[Sequence[Any]], world: int) -> list[Line]:
    """The journal from the server's last line."""
    found = []
    for fate, numbers, versions, shares in journal:
        pairs = zip(numbers, versions, strict=True)
        updates = tuple(Update(number % world, number // world, version) for number, version in pairs)
        counts = tuple((float(weights), float(velocity)) for weights, velocity in shares)
        if len(counts) != len(updates):
            raise WorkerError(f"of {len(updates)} updates the server tells what {len(counts)} count", fix=FIX)
        found.append(Line(Fate(fate), updates, counts))
    return found


def order(journal: Sequence[Line]) -> list[Step]:
    """What changed the weights, and what was dropped, in order."""
    return [Step(line.updates, line.shares, line.fate == Fate.AGGREGATED, not line.fate.is_applied) for line in journal]


def problem(journal: Sequence[Line], plan: Fabric, updates: int) -> str:
    """What is wrong with a journal; empty if nothing is.

    Each worker's iterations must be there once and in their order, each computed on weights of a version that there
    was, with those before it decided; nothing applied may be as stale as the delay bound; nobody may have begun further
    ahead of the slowest worker than SSP allows.
    """
    count = sum(len(line.updates) for line in journal)
    if count != updates:
        return f"it is known what became of {count} updates, of {updates}"
    state = _State(plan)
    for line in journal:
        for at, update in enumerate(line.updates):
            if wrong := state.problem(line, at, update):
                return wrong
        state.note(line)
    return ""


class _State:
    """How far a journal has got."""

    def __init__(self, plan: Fabric) -> None:
        world = len(plan.workers)
        self._options = plan.options
        self._done, self._known = [0] * world, [0] * world
        self._version = 0
        self._slowest = {0: 0}
        """By version, how many iterations the slowest worker had done when weights of that version could leave last."""

    def problem(self, line: Line, at: int, update: Update) -> str:
        rank, iteration, version, options = update.rank, update.iteration, update.version, self._options
        if iteration != self._done[rank]:
            return f"iteration {iteration} of worker {rank} comes after {self._done[rank]} others of it"
        if not self._known[rank] <= version or version not in self._slowest:
            return f"iteration {iteration} of worker {rank} was computed on version {version}, which it was not given"
        stale = self._version + at - version
        if line.fate.is_applied and options.delay_bound is not None and stale >= options.delay_bound:
            return f"iteration {iteration} of worker {rank} missed {stale} updates, and was applied"
        if options.staleness is not None and iteration - self._slowest[version] > options.staleness:
            return f"worker {rank} began iteration {iteration} when it was too far ahead of the slowest"
        return ""

    def note(self, line: Line) -> None:
        self._version += len(line.updates) if line.fate.is_applied else 0
        for update in line.updates:
            self._done[update.rank] += 1
            self._known[update.rank] = self._version
        self._slowest[self._version] = min(self._done)


def _disagreement(journal: Sequence[Line], samples: pd.DataFrame) -> str:
    """Where workers tell another story than the server."""
    entries = [(line.fate, update) for line in journal for update in line.updates]
    known = samples.sort_values("update")
    columns = ("update", "rank", "iteration", "version", "fate")
    said = list(zip(*(known[name].tolist() for name in columns), strict=True))
    for at, ((fate, update), sample) in enumerate(zip(entries, said, strict=False)):
        if sample != (at, update.rank, update.iteration, update.version, int(fate)):
            return f"update {at} is {update} ({fate.name.lower()}) to the server, and {sample} to worker {sample[1]}"
    return "" if len(said) == len(entries) else f"workers tell of {len(said)} updates, the server of {len(entries)}"


def lost(transfers: Sequence[Sequence[Any]]) -> str:
    """Which of the scheduler's transfers did not arrive, or went twice; empty if all is well."""
    for source, target, _, members, _, _, arrived_s in transfers:
        if arrived_s is None:
            what = f"updates {members}" if members else "weights"
            return f"{what} were sent from node {source} to node {target}, which does not know of them"
    counts = Counter((source, target, tuple(members)) for source, target, _, members, *_ in transfers if members)
    twice = [way for way, count in counts.items() if count > 1]
    return f"updates {list(twice[0][2])} went twice from node {twice[0][0]} to node {twice[0][1]}" if twice else ""


def other_order(planned: Sequence[int], journal: Sequence[Line], world: int) -> str:
    """Whether the server has applied updates in another order than the scheduler told it to."""
    kept = [line for line in journal if line.fate != Fate.DROPPED]
    came = [update.iteration * world + update.rank for line in kept for update in line.updates]
    for at, (one, other) in enumerate(zip(planned, came, strict=False)):
        if one != other:
            return f"update {one} was to be number {at}, and the server had {other}"
    return "" if len(planned) == len(came) else f"{len(planned)} updates were planned, and {len(came)} came"


def on_our_clock(scheduler: Mapping[str, Any]) -> list[list[Any]]:
    """The transfers with moments on the clock of the samples."""
    ahead_s = scheduler["time"] - scheduler["clock_s"]
    return [
        [*others, *(None if moment_s is None else moment_s + ahead_s for moment_s in moments)]
        for *others, begin_s, end_s, arrived_s in scheduler["transfers"]
        for moments in [(begin_s, end_s, arrived_s)]
    ]


def carried(transfers: Sequence[Sequence[Any]], plan: Fabric) -> list[Carried]:
    """The transfers as every kind tells them."""
    return [
        Carried(source, target, _purpose(source, members, plan), len(members), size_bytes, begin_s, end_s, arrived_s)
        for source, target, size_bytes, members, begin_s, end_s, arrived_s in transfers
    ]


def _purpose(source: int, members: Sequence[int], plan: Fabric) -> Purpose:
    """A sum may be of one update; then somebody else than its worker sends it."""
    if not members:
        return Purpose.WEIGHTS
    is_own = len(members) == 1 and plan.workers[members[0] % len(plan.workers)] == source
    return Purpose.UPDATE if is_own else Purpose.SUM


def took(plans_s: Sequence[float]) -> dict[str, float]:
    """How long the scheduler took to plan a batch."""
    known = pd.Series(plans_s, dtype=float)
    return {"scheduler_median_s": float(known.median()), "scheduler_p99_s": float(known.quantile(0.99))}


def timed(samples: pd.DataFrame, transfers: Sequence[Sequence[Any]], plan: Fabric) -> pd.DataFrame:
    """The samples with ``planned_s`` and ``arrived_s``: from a worker's gradient until the server was to have the
    update, as planned when it was sent, and until it had it, alone or in a sum; NaN of those that were dropped."""
    there = [one for one in transfers if one[1] == plan.server]
    ends = {number: (end_s, arrived_s) for *_, members, _, end_s, arrived_s in there for number in members}
    numbers = samples["iteration"] * len(plan.workers) + samples["rank"]
    known = [ends.get(number, (math.nan, math.nan)) for number in numbers]
    moments = pd.DataFrame(known, columns=["planned_s", "arrived_s"], index=samples.index)
    return samples.join(moments.sub(samples["ready_s"], axis=0))


def moved(transfers: Sequence[Sequence[Any]], iterations: int) -> list[tuple[int, int, float]]:
    """(sender, receiver, bytes) of an average iteration."""
    total: Counter[tuple[int, int]] = Counter()
    for source, target, count, *_ in transfers:
        total[source, target] += count
    return [(source, target, count / iterations) for (source, target), count in sorted(total.items())]
