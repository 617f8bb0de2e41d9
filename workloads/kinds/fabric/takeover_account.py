"""Account of a trial whose server was lost, and whose replica has served since: one journal of two processes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from testbed.base.errors import WorkerError
from testbed.workloads.kinds.fabric.fates import Fate
from testbed.workloads.kinds.fabric.journal_lines import FIX, Line, lines
from testbed.workloads.kinds.fabric.plan import Fabric
from testbed.workloads.kinds.fabric.replication_account import Replicated, counted, other, until
from testbed.workloads.learning.updates import Step, Update


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
        _behind(plan, server, every, count, loss),
        lost,
        frozenset(range(world)) - first.keys(),
        loss["takeover_bound"],
    )


def _behind(
    plan: Fabric, server: Mapping[str, Any], every: Sequence[Line], count: int, loss: Mapping[str, float]
) -> Replicated:
    """Compute how far the replica was behind at each step of the server, of which ``count`` are in the history that
    goes on. Later steps of the server moved its weights; but the replica has decided again on their updates, so nothing
    is reported about them."""
    metrics = until(plan, server, every).metrics
    return replace(until(plan, server, every[:count]), metrics={**metrics, **loss})


def _steps_of(every: Sequence[Line], entries: int) -> int:
    """Return how many of these lines have so many entries.

    Raises:
        WorkerError: none have.
    """
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
    """Return a line as processes report it."""
    numbers = [update.iteration * world + update.rank for update in line.updates]
    return [int(line.fate), numbers, [update.version for update in line.updates], line.shares]


def _steps(every: Sequence[Line], copied: Sequence[Line], own_from: int, first: Mapping[int, int]) -> Iterator[Step]:
    """Yield the steps of both. The replica's come once the server has made their updates, so that no gradient is kept
    for longer than the replica was behind."""
    made: set[tuple[int, int]] = set()
    waiting = iter(enumerate(copied))
    at, line = next(waiting, (0, None))
    for one in every:
        yield _step(one, "former", {})
        made.update((update.rank, update.iteration) for update in one.updates)
        while line is not None and made.issuperset((update.rank, update.iteration) for update in line.updates):
            yield _step(line, "replica" if at < own_from else "", first)
            at, line = next(waiting, (0, None))
    while line is not None:
        yield _step(line, "replica" if at < own_from else "", first)
        at, line = next(waiting, (0, None))


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

    Raises:
        WorkerError: that was more than the bound allows, or the replica had less than the server counted on.
    """
    applied = _applied(every)
    before = {*_applied(copied[:own_from])}
    norms, world, momentum = dict(server["norms"]), len(plan.workers), server["momentum"]
    lead = plan.options.lead(momentum)
    for update, is_applied, rate in counted(every, momentum):
        if is_applied:
            lead.add([rate * norms[update.iteration * world + update.rank]])
        else:
            lead.pass_over(1)
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
