"""Perturbations of hosts: those that stand still for a while, and nodes whose processes are killed."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar, Literal

from pydantic import Field

from testbed.perturb import targets
from testbed.perturb.events import Event, Signals, blocking, halting
from testbed.perturb.kinds.base import Context, Names, Perturbation, Timed
from testbed.perturb.moments import Moment, When


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


class Kill(Perturbation):
    """Every process of a node is killed: a worker, a server, or a switch that aggregates. Or one process is killed."""

    kind: Literal["kill"]
    at: When = Field(examples=["3 s"])
    """The moment at which they are killed."""
    nodes: Names = Field(examples=["[h0]"])
    """The nodes, or single processes such as ``h0.daemon``."""

    disturbs_tcp: ClassVar[bool] = True

    @property
    def moments(self) -> Sequence[Moment]:
        return (self.at,)

    @property
    def kills(self) -> Sequence[str]:
        return self.nodes

    def events(self, context: Context) -> Sequence[Event]:
        reached = [targets.reached(context.topology, context.processes, name) for name in self.nodes]
        ended = tuple(process for some in reached for process in some)
        signals = tuple(Signals(signal.SIGKILL, target=name) for name in self.nodes)
        return [Event(self.at, self.kind, f"{', '.join(self.nodes)} killed", signals=signals, kills=ended)]
