"""The lab ``baremetal``, as the rest of testbed knows it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from testbed.base.errors import UsageError
from testbed.lab.place import DeclaredPlace, Opening, Portion

if TYPE_CHECKING:
    from testbed.lab.base import Lab, LinkSettings
    from testbed.topologies.model import Topology


class InventoryPlace(DeclaredPlace):
    """A lab on the machines of an Ansible inventory; ``machines`` is its word for them."""

    machines: ClassVar[str]

    def lacks(self, module: str, python: str, options: Any) -> str:
        from testbed.lab.baremetal.preparing.inventory import HOME

        del python, options
        there = f"{HOME}/venv/bin/python"  # the inventory, which may name another folder, is not asked
        return f"{there} of the {self.machines} has no module {module}: on each, sudo {there} -m pip install {module}"

    def check(self) -> str:
        from testbed.lab.baremetal.preparing.ansible import check_installed

        check_installed()
        return f"whether its {self.machines} are, testbed hosts prepare says"

    def leftovers_on_machines(self, inventory: Path, *, remove: bool, allow_missing: bool) -> list[dict[str, str]]:
        from testbed.lab.baremetal.preparing.hosts import left_on_all

        return left_on_all(inventory, remove=remove, allow_missing=allow_missing)

    def inventory(self, opening: Opening) -> Path:
        """Return the inventory that a lab is opened with. Raises UsageError: there is none."""
        if opening.inventory is None:
            raise UsageError(f"the lab {self.name} needs to know its {self.machines}", fix=f"name them: {self.option}")
        return opening.inventory


class BaremetalPlace(InventoryPlace):
    """Hosts are the machines of an Ansible inventory."""

    machines = "hosts"

    def open(self, opening: Opening) -> Lab:
        inventory = self.inventory(opening)
        from testbed.lab.baremetal.lab import BaremetalLab

        return BaremetalLab(inventory, allow_missing=opening.allow_missing, tell=opening.tell)

    def portions(self, opening: Opening) -> Callable[[Topology, LinkSettings], Sequence[Portion]]:
        path = self.inventory(opening)
        from testbed.lab.baremetal.networks.network import check, machines
        from testbed.lab.baremetal.preparing.inventory import load

        inventory = load(path)

        def of(topology: Topology, settings: LinkSettings) -> list[Portion]:
            check(topology, settings, inventory)
            return [
                Portion(
                    host.name,
                    (topology.nodes[node].name,),
                    sum(topology.links[directed // 2].rate_bps for directed in topology.ports[node]),
                )
                for node, host in enumerate(machines(topology, inventory))
            ]

        return of


PLACE = BaremetalPlace(
    "baremetal", is_here=False, has_programs=False, forwards=False, has_agent=False, takes_inventory=True
)
