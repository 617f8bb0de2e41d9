"""``reconfigure``: circuits of patch panels that move again and again, to where most bytes are still to be sent."""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from testbed.base.groups import Time, refuse
from testbed.perturb import targets
from testbed.perturb.events import Reconfiguration
from testbed.perturb.kinds.base import UNSENT, Perturbation
from testbed.topologies.model import Topology
from testbed.topologies.topoopt.reconfigure import Discount


class Reconfigure(Perturbation):
    """Circuits move within iterations, to the servers with most bytes to send (TopoOpt sections 5.1 and 5.5, and
    Appendix D)."""

    kind: Literal["reconfigure"]
    every_s: Time = Field(0.05, alias="every", gt=0, examples=["50 ms"])
    """The time between two looks at what is unsent."""
    dark_s: Time = Field(0.01, alias="dark", ge=0, examples=["10 ms"])
    """The time for which moving circuits are dark, and all senders hold."""
    discount: Discount = Field("half", examples=["one"])
    """How much less each further circuit between the same two servers is worth: ``half`` of the one before, as
    TopoOpt-reconfig; ``one``: no less, as SiP-ML; or ``linear``, the l-th of d (d - l + 1) / d of the first."""

    moves_circuits: ClassVar[bool] = True

    @model_validator(mode="after")
    def _leaves_time(self) -> Self:
        if self.dark_s >= self.every_s:
            raise refuse(
                f"circuits that are dark for {1e3 * self.dark_s:g} ms of every {1e3 * self.every_s:g} ms carry nothing",
                "give a longer every, or a shorter dark",
            )
        return self

    @property
    def effects(self) -> frozenset[str]:
        return frozenset({UNSENT})

    @property
    def reconfiguration(self) -> Reconfiguration:
        return Reconfiguration(self.every_s, self.dark_s, self.discount)

    def moved(self, topology: Topology) -> Topology:
        """Return the network as it is: nobody knows before what will be unsent.

        Raises:
            SpecError: the network has no patch panels.
        """
        targets.panels(topology)
        return topology
