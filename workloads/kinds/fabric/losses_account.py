"""What a trial's server tells of the processes that it has lost, and what the account forgives for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from workloads.kinds.fabric.fates import Fate
from workloads.kinds.fabric.journal_lines import Line
from workloads.kinds.fabric.plan import Fabric, Sent

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Losses:
    """Who was lost.

    Attributes:
        ranks: by worker, how many entries the journal had when that was noticed.
        others: the nodes of other processes that did not come back,
        stand_ins: except a server or its replica, of which the other one is left.
        has_returned: whether the server was started again.
        update_bytes: of one update, and of the weights.
        spoilt: the bytes that may have been sent besides what counts, on any link: of each worker, once a loss, an
            update to an aggregator, both of its sums and weights.
        came: (source, members, bytes) of what came to the server.
        gave: (source, target) of weights.
    """

    ranks: Mapping[int, int]
    others: frozenset[int] = frozenset()
    stand_ins: frozenset[int] = frozenset()
    has_returned: bool = False
    update_bytes: int = 0
    spoilt: float = 0.0
    came: Sequence[tuple[int, Sequence[int], int]] = ()
    gave: Sequence[tuple[int, int]] = ()

    @classmethod
    def told(cls, plan: Fabric, server: Mapping[str, Any]) -> Losses:
        """From the server's last line."""
        if not server.get("lost"):
            return NOBODY
        size = server["update_bytes"]
        if plan.replica is not None:
            stand_ins = frozenset(node for node, *_ in server["lost"])
            return cls({}, stand_ins=stand_ins, update_bytes=size, spoilt=float(len(plan.workers) * 4 * size))
        at = dict(server["lost_at"])
        return cls(
            {rank: at[node] for rank, node in enumerate(plan.workers) if node in at},
            frozenset(at.keys() - {*plan.workers, plan.server}),
            frozenset(),
            plan.server in at,
            size,
            float(len(at) * len(plan.workers) * 4 * size),
            server["came"],
            server["gave"],
        )

    def __bool__(self) -> bool:
        return bool(self.ranks or self.others or self.stand_ins or self.has_returned)

    def problem(self, schedulers: Sequence[object]) -> str:
        """Whether a scheduler tells something although it is lost, or nothing although it is not: if it was lost when
        all was done, nobody else knows what it planned."""
        if not self and not schedulers:
            return "the scheduler was lost when all was done, before it told what it had planned"
        return "" if len(schedulers) == (not self.others) else f"{len(schedulers)} schedulers tell what they planned"

    def attributed(self, samples: pd.DataFrame, journal: Sequence[Line]) -> pd.DataFrame:
        """The samples, with what became of updates in the end that were lost with a server: their workers were told
        before that they had been applied or dropped."""
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
        """A planned order without what did not come because its worker was lost."""
        if not self:
            return planned
        lines = [line for line in journal if line.fate != Fate.LOST]
        came = {update.iteration * world + update.rank for line in lines for update in line.updates}
        return [number for number in planned if number in came]

    def moved(self, plan: Fabric, journal: Sequence[Line]) -> list[Sent]:
        """What was sent, as :attr:`came` and :attr:`gave` tell."""
        world, size = len(plan.workers), self.update_bytes
        sums = [line.updates for line in journal if line.fate == Fate.AGGREGATED]
        summed = {one.iteration * world + one.rank for updates in sums for one in updates}
        found: list[Sent] = []
        for source, members, count in self.came:
            found.append((source, plan.server, count))
            if not summed.isdisjoint(members):
                workers = (plan.workers[number % world] for number in members)
                found += [(worker, source, size) for worker in workers if worker != source]
        return found + [(source, target, size) for source, target in self.gave]


NOBODY = Losses({})
