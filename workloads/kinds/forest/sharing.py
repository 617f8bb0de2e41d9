"""Trees among hosts that are some of a network's, or have other ranks than numbers."""

from __future__ import annotations

from testbed.topologies.part import Part
from testbed.workloads.kinds.parts import Sharing
from testbed.workloads.sync.forest import Forest, placed


class ForestSharing(Sharing[Forest]):
    """Trees among some of a network's hosts."""

    def placed(self, plan: Forest, part: Part) -> Forest:
        return placed(plan, part)


class AloneSharing(ForestSharing):
    """Trees of jobs that need a network of their own."""

    among_others = False
