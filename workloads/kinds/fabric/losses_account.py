"""A trial server's report on the processes that it has lost, the deviations that the account accepts for it, and the
updates that the server has sent its replica since."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias

from testbed.workloads.kinds.fabric.fates import Fate, Line
from testbed.workloads.kinds.fabric.plan import Fabric, Sent
from testbed.workloads.kinds.fabric.replication_account import counted, other

if TYPE_CHECKING:
    import pandas as pd

Came: TypeAlias = Sequence[tuple[int, Sequence[int], int]]
"""(source, members, bytes) of updates and sums that came."""
Leg: TypeAlias = tuple[int, int, tuple[int, ...]]
"""(source, target, members) of one transfer."""


@dataclass(frozen=True)
class Losses:
    """The processes that were lost.

    Attributes:
        ranks: by worker, how many entries the journal had when that was noticed.
        others: the nodes of other processes that did not come back,
        stand_ins: except a server or its replica, of which the other one is left.
        has_returned: whether the server was started again.
        update_bytes: of one update, and of the weights.
        spoilt: the bytes that may have been sent besides what counts, on any link: of each worker, once a loss, an
            update to an aggregator, both of its sums and weights; and as much for a replica that is fed since.
        came: of what came to the server.
        gave: (source, target) of weights.
    """

    ranks: Mapping[int, int]
    others: frozenset[int] = frozenset()
    stand_ins: frozenset[int] = frozenset()
    has_returned: bool = False
    update_bytes: int = 0
    spoilt: float = 0.0
    came: Came = ()
    gave: Sequence[tuple[int, int]] = ()

    @classmethod
    def told(cls, plan: Fabric, server: Mapping[str, Any]) -> Losses:
        """Read it from the server's last line."""
        if not server.get("lost"):
            return NOBODY
        size, at = server["update_bytes"], dict(server.get("lost_at", ()))
        lost = {node for node, *_ in server["lost"]}
        ways = 8 if plan.replica is not None and lost - {plan.server, plan.replica} else 4
        return cls(
            {rank: at[node] for rank, node in enumerate(plan.workers) if node in at},
            frozenset(lost - {*plan.workers, plan.server, plan.replica}),
            frozenset() if plan.replica is None else frozenset(lost & {plan.server, plan.replica}),
            plan.replica is None and plan.server in lost,
            size,
            float(len(lost) * len(plan.workers) * ways * size),
            server.get("came", ()),
            server.get("gave", ()),
        )

    def __bool__(self) -> bool:
        return bool(self.ranks or self.others or self.stand_ins or self.has_returned)

    def problem(self, schedulers: Sequence[object]) -> str:
        """Describe a wrong number of schedulers' reports: one although it is lost, or none although it is not. If it
        was lost when all was done, nobody else knows what it planned."""
        if not self and not schedulers:
            return "the scheduler was lost when all was done, before it told what it had planned"
        return "" if len(schedulers) == (not self.others) else f"{len(schedulers)} schedulers tell what they planned"

    def attributed(self, samples: pd.DataFrame, journal: Sequence[Line]) -> pd.DataFrame:
        """Return the samples with the final fates of updates that were lost with a server: their workers were told
        before that these had been applied or dropped."""
        places = {
            (update.rank, update.iteration): at
            for at, (fate, update) in enumerate((line.fate, update) for line in journal for update in line.updates)
            if fate == Fate.LOST
        }
        if not places:
            return samples
        found = samples.copy()
        keys = list(zip(found["rank"], found["iteration"], strict=True))
        is_lost = [key in places for key in keys]
        found.loc[is_lost, "update"] = [places[key] for key in keys if key in places]
        found.loc[is_lost, "fate"] = int(Fate.LOST)
        found.loc[is_lost, "staleness"] = 0
        return found

    def kept(self, planned: Sequence[int], journal: Sequence[Line], world: int) -> Sequence[int]:
        """Return a planned order without the updates that did not come because their worker was lost."""
        if not self:
            return planned
        lines = [line for line in journal if line.fate != Fate.LOST]
        came = {update.iteration * world + update.rank for line in lines for update in line.updates}
        return [number for number in planned if number in came]

    def unsent(self, plan: Fabric, journal: Sequence[Line], sent: Sequence[Leg]) -> str:
        """Describe the first update that counts although nobody was to bring it, or that came to the server more often
        than it was to; empty if all is well. ``sent`` is all that the scheduler had begun. A lost daemon may have sent
        more than it was told to."""
        if not self:
            return ""
        ends, world = {*plan.servers, plan.replica}, len(plan.workers)
        brought = {number for _, target, members in sent if target in ends for number in members}
        for line in (line for line in journal if line.fate not in (Fate.DROPPED, Fate.LOST)):
            for update in line.updates:
                if update.iteration * world + update.rank not in brought:
                    return f"iteration {update.iteration} of worker {update.rank} counts, and nobody was to send it"
        asked = Counter(sent)
        lost = {plan.workers[rank] for rank in self.ranks}
        came = Counter((source, plan.server, tuple(members)) for source, members, _ in self.came if source not in lost)
        for leg, count in came.items():
            if count > asked[leg]:
                source, target, members = leg
                what = f"updates {list(members)} came from node {source} to node {target}"
                return f"{what} {count} times, and were to come {asked[leg]} times"
        return ""

    def moved(self, plan: Fabric) -> list[Sent]:
        """List what was sent, from :attr:`came` and :attr:`gave`."""
        size = self.update_bytes
        return arrivals(plan, plan.server, self.came, size) + [(source, target, size) for source, target in self.gave]


