"""Flows of other tenants, which compete with the trial for links."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from testbed.base.errors import SpecError
from testbed.base.groups import Rate, Time, Whole
from testbed.perturb import targets
from testbed.perturb.events import Event, Helper, helped
from testbed.perturb.kinds.base import MOST, Context, Perturbation, Timed
from testbed.perturb.moments import Moment

PORT = 7_000
"""Port of the first sink of the first perturbation; those of the n-th listen at this plus n, and steps of
:data:`STEP`."""
STEP = 2 * MOST
"""The most perturbations of a trial: those of the experiment, and those of the arm."""
MOST_FLOWS = 20
"""The most sinks of a perturbation: ports end below those of bursts, at 9,000."""
MODULE = "testbed.workloads.perturbing.background"


def flow(context: Context, ends: tuple[int, int], *, count: int = 1, rate_bps: int = 0, place: int = 0) -> list[Helper]:
    """Make the sink and the source of ``count`` connections from one host to another, each of that rate (bit/s), or as
    fast as TCP lets it if that is 0. ``place`` numbers those of one perturbation."""
    source, sink = ends
    number = f"{context.number}" + (f"-{place}" if place else "")
    where = (context.addresses.flow(source, sink)[1], str(PORT + context.number + STEP * place), str(count))
    return [
        Helper(f"sink{number}", sink, MODULE, ("sink", *where)),
        Helper(f"source{number}", source, MODULE, ("source", *where, str(rate_bps)), sink, count, rate_bps),
    ]


class Background(Timed):
    """TCP flows from one host to another compete with the trial's."""

    kind: Literal["background"]
    source: str = Field(alias="from", examples=["h0"])
    """The host that sends."""
    sink: str = Field(alias="to", examples=["h1"])
    """The host that receives."""
    flows: Whole = Field(1, ge=1, le=100)
    """The number of flows."""
    rate_bps: Rate | None = Field(None, alias="rate", examples=["50 Mbit/s"])
    """The rate of each flow in bit/s. By default each sends as fast as TCP lets it. The workload's ``scale`` divides
    it."""

    disturbs_tcp: ClassVar[bool] = True

    def helpers(self, context: Context) -> list[Helper]:
        """Make the sink, then the source."""
        source, sink = targets.hosts(context.topology, [self.source, self.sink])
        if source == sink:
            raise SpecError(f"background traffic from {self.source} to itself", fix="name two hosts")
        rate_bps = round((self.rate_bps or 0) / context.scale)
        return flow(context, (source, sink), count=self.flows, rate_bps=rate_bps)

    def events(self, context: Context) -> Sequence[Event]:
        _, source = self.helpers(context)
        return helped(self.window(f"{self.flows} from {self.source} to {self.sink}"), [source])


class Interference(Perturbation):
    """TCP flows between hosts of no job come and go by chance, and take a share of the links that jobs use."""

    kind: Literal["interference"]
    flows: Whole = Field(4, ge=1, le=MOST_FLOWS)
    """The number of flows. Each goes between two hosts that are drawn, at different switches if there are such."""
    mean_on_s: Time = Field(1.0, alias="mean_on", ge=0.05)
    """The mean of the times for which a flow sends, which have an exponential distribution."""
    mean_off_s: Time = Field(1.0, alias="mean_off", ge=0.05)
    """The mean of the times between them."""

    disturbs_tcp: ClassVar[bool] = True
    while_probed: ClassVar[bool] = True

    def helpers(self, context: Context) -> Sequence[Helper]:
        """
        Raises:
            SpecError: fewer than two hosts have no process of the trial.
        """
        return [one for place, ends in enumerate(self._ends(context)) for one in flow(context, ends, place=place)]

    def events(self, context: Context) -> Iterator[Event]:
        sources = self.helpers(context)[1::2]
        streams = [self._on_and_off(context, place, source) for place, source in enumerate(sources)]
        return heapq.merge(*streams, key=lambda event: event.at.time_s or 0.0)

    def _ends(self, context: Context) -> Iterator[tuple[int, int]]:
        """Draw the source and the sink of each flow."""
        topology, taken = context.topology, {*context.processes.values()}
        free = [host for host in topology.hosts if host not in taken]
        if len(free) < 2:
            raise SpecError("interference needs two hosts of no job", fix="give the arm jobs that leave some free")
        random = context.random()
        for _ in range(self.flows):
            source = int(random.choice(free))
            others = [host for host in free if host != source]
            far = [host for host in others if len(topology.paths(source, host)[0].links) > 2]
            yield source, int(random.choice(far or others))

    def _on_and_off(self, context: Context, place: int, source: Helper) -> Iterator[Event]:
        """Yield the beginnings and ends of one flow, as if it had come and gone for ever."""
        random = np.random.default_rng([context.seed, context.number, place])
        nodes, sink = context.topology.nodes, source.sends_to
        what = f"a flow from {nodes[source.node].name} to {nodes[sink or 0].name}"
        is_on = random.random() < self.mean_on_s / (self.mean_on_s + self.mean_off_s)
        at_s = 0.0 if is_on else random.exponential(self.mean_off_s)
        while True:
            until_s = at_s + random.exponential(self.mean_on_s)
            on, off = Moment(time_s=round(at_s, 6)), Moment(time_s=round(until_s, 6))
            begin = Event(on, self.kind, what, optional=True)
            yield from helped([begin, Event(off, self.kind, f"no longer: {what}", optional=True)], [source])
            at_s = until_s + random.exponential(self.mean_off_s)
