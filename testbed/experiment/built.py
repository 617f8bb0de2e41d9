"""Topologies and plans that an experiment's trials need, each built and verified once."""

from __future__ import annotations

from collections.abc import Hashable

from testbed.experiment.own_links import with_own
from testbed.spec import Spec
from testbed.topologies.build import build as build_topology
from testbed.topologies.model import Topology
from testbed.topologies.part import Part
from testbed.trial.network import lab_rate_bps
from testbed.workloads import kinds
from testbed.workloads.learning.buckets import Gradient
from testbed.workloads.plan import Plan
from testbed.workloads.sync.cost import Cost
from testbed.workloads.sync.schemes import build_plan


class Built:
    """Topologies and plans that were built and verified; each once, however many trials use it."""

    def __init__(self) -> None:
        self._topologies: dict[Hashable, Topology] = {}
        self._undrawn: dict[Hashable, Plan] = {}
        """Plans as they are for all seeds."""
        self._plans: dict[Hashable, tuple[Plan, Cost]] = {}

    def topology(self, text: str, spec: Spec) -> Topology:
        """The network that ``text`` describes, with the links of ``spec``."""
        key = _links_key(text, spec)
        if key not in self._topologies:
            found = build_topology(text, rate_bps=lab_rate_bps(spec), delay_s=spec.links.delay_s)
            found = with_own(found, spec.links, spec.workload.scale)
            spec.place.limits.check_size(found)
            self._topologies[key] = found
        return self._topologies[key]

    def plan(
        self, text: str, topology_text: str, spec: Spec, gradient: Gradient, part: Part | None = None
    ) -> tuple[Plan, Cost]:
        """Build what the scheme ``text`` does there, or on a part of it, verified, and what that costs."""
        topology = part.whole if part else self.topology(topology_text, spec)
        own = part and (part.hosts, topology.panels)
        undrawn = (text, _links_key(topology_text, spec), gradient.tensors, own)
        if undrawn not in self._undrawn:
            self._undrawn[undrawn] = (
                kinds.placed(build_plan(text, part.topology, gradient.tensors), part)
                if part
                else build_plan(text, topology, gradient.tensors)
            )
        plan = kinds.drawn(self._undrawn[undrawn], spec.seed)
        key = (undrawn, None if plan is self._undrawn[undrawn] else spec.seed)
        if key not in self._plans:
            kinds.verify(plan, topology)
            self._plans[key] = (plan, kinds.cost(plan, topology, 4 * gradient.floats))
        return self._plans[key]


def _links_key(topology_text: str, spec: Spec) -> Hashable:
    return topology_text, spec.workload.scale, asked_of_links(spec)


def asked_of_links(spec: Spec) -> Hashable:
    """Return what a topology's links are made of, for all and for some."""
    return spec.links.rate_bps, spec.links.delay_s, tuple(spec.links.own.items())