NOBODY = Losses({})


def arrivals(plan: Fabric, target: int, came: Came, update_bytes: int) -> list[Sent]:
    """List what was sent so that this could come: if a source is not an update's own worker, that worker sent it the
    update first."""
    found: list[Sent] = []
    for source, members, count in came:
        found.append((source, target, count))
        workers = (plan.workers[number % len(plan.workers)] for number in members)
        found += [(worker, source, update_bytes) for worker in workers if worker != source]
    return found


@dataclass(frozen=True)
class Feeding:
    """The data that a replica has got that its server fed with states and updates, after another process was lost.

    Attributes:
        snapshots: of each of the server's states that came, how many lines the replica's journal had, and the server's.
        snapshot_bytes: of one.
        came: (source, members, bytes) of all updates and sums that came.
    """

    snapshots: Sequence[tuple[int, int]] = ()
    snapshot_bytes: int = 0
    came: Came = ()

    @classmethod
    def told(cls, done: Sequence[Mapping[str, Any]]) -> Feeding:
        """Read it from processes' last lines; empty where none reports it."""
        told = [one for one in done if "snapshots" in one]
        if not told:
            return cls()
        (one,) = told
        return cls([(own, theirs) for own, theirs in one["snapshots"]], one["snapshot_bytes"], one["came"])

    def whole(self, journal: Sequence[Line], copied: Sequence[Line], momentum: float) -> tuple[list[Line], str]:
        """Return the replica's journal, where lines that its weights had from the server replace those that it had made
        before; and describe a mistake: each state must contain what the replica had made, which must be what the server
        had."""
        found: list[Line] = []
        made = 0
        for own, theirs in self.snapshots:
            if not (made <= own <= len(copied) and theirs <= len(journal)):
                return (
                    found,
                    f"a state after {own} lines of {len(copied)}, and {theirs} of {len(journal)} at the server",
                )
            found += copied[made:own]
            had, has = list(counted(found, momentum)), counted(journal[:theirs], momentum)
            if wrong := other(islice(has, len(had)), had):
                return found, wrong
            found, made = list(journal[:theirs]), own
        return [*found, *copied[made:]], ""

    def fed(self, plan: Fabric) -> list[Sent]:
        """List what the server has sent the replica."""
        counts = [count for source, _, count in self.came if source == plan.server]
        counts += [self.snapshot_bytes] * len(self.snapshots)
        return [] if plan.replica is None else [(plan.server, plan.replica, count) for count in counts]

    def moved(self, plan: Fabric, update_bytes: int) -> list[Sent]:
        """List all that was sent to feed the replica, by daemons too."""
        if plan.replica is None:
            return []
        from_daemons = [one for one in self.came if one[0] != plan.server]
        return [*self.fed(plan), *arrivals(plan, plan.replica, from_daemons, update_bytes)]
