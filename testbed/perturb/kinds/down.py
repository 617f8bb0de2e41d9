"""``down``: links that carry nothing for a while."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from pydantic import Field

from testbed.perturb import targets
from testbed.perturb.events import Event, blocking, halting
from testbed.perturb.kinds.base import Context, Names, OfLinks, Timed


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
