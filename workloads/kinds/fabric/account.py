"""Checks of a trial with scheduled transfers after it ended: the accounts of workers, server and scheduler against each
other."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from itertools import zip_longest
from typing import Any, NamedTuple

import pandas as pd

from testbed.base.errors import WorkerError
from testbed.workloads.kinds.base import Told
from testbed.workloads.kinds.fabric.fates import FIX, Fate, Line, lines
from testbed.workloads.kinds.fabric.losses_account import NOBODY, Feeding, Losses
from testbed.workloads.kinds.fabric.plan import Fabric, Sent
from testbed.workloads.kinds.fabric.replication_account import (
    Replicated,
    TakenOver,
    replicated,
    taken_over,
    until,
    with_behind,
)
from testbed.workloads.kinds.transfers import Carried, Purpose
from testbed.workloads.learning.updates import Step, Update


class Moved(NamedTuple):
    """A transfer that has begun, as the scheduler reports it. Moments are in seconds.

    Attributes:
        source: the node that sends, and ``target`` the one that receives.
        members: numbers of the updates in it; none of weights.
        shard: which part of them, by the server that has it.
        begin_s: as planned, and ``end_s``.
        arrived_s: when it was there; None where nobody told.
    """

    source: int
    target: int
    size_bytes: float
    members: Sequence[int]
    shard: int
    begin_s: float
    end_s: float
    arrived_s: float | None


def told(plan: Fabric, samples: pd.DataFrame, done: Sequence[Mapping[str, Any]], iterations: int) -> Told:
    """Return the samples that count, the order of updates, and what was sent.

    Raises:
        WorkerError: the processes' accounts cannot be, or contradict each other.
    """
    taken = taken_over(plan, done)
    if taken:
        done = [taken.server if "served" in one else one for one in done]
    server, *others = _servers(plan, done)
    schedulers = [one for one in done if "transfers" in one]
    journal, world = lines(server["journal"], len(plan.workers)), len(plan.workers)
    losses = Losses.told(plan, server)
    samples = losses.attributed(samples, journal)
    wrong = problem(journal, plan, iterations * world, losses) or _disagreement(journal, samples, losses)
    wrong = wrong or losses.problem(schedulers)
    wrong = wrong or _other_journal(server["journal"], [one["journal"] for one in others])
    transfers = [one for scheduler in schedulers for one in on_our_clock(scheduler)]
    legs = [(one.source, one.target, tuple(one.members)) for one in transfers if one.members]
    for scheduler in schedulers:
        wrong = wrong or misplaced(transfers, plan, done, losses) or losses.unsent(plan, journal, legs)
        wrong = wrong or other_order(losses.kept(scheduler["order"], journal, world), journal, world)
    feeding = Feeding.told(done)
    found = _replicated(plan, server, journal, done, taken)
    wrong = wrong or found.wrong
    if wrong:
        raise WorkerError(f"what the processes of scheme {plan.scheme} tell does not fit together: {wrong}", fix=FIX)
    if not schedulers:  # nobody knows what was planned, and when what was there that did not go to the server
        sent = [*losses.moved(plan), *feeding.moved(plan, losses.update_bytes)]
        return Told(
            with_behind(timed(samples, [], plan), found),
            order(journal),
            moved=moved(sent, iterations),
            metrics={**found.metrics, **_to_replica(sent, plan, losses)},
            spoilt_bytes=losses.spoilt,
        )
    (scheduler,) = schedulers
    sent = [*((one.source, one.target, one.size_bytes) for one in transfers if one.arrived_s is not None)]
    sent += feeding.fed(plan)
    return Told(
        with_behind(timed(samples, transfers, plan), found),
        taken.steps if taken else order(journal),
        moved=moved(sent, iterations),
        transfers=carried(transfers, plan),
        metrics={**took(scheduler["plans_s"]), **found.metrics, **_to_replica(sent, plan, losses)},
        norms={(number % world, number // world): float(norm) for number, norm in server.get("norms", ())},
        spoilt_bytes=losses.spoilt + sum(one.size_bytes for one in transfers if one.arrived_s is None),
        ended_before=taken.ended_before if taken else frozenset(),
        lost_updates={plan.server: [(one.rank, one.iteration) for one in taken.lost]} if taken else {},
        most_apart=taken.most_apart if taken else None,
    )


def _servers(plan: Fabric, done: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Find the last lines of the servers, which report what they decided. Raises WorkerError: nobody has."""
    found = [one for one in done if "journal" in one]
    if not found:
        raise WorkerError(
            f"the server on {plan.nodes[plan.server]} was lost when all was done, before it told what it had decided",
            fix="let it be lost earlier, or run again",
        )
    return found


