"""``testbed.topology()``: a network; nothing runs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from testbed.api import html
from testbed.base.endings import check_ending
from testbed.base.errors import SpecError, UsageError
from testbed.base.units import rate_bps
from testbed.files.writing import write_bytes
from testbed.topologies import draw, formats
from testbed.topologies.build import build
from testbed.topologies.model import Topology as TopologyModel
from testbed.topologies.prices import TOPOOPT, describe_cost


@dataclass(frozen=True)
class Picture:
    """An SVG that a notebook shows."""

    svg: str

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the picture into a file.

        Raises:
            OutputError: it cannot be written.
            UsageError: the file's name is that of another format.
        """
        path = Path(path)
        check_ending(path, "svg")
        write_bytes(path, self.svg.encode())
        return path

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
        """Names of the nodes, hosts first."""
        return tuple(node.name for node in self.model.nodes)

    @property
    def hosts(self) -> tuple[str, ...]:
        return self.nodes[: self.model.host_count]

    @cached_property
    def facts(self) -> dict[str, Any]:
        """Facts of ``testbed topo``: counts of switches, ports and links, rates, the bisection."""
        from testbed.topologies.describe import describe  # here, for it loads SciPy

        return describe(self.model)

    def cost(self, prices: str | os.PathLike[str] | None = None) -> dict[str, Any]:
        """Price NICs, switch ports, transceivers and cables: by TopoOpt's Table 3, or by a YAML file of your own
        prices.

        Raises:
            SpecError: the file makes no sense.
            OutputError: it cannot be read.
        """
        if prices is None:
            return describe_cost(self.model, TOPOOPT)
        from testbed.spec.prices import load  # here, for it takes half a second

        return describe_cost(self.model, load(Path(prices)))

    def draw(self) -> Picture:
        """
        Raises:
            TopologyError: it has too many nodes for a picture.
        """
        return Picture(draw.svg(self.model))

    def written_as(self, form: str) -> str:
        """Write the network for other tools: its nodes, links, ports, rates and delays, and not its routing.

        Args:
            form: ``graphml``, ``clab`` (containerlab) or ``infragraph``.

        Raises:
            UsageError: there is no such format.
            TopologyError: it has patch panels, which no format knows.
        """
        if form not in formats.FORMATS:
            raise UsageError(f"there is no format {form!r}", fix=f"use one of {', '.join(formats.FORMATS)}")
        return formats.write(self.model, form)

    def __str__(self) -> str:
        return draw.text(self.model)

    def __repr__(self) -> str:
        return f"<Topology {self.model.expression}>"

    def _repr_html_(self) -> str:
        return html.paragraph(self.model.expression, strong=True) + shown(self)


def topology(expression: str, rate: str = "1 Gbit/s", links: Mapping[str, Any] | str | None = None) -> Topology:
    """Build a network such as ``bcube(n=3,k=2)``, one of your own (``./mine.py:my_net(racks=2)``), or one in a file
    (``clos.clab.yml``).

    Args:
        rate: of the hosts' links.
        links: what else a spec's ``links`` would say of rates and delays: ``{"h0": {"rate": "100 Mbit/s"}}``, or the
            same as YAML.

    Raises:
        SpecError: the expression, the rate, or a link makes no sense.
    """
    if not links:
        return Topology(build(expression, rate_bps=rate_bps(rate)))
    from testbed.experiment.own_links import read, with_own  # here, for it loads the schema

    asked = read(links, rate)
    return Topology(with_own(build(expression, rate_bps=asked.rate_bps, delay_s=asked.delay_s), asked))


class Drawable(Protocol):
    """An object that a notebook shows as a picture."""

    def draw(self) -> Picture: ...


def shown(of: Drawable, text: str | None = None) -> str:
    """HTML of the picture, or text if the object is too large for one."""
    try:
        return of.draw().svg
    except SpecError as error:
        return html.plain(str(of) if text is None else text) + html.paragraph(error.problem)
