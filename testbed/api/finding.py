"""``testbed.find()``: TopoOpt's circuits and routes for a training job; nothing runs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from testbed.api import html
from testbed.api.topology import Picture, Topology, topology
from testbed.base.errors import SpecError
from testbed.base.units import rate_bps
from testbed.topologies.build import build
from testbed.topologies.call import LONGEST
from testbed.topologies.parameters import did_you_mean
from testbed.topologies.topoopt.baselines import Baseline, baselines, oneshot_dollars
from testbed.topologies.topoopt.demand import MODELS, Demand
from testbed.topologies.topoopt.finder import Found, figures
from testbed.topologies.topoopt.finder import find as found_for
from testbed.topologies.topoopt.selection import SELECTS, Select

if TYPE_CHECKING:
    from testbed.api.hybrid import Hybrid, Plan

SERVERS = 16
"""Number of servers in TopoOpt's section 2.2."""


@dataclass(frozen=True, repr=False, eq=False)
class Finding:
    """Circuits and routes for a job. ``found`` is what the project's own code works with.

    ``plan`` has the strategy that the job's transfers come from, and how long an iteration takes; None if transfers
    were given.
    """

    found: Found
    plan: Plan | None = None

    @cached_property
    def facts(self) -> dict[str, Any]:
        """Facts of ``testbed find --json``: shares, rings, circuits, hops, bandwidth tax, and expressions.

        ``topology`` lacks the routes of MP transfers where it would be longer than an expression may be;
        ``routes_left_out`` counts them. ``hybrid`` is there if a strategy was asked for: what is predicted with it.
        """
        told = figures(self.found)
        too_long = len(told["topology"]) > LONGEST
        left_out = len(self.found.routes) if too_long else 0
        return {
            **told,
            "topology": self.found.without_routes if too_long else told["topology"],
            "routes_left_out": left_out,
            **({} if self.plan is None else {"hybrid": self.plan.facts}),
        }

    @property
    def arm(self) -> dict[str, str] | None:
        """Arm of a spec for it; None if its AllReduce is no scheme, because a part of the servers reduces by itself."""
        if self.facts["scheme"] is None:
            return None
        return {"topology": self.facts["topology"], "scheme": self.facts["scheme"]}

    @property
    def hybrid_arm(self) -> dict[str, str] | None:
        """Keys of an arm, where a strategy places operators: one for which the same is found, or else the network and
        the rings themselves. None also where the network's expression would be too long."""
        if self.plan is None or self.plan.is_data:
            return None
        placed = {"strategy": self.plan.facts["strategy"]}
        if self.plan.asked.cut != 1:
            placed["cut"] = str(self.plan.asked.cut)
        if self.found.select == "geometric":
            several = f",paths={self.found.paths}" if self.found.paths != 1 else ""
            asked = f"topoopt(servers={self.facts['servers']},degree={self.found.degree}{several})"
            return {"topology": asked, **placed}
        if self.facts["routes_left_out"]:
            return None
        return {"topology": self.facts["topology"], "scheme": self.plan.scheme, **placed}

    def baselines(self, rate: str = "25 Gbit/s") -> list[dict[str, Any]]:
        """Compare it with other networks (TopoOpt, section 5.1): itself first, then the other networks for as many
        servers.

        Args:
            rate: of each interface; the ``rate`` of the strategy, if one was asked for.

        Returns:
            For each its ``name``, the expression of its ``topology``, ``rate_bps`` of each link, ``dollars_per_server``
            by TopoOpt's Table 3, and ``iteration_s``, which is predicted where a strategy was asked for. ``perturb``
            is what an arm needs whose circuits move: then nobody predicts a time. A value that does not exist is None,
            and ``problem`` says why if there is no such network.

        Raises:
            SpecError: the rate makes no sense.
        """
        each_bps = rate_bps(rate if self.plan is None else self.plan.asked.rate)
        found = self.found
        own: dict[str, Any] = {
            "name": "TopoOpt",
            "topology": self.facts["topology"],
            "rate_bps": each_bps,
            "dollars_per_server": oneshot_dollars(found.degree, each_bps),
            "iteration_s": None if self.plan is None else self.plan.facts["iteration_s"],
            "perturb": None,
            "problem": None,
        }
        return [own, *map(self._compared, baselines(found.job.servers, found.degree, each_bps))]

    def _compared(self, one: Baseline) -> dict[str, Any]:
        iteration_s = None
        if self.plan is not None and one.expression and one.rate_bps is not None and not one.perturb:
            from testbed.workloads.parallel.network import Network  # here, for it loads schemes

            iteration_s = self.plan.iteration_s(Network(build(one.expression, rate_bps=round(one.rate_bps))))
        return {
            "name": one.name,
            "topology": one.expression or None,
            "rate_bps": one.rate_bps,
            "dollars_per_server": one.dollars,
            "iteration_s": iteration_s,
            "perturb": one.perturb or None,
            "problem": one.problem or None,
        }

    def topology(self, rate: str = "1 Gbit/s", links: Mapping[str, Any] | str | None = None) -> Topology:
        """Build the network, as :func:`testbed.topology`.

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
    hybrid: Hybrid | None = None,
) -> Finding:
    """Find circuits and routes by TopoOpt's TopologyFinder (section 3.3, Algorithm 1).

    Args:
        job: a model of TopoOpt's section 2.2, ``dlrm`` or ``candle``, under the strategy given there; or the path of a
            YAML file of AllReduce groups and MP transfers, such as ``./job.yaml``.
        servers: of a model; 16 unless given. A file says it itself.
        degree: interfaces of each server.
        select: how a group's rings are chosen: ``geometric``, or ``mp``, the paper's TopPermutations.
        paths: routes of each MP transfer between servers that no circuit joins, at most, to different NICs.
        hybrid: where a model's operators are, which says what is sent: ``testbed.Hybrid("search(steps=2000)")``. Then
            ``job`` is any model of TopoOpt's, such as ``dlrm_shared`` of Table 2.

    Raises:
        SpecError: the job, the number of servers, the degree or the strategy makes no sense, or a file cannot be read.
    """
    if select not in SELECTS:
        raise SpecError(f"select is {select!r}{did_you_mean(select, SELECTS)}", fix=f"use {' or '.join(SELECTS)}")
    if paths < 1:
        raise SpecError(f"paths is {paths}", fix="give 1 or more")
    how: Select = "mp" if select == "mp" else "geometric"
    if hybrid is None:
        return Finding(found_for(_transfers(str(job), servers), degree, how, paths))
    if _is_path(str(job)):
        raise SpecError(
            f"{Path(job).name} is a file of transfers, and a strategy is asked for",
            fix=f"leave the strategy out, or give a model, such as {' or '.join(MODELS)}",
        )
    from testbed.api.hybrid import plan  # here, for it loads profiles of models

    made = plan(str(job), SERVERS if servers is None else servers, degree, how, hybrid, paths)
    return Finding(made.planned.found, made)


def _transfers(job: str, servers: int | None) -> Demand:
    if job in MODELS:
        return MODELS[job](SERVERS if servers is None else servers)
    from testbed.workloads.parallel.models import NAMES  # here, for it loads profiles of models

    if job in NAMES:
        raise SpecError(
            f"{job} has no strategy, which says what is sent", fix="add --strategy data, or search(steps=2000)"
        )
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
