"""``testbed.topology()`` and ``testbed.forest()``: a network, and what a scheme does on it; nothing runs."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from testbed.api import html, inspection
from testbed.base.errors import SpecError, UsageError
from testbed.base.units import rate_bps
from testbed.files.writing import write_bytes
from topologies import draw as topology_draw
from topologies.build import build
from topologies.describe import describe
from topologies.model import Topology as TopologyModel
from workloads import kinds
from workloads.catalogue import tensor_sizes
from workloads.sync import draw as forest_draw
from workloads.sync import schemes
from workloads.sync.forest import Forest as ForestModel

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Picture:
    """An SVG that a notebook shows."""

    svg: str

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write it into a file.

        Raises:
            OutputError: it cannot be written.
        """
        write_bytes(Path(path), self.svg.encode())
        return Path(path)

    def __repr__(self) -> str:
        return f"<Picture of {len(self.svg):,} characters>"

    def _repr_svg_(self) -> str:
        return self.svg


@dataclass(frozen=True, repr=False, eq=False)
class Topology:
    """A network. ``model`` is what the project's own code works with."""

    model: TopologyModel

    @property
    def nodes(self) -> tuple[str, ...]:
        """Names, hosts first."""
        return tuple(node.name for node in self.model.nodes)

    @property
    def hosts(self) -> tuple[str, ...]:
        return self.nodes[: self.model.host_count]

    @cached_property
    def facts(self) -> dict[str, Any]:
        """What ``testbed topo`` says: counts of switches, ports and links, rates, the bisection."""
        return describe(self.model)

    def draw(self) -> Picture:
        """
        Raises:
            TopologyError: it has too many nodes for a picture.
        """
        return Picture(topology_draw.svg(self.model))

    def __str__(self) -> str:
        return topology_draw.text(self.model)

    def __repr__(self) -> str:
        return f"<Topology {self.model.expression}>"

    def _repr_html_(self) -> str:
        return html.paragraph(self.model.expression, strong=True) + _shown(self)


@dataclass(frozen=True, repr=False, eq=False)
class Forest:
    """What a scheme does on a topology, for a gradient of ``gradient_bytes``. ``model`` is what the project's own code
    works with."""

    model: ForestModel
    topology: Topology
    gradient_bytes: int
    mtu: int = 1500

    @cached_property
    def facts(self) -> dict[str, Any]:
        """What ``testbed forest --json`` says."""
        return inspection.of_verified(self.model, self.topology.model, self.gradient_bytes, self.mtu)

    @property
    def least_gst_s(self) -> float:
        """The least gradient synchronisation time (s) that the links allow."""
        return float(self.facts["cost"]["bound_s"])

    @property
    def rounds(self) -> int:
        """Transfers that must follow each other."""
        return int(self.facts["cost"]["rounds"])

    @property
    def wire_bytes(self) -> float:
        """Bytes of gradients that all nodes together send."""
        return float(self.facts["cost"]["wire_bytes"])

    @property
    def links(self) -> pd.DataFrame:
        """A row for each directed link: its ends, its rate and its bytes."""
        import pandas as pd

        names = {"from": "source", "to": "target"}  # as a trial's links have it
        return pd.DataFrame(self.facts["cost"]["links"]).rename(columns=names)

    def draw(self, klass: int | None = None) -> Picture:
        """The trees of one class; by default of all, or, where these are too many for a picture, of class 0, which the
        picture says.

        Raises:
            SchemeError: there is no such class, or its trees have too many nodes for a picture.
        """
        if klass is None and self.model.classes > forest_draw.MOST_CLASSES:
            klass = 0
        return Picture(forest_draw.svg(self.model, klass))

    def __str__(self) -> str:
        return inspection.text(self.facts, self.model)

    def __repr__(self) -> str:
        return f"<Forest {self.model.scheme} on {self.topology.model.expression}>"

    def _repr_html_(self) -> str:
        return html.plain(str(self)) + _shown(self, text="")


def topology(expression: str, rate: str = "1 Gbit/s") -> Topology:
    """Build a network such as ``bcube(n=3,k=2)``, or one of your own: ``./mine.py:my_net(racks=2)``.

    Raises:
        SpecError: the expression or the rate makes no sense.
    """
    return Topology(build(expression, rate_bps=rate_bps(rate)))


def forest(
    scheme: str,
    topology: Topology,
    *,
    model: str | None = None,
    size_bytes: int | None = None,
    mtu: int = 1500,
) -> Forest:
    """Build what a scheme does on a topology, and check that it gives every worker the sum of all gradients.

    Args:
        model: whose gradient is synchronised; LeNet-5's by default.
        size_bytes: or a gradient of this many bytes.

    Raises:
        SpecError: the scheme or the model is unknown.
        SchemeError: the scheme cannot use this topology, or its sums are wrong.
    """
    if model is not None and size_bytes is not None:
        raise UsageError("model and size_bytes exclude each other", fix="give one of them")
    if size_bytes is not None and size_bytes < 4:
        raise UsageError(f"size_bytes is {size_bytes}", fix="give at least 4, which is one float")
    floats = [size_bytes // 4] if size_bytes else [count for _, count in tensor_sizes(model or "lenet5")]
    made = schemes.build(scheme, topology.model, floats)
    kinds.verify(made, topology.model)
    return Forest(made, topology, 4 * sum(floats), mtu)


def _shown(of: Topology | Forest, text: str | None = None) -> str:
    """The picture, or, of what is too large for one, text."""
    try:
        return of.draw().svg
    except SpecError as error:
        return html.plain(str(of) if text is None else text) + html.paragraph(error.problem)
