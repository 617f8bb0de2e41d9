"""``testbed.forest()``: the transfers of a scheme on a network; nothing runs."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from testbed.api import html, inspection
from testbed.api.topology import Picture, Topology, shown
from testbed.api.topology import topology as build
from testbed.base.columns import Layout, columns
from testbed.base.errors import SchemeError, UsageError
from testbed.base.listing import shortened
from testbed.topologies.build import families
from testbed.topologies.parameters import did_you_mean
from testbed.workloads import kinds
from testbed.workloads.catalogue import tensor_sizes
from testbed.workloads.kinds.parts import Table
from testbed.workloads.learning.buckets import Gradient
from testbed.workloads.plan import Plan
from testbed.workloads.sync import draw, schemes
from testbed.workloads.sync.chunk_size import CHUNK_BYTES
from testbed.workloads.sync.forest import Forest as ForestModel
from testbed.workloads.sync.messages import Message
from testbed.workloads.sync.schedule import schedule

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
            raise SchemeError(f"scheme {self.model.scheme} has no trees", fix="take a scheme with trees, such as ring")
        return self.model

    def _table(self) -> Table[Any]:
        table = kinds.of(self.model).table
        if table is None:
            raise SchemeError(
                f"scheme {self.model.scheme} decides while it runs what to send", fix="take a scheme such as ring"
            )
        return table

    def messages(self, chunk_bytes: int = CHUNK_BYTES[0]) -> Iterator[Message]:
        """Yield the messages of one synchronisation, predecessors first, and those of each node in the order in which
        it sends them. Nothing is stored, so a plan may be as large as it likes.

        Raises:
            SchemeError: the transfers of the scheme are not known beforehand.
        """
        floats = self.gradient_bytes // 4
        return self._table().messages(self.model, Gradient((floats,), (range(1),), ((0, floats),)), chunk_bytes)

    def schedule(self, node: str) -> list[dict[str, Any]]:
        """Return what a node does with a chunk of each class: Fetch, ReceiveFrom, SendTo and Deliver, with the nodes
        that each is about, and the numbers of the actions that must be done before.

        Raises:
            SchemeError: there is no such node, or the transfers of the scheme are not known beforehand.
        """
        self._table()  # or there is no order of actions
        names = self._trees.nodes
        if node not in names:
            raise SchemeError(
                f"{self.topology.model.expression} has no node {node!r}{did_you_mean(node, names)}",
                fix=f"name one of {shortened(list(names), 8)}",
            )
        return [
            {**one._asdict(), "nodes": [names[other] for other in one.nodes], "after": list(one.after)}
            for one in schedule(self._trees, names.index(node))
        ]

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
    topology: Topology | str,
    *,
    model: str | None = None,
    size_bytes: int | None = None,
    mtu: int = 1500,
) -> Forest:
    """Build the plan of a scheme on a topology, and check that it gives every worker the sum of all gradients.

    Args:
        topology: a network, or its expression.
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
    network = build(topology) if isinstance(topology, str) else topology
    made = proposed(scheme, network, model, size_bytes, mtu)
    kinds.verify(made.model, network.model)
    return replace(made, verified=True)


def check_order(scheme: str, topology: str) -> None:
    """
    Raises:
        UsageError: a scheme is given as the topology.
    """
    if topology in schemes.schemes() and topology not in families():
        fix = f"name it first: testbed forest {shlex.join([topology, scheme])}"
        raise UsageError(f"{topology!r} is a scheme, not a topology", fix=fix)


def proposed(scheme: str, topology: Topology, model: str | None, size_bytes: int | None, mtu: int) -> Forest:
    """Build the plan of a scheme on a topology, whether or not its sums are right.

    Raises:
        SpecError: the scheme or the model is unknown.
        SchemeError: the scheme cannot use this topology.
    """
    floats = [size_bytes // 4] if size_bytes else [count for _, count in tensor_sizes(model or "lenet5")]
    made = schemes.build_plan(scheme, topology.model, floats)
    return Forest(made, topology, 4 * sum(floats), mtu, verified=False)
