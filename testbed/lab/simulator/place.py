"""The place ``simulator``, as the rest of testbed knows it."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from testbed.lab.limits import Limits
from testbed.lab.place import DeclaredPlace, Opening

if TYPE_CHECKING:
    from testbed.lab.base import Lab

PLAYS = "testbed.execution.simulated"
"""The module whose ``Simulator`` runs trials. It is named as an entry point names one, because it makes what labs do
not know: the evidence of a trial."""
LIMITS = Limits(
    "the simulator", slowest_bps=1_000, fastest_bps=100_000_000_000_000, most_hosts=65_536, most_links=1_048_576
)


class SimulatorPlace(DeclaredPlace):
    """The place ``simulator`` before it is opened."""

    def open(self, opening: Opening) -> Lab:
        """Raises MissingToolError: there is no compiled solver."""
        del opening
        made: Lab = import_module(PLAYS).Simulator(self.limits)
        return made

    def check(self) -> str | None:
        self.open(Opening())
        return None


PLACE = SimulatorPlace("simulator", limits=LIMITS, is_here=False, plays=True, varies=False)
