"""``hog``: processes that compete for the cores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from testbed.base.groups import Whole
from testbed.perturb import targets
from testbed.perturb.events import Event, Helper, helped
from testbed.perturb.kinds.base import Context, Names, Timed


class Hog(Timed):
    """Processes on a host that take CPU time from everything on this machine."""

    kind: Literal["hog"]
    hosts: Names = Field(examples=["[h0]"])
    """The hosts on which these processes run."""
    cores: Whole = Field(1, ge=1, le=256)
    """The number of processes on each host. Each takes the time of one core if it can."""

    def helpers(self, context: Context) -> list[Helper]:
        topology = context.topology
        return [
            Helper(f"hog{context.number}-{topology.nodes[host].name}-{core}", host, "testbed.workloads.perturbing.hog")
            for host in targets.hosts(topology, self.hosts)
            for core in range(self.cores)
        ]

    def events(self, context: Context) -> Sequence[Event]:
        return helped(self.window(f"{self.cores} busy on {', '.join(self.hosts)}"), self.helpers(context))
