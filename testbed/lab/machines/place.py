"""The lab ``machines``, as the rest of testbed knows it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from testbed.base.errors import UsageError
from testbed.lab.place import DeclaredPlace, Opening

if TYPE_CHECKING:
    from testbed.lab.base import Lab


@dataclass(frozen=True)
class Spread:
    """The lab's settings."""

    place: dict[str, str] | None = field(default=None, metadata={"example": "{h0..h3: node1}"})
    """Machines of nodes, by the name of a node or of a run of nodes: ``h0..h3: node1``."""


class MachinesPlace(DeclaredPlace):
    """One network in namespaces of the machines of an Ansible inventory."""

    def open(self, opening: Opening) -> Lab:
        if opening.inventory is None:
            raise UsageError(f"the lab {self.name} needs to know its machines", fix=f"name them: {self.option}")
        from testbed.lab.machines.lab import MachinesLab

        return MachinesLab(opening)

    def lacks(self, module: str, python: str, options: Any) -> str:
        from testbed.lab.baremetal.preparing.inventory import HOME

        del python, options
        there = f"{HOME}/venv/bin/python"  # the inventory, which may name another folder, is not asked
        return f"{there} of the machines has no module {module}: on each, sudo {there} -m pip install {module}"

    def check(self) -> str:
        from testbed.lab.baremetal.preparing.installed import check_installed

        check_installed()
        return "whether its machines are, testbed hosts prepare says"

    def leftovers_on_machines(self, inventory: Path, *, remove: bool, allow_missing: bool) -> list[dict[str, str]]:
        from testbed.lab.baremetal.preparing.hosts import left_on_all

        return left_on_all(inventory, remove=remove, allow_missing=allow_missing)


PLACE = MachinesPlace(
    "machines",
    options=Spread,
    is_here=False,
    has_programs=False,
    forwards=False,
    has_agent=False,
    takes_inventory=True,
)
