"""``testbed.forest()``: the transfers of a scheme on a network; nothing runs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from testbed.api import html, inspection
from testbed.api.topology import Picture, Topology, shown
from testbed.base.columns import Layout, columns
from testbed.base.errors import SchemeError, UsageError
from testbed.workloads import kinds
from testbed.workloads.catalogue import tensor_sizes
from testbed.workloads.plan import Plan
from testbed.workloads.sync import draw, schemes
from testbed.workloads.sync.forest import Forest as ForestModel

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, repr=False, eq=False)
class Forest:
    """Plan of a scheme on a topology, for a gradient of ``gradient_bytes``. ``model`` is what the project's own code
    works with."""

    model: Plan
    topology: Topology
    gradient_bytes: int
    mtu: int = 1500
    verified: bool = True
    """Whether its sums are known to be right; else :attr:`facts` says whether they are, in ``verified``."""

    @cached_property
    def facts(self) -> dict[str, Any]:
        """Facts of ``testbed forest --json``."""
        look = inspection.of_verified if self.verified else inspection.inspect
        return look(self.model, self.topology.model, self.gradient_bytes, self.mtu)

    @property
    def least_gst_s(self) -> float:
        """The least gradient synchronisation time (s) that the links allow."""
        return float(self.facts["cost"]["bound_s"])

    @property
    def rounds(self) -> int:
        """Number of transfers that must follow each other."""
        return int(self.facts["cost"]["rounds"])

    @property
    def wire_bytes(self) -> float:
        """Bytes of gradients that all nodes together send."""
        return float(self.facts["cost"]["wire_bytes"])

    @property
    def links(self) -> pd.DataFrame:
        """Table with a row for each directed link: its ends, its rate and its bytes."""
        import pandas as pd

        names = {"from": "source", "to": "target"}  # as a trial's links have it
        return pd.DataFrame(self.facts["cost"]["links"]).rename(columns=names)

    def draw(self, klass: int | None = None) -> Picture:
        """Draw the trees of one class; by default of all, or, where these are too many for a picture, of class 0, which
        the picture says.

        Raises:
            SchemeError: there is no such class, or its trees have too many nodes for a picture.
        """
        if klass is None and self._trees.classes > draw.MOST_CLASSES:
            klass = 0
        return self.picture(klass)

    def picture(self, klass: int | None = None) -> Picture:
        """Draw the trees of one class, or of all.

        Raises:
            SchemeError: there is no such class, or they are too many for a picture, or have too many nodes; or the
                scheme has no trees.
        """
        return Picture(draw.svg(self._trees, klass))

    @property
    def _trees(self) -> ForestModel:
        if not isinstance(self.model, ForestModel):
            raise SchemeError(f"scheme {self.model.scheme} has no trees to draw", fix="leave the picture out")
        return self.model

    def text(self, lay_out: Layout = columns) -> str:
        """Text of ``testbed forest``, its table laid out by ``lay_out``."""
        return inspection.text(self.facts, self.model, lay_out)

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return f"<Forest {self.model.scheme} on {self.topology.model.expression}>"

    def _repr_html_(self) -> str:
        return html.plain(str(self)) + shown(self, text="")


def forest(
    scheme: str,
    topology: Topology,
    *,
    model: str | None = None,
    size_bytes: int | None = None,
    mtu: int = 1500,
) -> Forest:
    """Build the plan of a scheme on a topology, and check that it gives every worker the sum of all gradients.

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
    made = proposed(scheme, topology, model, size_bytes, mtu)
    kinds.verify(made.model, topology.model)
    return replace(made, verified=True)


def proposed(scheme: str, topology: Topology, model: str | None, size_bytes: int | None, mtu: int) -> Forest:
    """Build the plan of a scheme on a topology, whether or not its sums are right.

    Raises:
        SpecError: the scheme or the model is unknown.
        SchemeError: the scheme cannot use this topology.
    """
    floats = [size_bytes // 4] if size_bytes else [count for _, count in tensor_sizes(model or "lenet5")]
    made = schemes.build_plan(scheme, topology.model, floats)
    return Forest(made, topology, 4 * sum(floats), mtu, verified=False)
