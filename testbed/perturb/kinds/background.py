"""``background``: flows that compete with the trial's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from pydantic import Field

from testbed.base.errors import SpecError
from testbed.base.groups import Rate, Whole
from testbed.perturb import targets
from testbed.perturb.events import Event, Helper, helped
from testbed.perturb.flows import flow
from testbed.perturb.kinds.base import Context, Timed


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