def _replicated(
    plan: Fabric,
    server: Mapping[str, Any],
    journal: Sequence[Line],
    done: Sequence[Mapping[str, Any]],
    taken: TakenOver | None,
) -> Replicated:
    if plan.replica is None:
        return Replicated()
    if taken:
        return taken.replicated
    if "alone_from" in server:
        return until(plan, server, journal[: server["alone_from"]])
    told = [one for one in done if "copied" in one]
    if not told:  # it was lost when all was done, which nobody noticed
        return until(plan, server, journal)
    (replica,) = told
    copied = lines(replica["copied"], len(plan.workers))
    whole, wrong = Feeding.told(done).whole(journal, copied, server["momentum"])
    return Replicated(wrong) if wrong else replicated(plan, server, journal, whole, replica.get("lines"))


def _to_replica(sent: Sequence[Sent], plan: Fabric, losses: Losses) -> dict[str, float]:
    """Count the bytes that the replica got. Leave them out if the replica was lost and got something else than was
    scheduled: nobody can tell then."""
    if plan.replica is None or (plan.replica in losses.stand_ins and (losses.ranks or losses.others)):
        return {}
    return {"replica_bytes": float(sum(count for _, target, count in sent if target == plan.replica))}


def order(journal: Sequence[Line]) -> list[Step]:
    """List in order the steps that changed the weights, and the updates that were dropped."""
    return [Step(line.updates, line.shares, line.fate == Fate.AGGREGATED, not line.fate.is_applied) for line in journal]


