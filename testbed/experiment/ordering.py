"""The network of an arm in the order of ranks that it asks for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from testbed.base.errors import SpecError
from testbed.base.listing import counted, shortened
from testbed.spec import Arm
from testbed.spec.rank_order import read
from testbed.topologies.call import parse
from testbed.topologies.model import Topology
from testbed.topologies.part import Part
from testbed.workloads.sync.schemes.registry import UNORDERED


def ordered(arm: Arm, topology: Topology) -> Part | None:
    """Return the hosts of an arm's network by rank; None where the arm has no order.

    Raises:
        SpecError: the scheme takes no order, or it does not name each host once.
    """
    if arm.order is None:
        return None
    scheme = parse(arm.scheme, "ring").name if arm.scheme else ""
    if scheme in UNORDERED:
        raise SpecError(f"order: scheme {scheme} {UNORDERED[scheme]}", fix="leave order out")
    if isinstance(arm.order, str):
        draw = read(arm.order).draw
        return Part(topology, tuple(np.random.default_rng(draw).permutation(topology.host_count).tolist()))
    return Part(topology, _named(arm.order, topology))


def _named(names: Sequence[str], topology: Topology) -> tuple[int, ...]:
    """
    Raises:
        SpecError: a host is not there, is named twice, or is left out.
    """
    number = {topology.nodes[host].name: host for host in topology.hosts}
    fix = f"name each of the {counted(len(number), 'host')} once"
    for name in names:
        if name not in number:
            raise SpecError(f"order names {name}, and {topology.expression} has no host of that name", fix=fix)
        if names.count(name) > 1:
            raise SpecError(f"order names {name} twice", fix=fix)
    if left_out := [name for name in number if name not in names]:
        raise SpecError(f"order leaves out {shortened(left_out, 6)}", fix=fix)
    return tuple(number[name] for name in names)
