"""``rates``: links whose rates change by chance."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import count, islice
from typing import ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from testbed.base.groups import Number, Share, Time, refuse
from testbed.lab.base import LinkChange
from testbed.perturb import targets
from testbed.perturb.events import Event
from testbed.perturb.kinds.base import Context, OfLinks
from testbed.perturb.moments import Moment
from testbed.topologies.model import Topology

MOST_PLAYED = 1000
"""The most changes of a trial that are played to count those that strike: the first ones."""


class Rates(OfLinks):
    """At regular intervals each link and direction gets another rate, by chance."""

    kind: Literal["rates"]
    every_s: Time = Field(5.0, alias="every", gt=0)
    """The time between two changes."""
    shares: dict[Share, Number] = Field(min_length=1, max_length=100, examples=["{10 %: 0.5, 100 %: 0.5}"])
    """For each share of the link's own rate, its probability."""

    disturbs_tcp: ClassVar[bool] = True

    @model_validator(mode="after")
    def _sum_is_1(self) -> Self:
        total = sum(self.shares.values())
        if abs(total - 1) > 1e-6 or min(self.shares.values()) < 0:
            raise refuse(f"the probabilities add up to {total:g}", "make them add up to 1, none below 0")
        if min(self.shares) <= 0:
            raise refuse("a rate of 0", "give shares above 0, or use kind: down")
        return self

    def events(self, context: Context) -> Iterator[Event]:
        links = self.directed(context.topology)
        for link in links:
            context.limits.check_rate(targets.rate_bps(context.topology, link) * min(self.shares))
        return self._drawn(links, context.topology, context.random())

    def changes_by_chance(self, context: Context, until_s: float) -> tuple[int, int]:
        topology, most = context.topology, math.ceil(min(until_s / self.every_s, MOST_PLAYED))
        drawn = [change for event in islice(self.events(context), most) for change in event.links]
        changed = sum(change.rate_bps != targets.rate_bps(topology, change.directed_link) for change in drawn)
        return changed, len(drawn)

    def _drawn(self, links: Sequence[int], topology: Topology, random: np.random.Generator) -> Iterator[Event]:
        """Yield an event every ``every_s``, without end, that draws a rate for every link and direction."""
        shares, chances = list(self.shares), np.array(list(self.shares.values()))
        for period in count():
            drawn = random.choice(len(shares), len(links), p=chances / chances.sum())
            changes = tuple(
                LinkChange(link, rate_bps=round(targets.rate_bps(topology, link) * shares[i]))
                for link, i in zip(links, drawn.tolist(), strict=True)
            )
            tally = {f"{share:.0%}": int(np.count_nonzero(drawn == i)) for i, share in enumerate(shares)}
            what = ", ".join(f"{number} at {share}" for share, number in tally.items() if number)
            at = Moment(time_s=period * self.every_s)
            yield Event(at, self.kind, f"{what} of their rate", changes, optional=period > 0)
