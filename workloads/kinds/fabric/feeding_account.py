"""Account of a replica that its server fed with states and updates, after another process was lost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from testbed.workloads.kinds.fabric.journal_lines import Line
from testbed.workloads.kinds.fabric.losses_account import Came, arrivals
from testbed.workloads.kinds.fabric.plan import Fabric, Sent
from testbed.workloads.kinds.fabric.replication_account import counted, other


@dataclass(frozen=True)
class Feeding:
    """The data that a replica has got.

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
