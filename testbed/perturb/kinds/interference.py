"""``interference``: flows of other tenants, between hosts that no job has."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from testbed.base.errors import SpecError
from testbed.base.groups import Time, Whole
from testbed.perturb.events import Event, Helper, helped
from testbed.perturb.flows import MOST_FLOWS, flow
from testbed.perturb.kinds.base import Context, Perturbation
from testbed.perturb.moments import Moment


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
