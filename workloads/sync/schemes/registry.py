"""Every scheme that comes with us; its name in expressions is its function's."""

from __future__ import annotations

from collections.abc import Callable

from testbed.topologies.model import Topology
from testbed.workloads.finding import Finding
from testbed.workloads.kinds.asynchronous.schemes import async_ps, ssp
from testbed.workloads.kinds.fabric.schemes.mlfabric_a import mlfabric_a
from testbed.workloads.kinds.fabric.schemes.mlfabric_s import mlfabric_s
from testbed.workloads.kinds.fabric.schemes.mlfabric_ssp import mlfabric_ssp
from testbed.workloads.kinds.library.schemes import gloo, openmpi
from testbed.workloads.kinds.phub.schemes import pbox
from testbed.workloads.plan import Plan
from testbed.workloads.sync.forest import Forest
from testbed.workloads.sync.rotation import Rotation
from testbed.workloads.sync.schemes.atp import atp
from testbed.workloads.sync.schemes.bcube import bcube
from testbed.workloads.sync.schemes.bml import bml
from testbed.workloads.sync.schemes.double_binary_tree import double_binary_tree
from testbed.workloads.sync.schemes.h_ar import h_ar
from testbed.workloads.sync.schemes.halving_doubling import halving_doubling
from testbed.workloads.sync.schemes.hierarchical import hierarchical
from testbed.workloads.sync.schemes.hierarchical_ps import hierarchical_ps
from testbed.workloads.sync.schemes.multi_ring import multi_ring
from testbed.workloads.sync.schemes.ps import ps
from testbed.workloads.sync.schemes.rina import rina, rina_without
from testbed.workloads.sync.schemes.ring import ring, turned_ring
from testbed.workloads.sync.schemes.switchml import switchml
from testbed.workloads.sync.schemes.tree import tree
from testbed.workloads.sync.schemes.two_level import decides as two_level_decides
from testbed.workloads.sync.schemes.two_level import two_level

Scheme = Callable[..., Plan]

SCHEMES: tuple[Scheme, ...] = (
    ps,
    ring,
    multi_ring,
    halving_doubling,
    bcube,
    tree,
    double_binary_tree,
    hierarchical_ps,
    two_level,
    h_ar,
    hierarchical,
    bml,
    switchml,
    atp,
    rina,
    async_ps,
    ssp,
    mlfabric_a,
    mlfabric_ssp,
    mlfabric_s,
    pbox,
    gloo,
    openmpi,
)

ROTATIONS: dict[str, Callable[[Topology], Rotation]] = {"ring": turned_ring}
"""Schemes that give, for large networks, class 0 and a rotation. Parameters they have none then."""

CLASS_A_HOST: dict[str, str] = {
    "halving_doubling": "the order in which its hosts send looks different from each of them",
    **dict.fromkeys(
        ("ps", "multi_ring", "bcube", "ring", "gloo", "openmpi"),
        "none is known under which all that it does looks alike",
    ),
}
"""Schemes that make about a class for each host, so that their trees are too many for large networks; and why no
rotation says the same."""

REPAIRS: dict[str, Callable[..., Forest]] = {"rina": rina_without}
"""Schemes that go on when nodes die, and the function ``(dead, topology, tensor_sizes, ...)`` that makes the forest
without them."""

_BY_PLACE = ("bml", "h_ar", "hierarchical", "hierarchical_ps", "rina", "switchml", "atp")
_ALIKE = ("ps", "async_ps", "ssp", "mlfabric_a", "mlfabric_ssp", "mlfabric_s", "pbox")
UNORDERED = dict.fromkeys(_BY_PLACE, "goes by the places of hosts") | dict.fromkeys(_ALIKE, "is alike in every order")
"""Schemes that take no order of ranks, and why."""

BY_LOT = ("async_ps", "ssp")
"""Schemes under which a simulated trial's workers begin by lot (:attr:`.Simulation.begins_within_s`), so that repeats
have other numbers."""

DECIDES: dict[str, Callable[..., Finding | None]] = {"two_level": two_level_decides}
"""Schemes that leave something to be found in each trial, and the function of their parameters that returns what; None
if these leave nothing. A scheme in a file of a user's has that function as its attribute ``decides``."""
