"""The lab ``machines``, as the rest of testbed knows it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from testbed.lab.baremetal.place import InventoryPlace
from testbed.lab.place import Opening, Portion

if TYPE_CHECKING:
    from testbed.lab.base import Lab, LinkSettings
    from testbed.topologies.model import Topology


@dataclass(frozen=True)
class Spread:
    """The lab's settings."""

    place: dict[str, str] | None = field(default=None, metadata={"example": "{h0..h3: node1}"})
    """Machines of nodes, by the name of a node or of a run of nodes: ``h0..h3: node1``."""


class MachinesPlace(InventoryPlace):
    """One network in namespaces of the machines of an Ansible inventory."""

    machines = "machines"

    def open(self, opening: Opening) -> Lab:
        self.inventory(opening)  # without one, an error says how to name it
        from testbed.lab.machines.lab import MachinesLab

        return MachinesLab(opening)

    def portions(self, opening: Opening) -> Callable[[Topology, LinkSettings], Sequence[Portion]]:
        inventory, spread = self.inventory(opening), opening.options or Spread()
        from testbed.lab.baremetal.preparing.inventory import load
        from testbed.lab.machines.cut import cut

        names = [host.name for host in load(inventory).hosts]

        def of(topology: Topology, settings: LinkSettings) -> list[Portion]:  # noqa: ARG001  # machines know their MTU
            made = cut(topology, names, spread.place)
            return [
                Portion(
                    name,
                    tuple(topology.nodes[node].name for node in made.nodes(number)),
                    made.crossing_bps(topology, number),
                )
                for number, name in enumerate(names)
            ]

        return of


PLACE = MachinesPlace(
    "machines",
    options=Spread,
    is_here=False,
    has_programs=False,
    has_agent=False,
    has_sockets=True,
    takes_inventory=True,
)
