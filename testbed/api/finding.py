"""``testbed.find()``: TopoOpt's circuits and routes for a training job; nothing runs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from testbed.api import html
from testbed.api.topology import Picture, Topology, topology
from testbed.base.errors import SpecError
from topologies.call import LONGEST
from topologies.parameters import did_you_mean
from topologies.topoopt.demand import Demand
from topologies.topoopt.figures import figures
from topologies.topoopt.finder import find as found_for
from topologies.topoopt.found import Found
from topologies.topoopt.models import MODELS
from topologies.topoopt.selection import SELECTS

SERVERS = 16
"""Those of TopoOpt's section 2.2."""


@dataclass(frozen=True, repr=False, eq=False)
class Finding:
    """Circuits and routes for a job. ``found`` is what the project's own code works with."""

    found: Found

    @cached_property
    def facts(self) -> dict[str, Any]:
        """What ``testbed find --json`` prints: shares, rings, circuits, hops, bandwidth tax, and expressions.

        ``topology`` lacks the routes of MP transfers where it would be longer than an expression may be;
        ``routes_left_out`` counts them.
        """
        told = figures(self.found)
        too_long = len(told["topology"]) > LONGEST
        left_out = len(self.found.routes) if too_long else 0
        return {
            **told,
            "topology": self.found.without_routes if too_long else told["topology"],
            "routes_left_out": left_out,
        }

    @property
    def arm(self) -> dict[str, str] | None:
        """An arm of a spec; None if its AllReduce is no scheme, because a part of the servers reduces by itself."""
        if self.facts["scheme"] is None:
            return None
        return {"topology": self.facts["topology"], "scheme": self.facts["scheme"]}

    def topology(self, rate: str = "1 Gbit/s", links: Mapping[str, Any] | str | None = None) -> Topology:
        """The network, as :func:`testbed.topology` builds it.

        Raises:
            SpecError: the rate or a link makes no sense.
        """
        return topology(self.facts["topology"], rate, links)

    def draw(self) -> Picture:
        """
        Raises:
            TopologyError: it has too many servers for a picture.
        """
        return self.topology().draw()

    def __repr__(self) -> str:
        return f"<Finding {self.facts['topology'][:200]}>"

    def _repr_html_(self) -> str:
        return html.paragraph(self.facts["topology"], strong=True)


def find(
    job: str | os.PathLike[str],
    servers: int | None = None,
    degree: int = 4,
    *,
    select: str = "geometric",
    paths: int = 1,
) -> Finding:
    """Find circuits and routes by TopoOpt's TopologyFinder (section 3.3, Algorithm 1).

    Args:
        job: a model of TopoOpt's section 2.2, ``dlrm`` or ``candle``, under the strategy given there; or the path of a
            YAML file of AllReduce groups and MP transfers, such as ``./job.yaml``.
        servers: of a model; 16 unless given. A file says it itself.
        degree: interfaces of each server.
        select: how a group's rings are chosen: ``geometric``, or ``mp``, the paper's TopPermutations.
        paths: routes of each MP transfer. The expression has those of one.

    Raises:
        SpecError: the job, the number of servers or the degree makes no sense.
        OutputError: the file cannot be read.
    """
    if select not in SELECTS:
        raise SpecError(f"select is {select!r}{did_you_mean(select, SELECTS)}", fix=f"use {' or '.join(SELECTS)}")
    if paths < 1:
        raise SpecError(f"paths is {paths}", fix="give 1 or more")
    return Finding(found_for(_transfers(str(job), servers), degree, "mp" if select == "mp" else "geometric", paths))


def _transfers(job: str, servers: int | None) -> Demand:
    if job in MODELS:
        return MODELS[job](SERVERS if servers is None else servers)
    if not _is_path(job):
        raise SpecError(
            f"there is no model {job!r}{did_you_mean(job, MODELS)}",
            fix=f"use {' or '.join(MODELS)}, or the path of a file of transfers, such as ./job.yaml",
        )
    from testbed.spec.demand import load  # here, for it takes half a second

    given = load(Path(job))
    if servers not in (None, given.servers):
        raise SpecError(
            f"{Path(job).name} is a job of {given.servers} servers, and {servers} are asked for",
            fix="leave the number of servers out, or change it in the file",
        )
    return given


def _is_path(job: str) -> bool:
    return os.sep in job or Path(job).suffix in (".yaml", ".yml")
