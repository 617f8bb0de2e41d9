"""``rate``: links that have another rate for a while."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from testbed.base.errors import SpecError
from testbed.base.groups import Rate, Share, refuse
from testbed.base.units import rate_text
from testbed.lab.base import LinkChange
from testbed.perturb import targets
from testbed.perturb.events import Event
from testbed.perturb.kinds.base import Context, OfLinks, Timed
from testbed.topologies.model import Topology


class Step(Timed, OfLinks):
    """Links have another rate for a while, as PLink's node 0 has 2 Gbit/s in place of 5."""

    kind: Literal["rate"]
    rate_bps: Rate | None = Field(None, alias="rate", examples=["2 Gbit/s"])
    """The new rate in bit/s. The workload's ``scale`` divides it, as it divides the links' rates."""
    share: Share | None = Field(None, gt=0, examples=["40 %"])
    """The new rate as a share of each link's own rate, in place of ``rate``."""

    disturbs_tcp: ClassVar[bool] = True

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.rate_bps is None) == (self.share is None):
            raise refuse("a change of rate needs either rate or share", "write rate: 2 Gbit/s, or share: 40 %")
        return self

    def events(self, context: Context) -> Sequence[Event]:
        topology = context.topology
        links = self.directed(topology)
        wanted = {link: self._wanted_bps(topology, link, context.scale) for link in links}
        for link, rate_bps in wanted.items():
            context.limits.check_rate(rate_bps)
            _check_own(topology, link, rate_bps)
        rates = " or ".join(sorted({rate_text(rate_bps) for rate_bps in wanted.values()}))
        changes = [LinkChange(link, rate_bps=rate_bps) for link, rate_bps in wanted.items()]
        back = [LinkChange(link, rate_bps=targets.rate_bps(topology, link)) for link in links]
        return self.window(f"{targets.labels(topology, links)} at {rates}", changes, back)

    def _wanted_bps(self, topology: Topology, link: int, scale: float) -> int:
        return round(self.rate_bps / scale if self.rate_bps else (self.share or 1) * targets.rate_bps(topology, link))


def _check_own(topology: Topology, link: int, rate_bps: int) -> None:
    own_bps = targets.rate_bps(topology, link)
    if rate_bps > own_bps:
        raise SpecError(
            f"{targets.label(topology, link)} has {rate_text(own_bps)} and cannot rise to {rate_text(rate_bps)}",
            fix="give the topology the highest rate, and lower it where the trial begins",
        )