def problem(journal: Sequence[Line], plan: Fabric, updates: int, losses: Losses = NOBODY) -> str:
    """Describe the first mistake in a journal; empty if it is right.

    Each worker's iterations must be there once and in their order, each computed on weights of a version that there
    was, with those before it decided; nothing applied may be as stale as the delay bound; nobody may have begun further
    ahead of the slowest worker than SSP allows. Of workers that were lost, updates may lack: as many as each would have
    had to do still, had all done as much, or one that it had begun.
    """
    count, known = sum(len(line.updates) for line in journal), Counter(u.rank for line in journal for u in line.updates)
    lack = sum(max(1, updates // len(plan.workers) - known[rank]) for rank in losses.ranks)
    if not updates - lack <= count <= updates:
        return f"it is known what became of {count} updates, of {updates}"
    state = _State(plan)
    for line in journal:
        state.lose(losses)
        for at, update in enumerate(line.updates):
            if wrong := state.problem(line, at, update):
                return wrong
        state.note(line)
    return ""


class _State:
    """State of a journal that is read line by line."""

    def __init__(self, plan: Fabric) -> None:
        world = len(plan.workers)
        self._options = plan.options
        self._done, self._known = [0] * world, [0] * world
        self._entries, self._living = 0, set(range(world))
        self._version = 0
        self._slowest = {0: 0}
        """Iterations that the slowest worker had done when weights of a version could leave last, by version."""

    def problem(self, line: Line, at: int, update: Update) -> str:
        rank, iteration, version, options = update.rank, update.iteration, update.version, self._options
        if iteration != self._done[rank]:
            return f"iteration {iteration} of worker {rank} comes after {self._done[rank]} others of it"
        if line.fate == Fate.LOST:  # computed on weights that are in no history, or answered with such weights
            return ""
        if not self._known[rank] <= version or version not in self._slowest:
            return f"iteration {iteration} of worker {rank} was computed on version {version}, which it was not given"
        stale = self._version + at - version
        if line.fate.is_applied and options.delay_bound is not None and stale >= options.delay_bound:
            return f"iteration {iteration} of worker {rank} missed {stale} updates, and was applied"
        if options.staleness is not None and iteration - self._slowest[version] > options.staleness:
            return f"worker {rank} began iteration {iteration} when it was too far ahead of the slowest"
        return ""

    def lose(self, losses: Losses) -> None:
        """Note losses: no worker waits any more for workers that were lost by now."""
        gone = {rank for rank, entries in losses.ranks.items() if entries <= self._entries} & self._living
        if gone and gone != self._living:
            self._living -= gone
            self._slowest[self._version] = self._least

    @property
    def _least(self) -> int:
        return min(self._done[rank] for rank in self._living)

    def note(self, line: Line) -> None:
        self._entries += len(line.updates)
        self._version += len(line.updates) if line.fate.is_applied else 0
        for update in line.updates:
            self._done[update.rank] += 1
            self._known[update.rank] = self._version
        self._slowest[self._version] = self._least


def _disagreement(journal: Sequence[Line], samples: pd.DataFrame, losses: Losses = NOBODY) -> str:
    """Describe the first difference between the workers' samples and the server's journal. A worker that was lost may
    not have reported its last update."""
    entries = [(line.fate, update) for line in journal for update in line.updates]
    known = samples.sort_values("update")
    lost = known["fate"] == Fate.LOST
    known.loc[lost, "version"] = 0  # of the weights that were lost the server knows nothing
    columns = ("update", "rank", "iteration", "version", "fate")
    said = list(zip(*(known[name].tolist() for name in columns), strict=True))
    last = {update.rank: at for at, (_, update) in enumerate(entries)}
    told = {sample[0] for sample in said}
    silent = {at for rank, at in last.items() if rank in losses.ranks and at not in told}
    known_to_both = [(at, *one) for at, one in enumerate(entries) if at not in silent]
    for (at, fate, update), sample in zip(known_to_both, said, strict=False):
        if sample != (at, update.rank, update.iteration, update.version, int(fate)):
            return f"update {at} is {update} ({fate.name.lower()}) to the server, and {sample} to worker {sample[1]}"
    as_many = len(said) == len(known_to_both)
    return "" if as_many else f"workers tell of {len(said)} updates, the server of {len(known_to_both)}"


def _other_journal(journal: Sequence[Any], others: Sequence[Sequence[Any]]) -> str:
    """Describe the first line in which a server's journal differs from the first server's about the same updates."""
    for number, other in enumerate(others, 1):
        for at, (one, another) in enumerate(zip_longest(journal, other)):
            if one != another:
                return f"line {at} of the journals is {one} at the first server, and {another} at server {number}"
    return ""


def misplaced(
    transfers: Sequence[Moved], plan: Fabric, done: Sequence[Mapping[str, Any]], losses: Losses = NOBODY
) -> str:
    """Describe the first of the scheduler's transfers that did not arrive, went twice, or had other bytes than it has
    to have; empty if all is well. ``done`` are the processes' last lines. After a loss a transfer may be missing, or go
    twice; nobody tells what a lost process has received."""
    servers = [one for one in done if "journal" in one]
    holders = plan.roots or plan.servers
    told = [*zip(holders, servers, strict=True), *((plan.replica, one) for one in done if "copied" in one)]
    received = {node: {*map(tuple, one["received"])} for node, one in told if node not in losses.stand_ins}
    there = [one for one in transfers if one.arrived_s is not None]
    if losses.has_returned:  # of what came after its checkpoint the server knows nothing
        size = losses.update_bytes
        received[plan.server] |= {(one.members[0], count) for one in there if one.members for count in (size, 2 * size)}
    wrong = "" if losses else _lost(transfers)
    return wrong or _other_bytes(there, plan, [one["update_bytes"] for one in servers], received)


def _lost(transfers: Sequence[Moved]) -> str:
    for one in transfers:
        if one.arrived_s is None:
            what = f"updates {list(one.members)}" if one.members else "weights"
            return f"{what} were sent from node {one.source} to node {one.target}, which does not know of them"
    counts = Counter((one.source, one.target, tuple(one.members), one.shard) for one in transfers if one.members)
    twice = [way for way, count in counts.items() if count > 1]
    return f"updates {list(twice[0][2])} went twice from node {twice[0][0]} to node {twice[0][1]}" if twice else ""


def _other_bytes(
    transfers: Sequence[Moved],
    plan: Fabric,
    sizes_bytes: Sequence[int],
    received: Mapping[int | None, Collection[tuple[int, int]]],
) -> str:
    """Describe the first transfer with a wrong size. An update and weights have the model's size, or that of the
    server's shard. A sum has it once or twice, and what goes to a server or the replica has as many bytes as that
    ``received``: (number of the first update in it, bytes). A worker's host may send a sum that has the worker's update
    alone. Transfers that are repeated after a loss have several sizes."""
    for one in transfers:
        ends = (*plan.servers_at(one.members[0] // len(plan.workers)), plan.replica) if one.members else ()
        is_told = one.target in ends and one.target in received
        most = 2 if one.members and (is_told or not _is_own(one, plan)) else 1
        allowed = [times * sizes_bytes[one.shard] for times in range(1, most + 1)]
        if is_told:
            allowed = [count for count in allowed if (one.members[0], count) in received[one.target]]
        if one.size_bytes not in allowed:
            what = f"updates {list(one.members)}" if one.members else "weights"
            right = " or ".join(f"{count:,}" for count in allowed) or "another number"
            way = f"from node {one.source} to node {one.target}"
            return f"{what} went {way} as {one.size_bytes:,.0f} bytes, not {right}"
    return ""


def other_order(planned: Sequence[int], journal: Sequence[Line], world: int) -> str:
    """Describe the first update that the server has applied out of the order that the scheduler told it."""
    kept = [line for line in journal if line.fate not in (Fate.DROPPED, Fate.LOST)]
    came = [update.iteration * world + update.rank for line in kept for update in line.updates]
    for at, (one, other) in enumerate(zip(planned, came, strict=False)):
        if one != other:
            return f"update {one} was to be number {at}, and the server had {other}"
    return "" if len(planned) == len(came) else f"{len(planned)} updates were planned, and {len(came)} came"


def on_our_clock(scheduler: Mapping[str, Any]) -> list[Moved]:
    """Return the transfers with moments on the clock of the samples."""
    ahead_s = scheduler["time"] - scheduler["clock_s"]
    return [
        one._replace(
            begin_s=one.begin_s + ahead_s,
            end_s=one.end_s + ahead_s,
            arrived_s=None if one.arrived_s is None else one.arrived_s + ahead_s,
        )
        for one in (Moved(*row) for row in scheduler["transfers"])
    ]


def carried(transfers: Sequence[Moved], plan: Fabric) -> list[Carried]:
    """Return the transfers in the form that all kinds use."""
    return [
        Carried(one.source, one.target, _purpose(one, plan), len(one.members), one.size_bytes, *one[-3:], one.shard)
        for one in transfers
    ]


def _purpose(one: Moved, plan: Fabric) -> Purpose:
    if not one.members:
        return Purpose.WEIGHTS
    if one.target in plan.to_replica:
        return Purpose.REPLICA
    return Purpose.UPDATE if _is_own(one, plan) else Purpose.SUM


def _is_own(one: Moved, plan: Fabric) -> bool:
    """Whether a worker sends its own update. A sum may also be of one update; then another process sends it."""
    return len(one.members) == 1 and plan.workers[one.members[0] % len(plan.workers)] == one.source


def took(plans_s: Sequence[float]) -> dict[str, float]:
    """Summarise how long (s) the scheduler took to plan a batch; empty where nobody measured that."""
    if not plans_s:
        return {}
    known = pd.Series(plans_s, dtype=float)
    return {"scheduler_median_s": float(known.median()), "scheduler_p99_s": float(known.quantile(0.99))}


def timed(samples: pd.DataFrame, transfers: Sequence[Moved], plan: Fabric) -> pd.DataFrame:
    """Return the samples with ``planned_s`` and ``arrived_s``: from a worker's gradient until the server was to have
    the update, as planned when it was sent, and until it had it, alone or in a sum; NaN if it was dropped. Of several
    shards the last one counts."""
    ways: dict[int, list[Moved]] = defaultdict(list)
    for one in transfers:
        for number in one.members if one.target in plan.servers else ():
            ways[number].append(one)
    numbers = samples["iteration"] * len(plan.workers) + samples["rank"]
    known = [_last_s(ways.get(number, ())) for number in numbers]
    moments = pd.DataFrame(known, columns=["planned_s", "arrived_s"], index=samples.index)
    return samples.join(moments.sub(samples["ready_s"], axis=0))


def _last_s(transfers: Sequence[Moved]) -> tuple[float, float]:
    """Return when the last of these transfers was to arrive, and when the last known arrival was; NaN where there is
    none."""
    arrived_s = [one.arrived_s for one in transfers if one.arrived_s is not None]
    return max((one.end_s for one in transfers), default=math.nan), max(arrived_s, default=math.nan)


def moved(transfers: Sequence[Sent], iterations: int) -> list[Sent]:
    """Compute the bytes that each pair of nodes sent in an average iteration."""
    total: dict[tuple[int, int], float] = defaultdict(float)
    for sender, receiver, size_bytes in transfers:
        total[sender, receiver] += size_bytes
    return [(source, target, count / iterations) for (source, target), count in sorted(total.items())]
