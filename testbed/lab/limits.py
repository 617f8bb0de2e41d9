"""The rates and sizes of networks that a place can hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from testbed.base.errors import SpecError
from testbed.base.units import rate_text

if TYPE_CHECKING:
    from testbed.topologies.model import Topology


@dataclass(frozen=True)
class Limits:
    """Limits of the networks that a place can hold.

    Attributes:
        shaper: what limits the rates, for errors.
        slowest_bps, fastest_bps: the rates that a link can have.
        most_hosts, most_links: the largest network.
    """

    shaper: str
    slowest_bps: float
    fastest_bps: float
    most_hosts: int
    most_links: int

    def check(self, topology: Topology) -> None:
        """
        Raises:
            SpecError: the network is too large, or no link can be emulated at a rate that it has.
        """
        self.check_size(topology)
        for rate_bps in sorted({link.rate_bps for link in topology.links}):
            self.check_rate(rate_bps)

    def check_size(self, topology: Topology) -> None:
        """
        Raises:
            SpecError: the network is too large.
        """
        counts = (("hosts", topology.host_count, self.most_hosts), ("links", len(topology.links), self.most_links))
        for what, count, most in counts:
            if count > most:
                raise SpecError(
                    f"{topology.expression} has {count:,} {what}; a lab holds at most {most:,}", fix="make it smaller"
                )

    def check_rate(self, rate_bps: float) -> None:
        """
        Raises:
            SpecError: no link can be emulated at this rate.
        """
        if not self.slowest_bps <= rate_bps <= self.fastest_bps:
            raise SpecError(
                f"{rate_text(rate_bps)} cannot be emulated; {self.shaper} does {rate_text(self.slowest_bps)} to "
                f"{rate_text(self.fastest_bps)}",
                fix="scale rates and bytes alike: times stay the same",
            )


HTB = Limits("the kernel's HTB", slowest_bps=10_000, fastest_bps=34_000_000_000, most_hosts=1024, most_links=8192)
"""Limits of labs in which the kernel's HTB shapes the links.

HTB forgets what a class owes for longer than a minute (``mbuffer`` in the kernel's net/sched/sch_htb.c), so a slower
link could exceed its rate: a segment of 64 KiB takes 52 s at the slowest. HTB's rate reaches the kernel through a
32-bit field of bytes per second, which ends at 34.36 Gbit/s. BCube(4,5) and a fat-tree of k=16 have 1,024 hosts: larger
networks have never been tried on one machine, and forests over them take minutes and gigabytes to verify.
"""
