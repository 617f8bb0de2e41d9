"""Perturbations of links: their rates, queues and impairments, and links that carry nothing."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count, islice
from typing import ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from testbed.base.errors import SpecError
from testbed.base.groups import Number, Rate, Share, Size, Time, refuse
from testbed.base.units import rate_text, size_text
from testbed.lab.base import Impairment, LinkChange
from testbed.perturb import targets
from testbed.perturb.events import Event, blocking, halting
from testbed.perturb.kinds.base import Context, Names, OfLinks, Timed
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


class Queue(Timed, OfLinks):
    """Links have a queue of another size for a while. Packets that do not fit are dropped."""

    kind: Literal["queue"]
    size_bytes: Size = Field(alias="size", examples=["64 KiB"])
    """The new size of the queue."""

    drops_packets: ClassVar[bool] = True
    disturbs_tcp: ClassVar[bool] = True

    def events(self, context: Context) -> Sequence[Event]:
        links = self.directed(context.topology)
        return self.window(
            f"{targets.labels(context.topology, links)} with a queue of {size_text(self.size_bytes)}",
            [LinkChange(link, queue_bytes=self.size_bytes) for link in links],
            [LinkChange(link, queue_bytes=context.links.queue_bytes) for link in links],
        )


class Impair(Timed, OfLinks):
    """Links delay, lose or reorder packets for a while. These settings take the place of those before."""

    kind: Literal["impair"]
    delay_s: Time = Field(0.0, alias="delay", examples=["5 ms"])
    """The delay of one link in one direction."""
    jitter_s: Time = Field(0.0, alias="jitter")
    """The standard deviation of the delay. Packets keep their order."""
    loss: Share = Field(0.0, examples=["1 %"])
    """The probability that a packet is lost."""
    reorder: Share = Field(0.0, examples=["1 %"])
    """The share of the packets that are not delayed and so overtake others."""

    drops_packets: ClassVar[bool] = True
    disturbs_tcp: ClassVar[bool] = True

    @property
    def impairment(self) -> Impairment:
        """Impairment as the lab takes it."""
        return Impairment(self.delay_s, self.jitter_s, self.loss, self.reorder)

    @model_validator(mode="after")
    def _can_be(self) -> Self:
        try:
            impairment = self.impairment
        except SpecError as error:
            raise refuse(error.problem, error.fix or "") from None
        if not impairment:
            raise refuse("it impairs nothing", "give a delay, jitter, loss or reorder")
        return self

    def events(self, context: Context) -> Sequence[Event]:
        topology, own = context.topology, context.links
        links = self.directed(topology)
        before = {
            link: Impairment(topology.links[link // 2].delay_s, own.jitter_s, own.loss, own.reorder) for link in links
        }
        begin, *end = self.window(f"{targets.labels(topology, links)} with {self.impairment}")
        return [
            replace(begin, impairments=dict.fromkeys(links, self.impairment)),
            *(replace(event, impairments=before) for event in end),
        ]


class Down(Timed, OfLinks):
    """Links carry nothing for a while. All packets are lost, and neither end is told."""

    kind: Literal["down"]
    links: Names = Field(examples=["[h0]"])
    """The affected links: all links of a node (``h0``), the link of one NIC (``h0:eth1``), or those between two nodes
    (``h0-s0``)."""

    drops_packets: ClassVar[bool] = True
    disturbs_tcp: ClassVar[bool] = True

    def events(self, context: Context) -> Sequence[Event]:
        links = self.directed(context.topology)
        what = f"{targets.labels(context.topology, links)} down"
        return halting(self.window(what, blocking(links, True), blocking(links, False)))
