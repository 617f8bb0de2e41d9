"""Circuits of patch panels that move: at stated moments, or within iterations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from testbed.base.groups import Time, refuse
from testbed.perturb import targets
from testbed.perturb.circuit_values import Tuples, flipped
from testbed.perturb.events import Event, Reconfiguration
from testbed.perturb.kinds.base import UNSENT, Context, Perturbation
from testbed.perturb.moments import START, Moment, When
from testbed.topologies.call import as_text
from testbed.topologies.circuits import matchings, paths
from testbed.topologies.model import Topology
from testbed.topologies.patch_panel import repatched
from testbed.topologies.topoopt.reconfigure import Discount


class Circuits(Perturbation):
    """Circuits of patch panels move, or 1x2 switches flip to the panels that looked ahead (TopoOpt section 4)."""

    kind: Literal["circuits"]
    at: When = Field(START, examples=["3 s"])
    """The moment at which the move begins."""
    rings: Tuples = Field((), examples=["[1, 3]"])
    """The rings after the move, as for the topology ``patch_panel``."""
    circuits: Tuples = Field((), examples=["[[0-1, 2-3], [1-2, 3-0]]"])
    """The matchings after the move, beside the rings, as for the topology ``patch_panel``. Other circuits go away."""
    routes: Tuples = Field((), examples=["[0-1-2]"])
    """Paths through the servers after the move. Without them, servers forward over the fewest circuits."""
    look_ahead: bool = Field(False, strict=True)
    """Move circuits of the panels that carry no traffic now, and let traffic go on over the others."""
    flip: Annotated[Literal["all"] | list[str] | None, BeforeValidator(flipped)] = Field(None, examples=["all"])
    """Turn the 1x2 switches of all servers, or of the named servers, to their other panels."""
    reconfiguration_s: Time | None = Field(None, alias="reconfiguration", examples=["10 ms"])
    """The time for which moving circuits are dark. The default is the time of the panels' technology, and 0 for a
    flip."""

    drops_packets: ClassVar[bool] = True
    disturbs_tcp: ClassVar[bool] = True
    moves_circuits: ClassVar[bool] = True
    asked_in_band: ClassVar[bool] = True

    @model_validator(mode="after")
    def _moves_orflippeds(self) -> Self:
        if bool(self.rings or self.circuits) == (self.flip is not None):
            raise refuse("circuits takes either rings and circuits, or flip", "write rings: [1, 3], or flip: all")
        if self.look_ahead and (self.flip is not None or self.routes):
            raise refuse("panels that look ahead carry no traffic yet", "give routes with flip, in a group of its own")
        return self

    @property
    def moments(self) -> Sequence[Moment]:
        return (self.at,)

    @property
    def words(self) -> str:
        """Text for a reader, such as ``to rings=[1,3]``, ``flip of h0, h1``, ``look-ahead to rings=[3]``."""
        if self.flip is not None:
            return f"flip of {self.flip if self.flip == 'all' else ', '.join(self.flip)}"
        given = {"rings": self.rings, "circuits": self.circuits}
        to = ",".join(f"{name}={as_text(value)}" for name, value in given.items() if value)
        return f"{'look-ahead ' * self.look_ahead}to {to}"

    def events(self, context: Context) -> Sequence[Event]:
        targets.panels(context.topology)
        return [Event(self.at, self.kind, self.words, move=self)]

    def moved(self, topology: Topology) -> Topology:
        """The network after the move.

        Raises:
            SpecError: it has no patch panels or look-ahead, or the circuits or routes are none.
        """
        panels = targets.panels(topology)
        if self.flip is not None:
            panels = panels.flip(() if self.flip == "all" else targets.hosts(topology, self.flip))
        else:
            found = matchings(panels.servers, panels.degree, self.rings, self.circuits)
            panels = panels.patch(found, look_ahead=self.look_ahead)
        if self.routes:
            panels = replace(panels, routes=paths(panels.servers, self.routes))
        return repatched(topology, panels)

    def dark_s(self, topology: Topology) -> float:
        """Seconds for which circuits that move are dark. TopoOpt gives no time for 1x2 switches: they "immediately"
        flip (section 4)."""
        if self.reconfiguration_s is not None:
            return self.reconfiguration_s
        return 0.0 if self.flip is not None else targets.panels(topology).reconfiguration_s


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
