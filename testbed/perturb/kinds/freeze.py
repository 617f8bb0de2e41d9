"""``freeze``: hosts that stand still for a while."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar, Literal

from pydantic import Field

from testbed.perturb import targets
from testbed.perturb.events import Event, Signals, blocking, halting
from testbed.perturb.kinds.base import Context, Names, Timed


class Freeze(Timed):
    """A host stops: its processes stand still, and its links carry nothing. Or one process stands still."""

    kind: Literal["freeze"]
    hosts: Names = Field(examples=["[h0]"])
    """The hosts, or single processes such as ``h0.daemon``. The other processes of such a host go on."""

    drops_packets: ClassVar[bool] = True
    disturbs_tcp: ClassVar[bool] = True

    @property
    def stops(self) -> Sequence[str]:
        return self.hosts

    def events(self, context: Context) -> Sequence[Event]:
        """Make the events. A machine that stands still takes no packet either, so its links are blocked both ways.
        Where one of its processes stands still, the machine does not."""
        topology = context.topology
        for name in self.hosts:
            targets.reached(topology, context.processes, name)
        hosts = [name for name in self.hosts if name in topology.index]
        targets.hosts(topology, hosts)
        links = targets.links(topology, hosts, "both")
        what = f"{', '.join(self.hosts)} frozen"
        begin, *end = halting(self.window(what, blocking(links, True), blocking(links, False)))
        stop, go = (tuple(Signals(number, name) for name in self.hosts) for number in (signal.SIGSTOP, signal.SIGCONT))
        return [replace(begin, signals=stop, stops=tuple(self.hosts)), *(replace(event, signals=go) for event in end)]
