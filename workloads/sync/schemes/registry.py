"""Every scheme that comes with us; its name in expressions is its function's."""

from __future__ import annotations

from collections.abc import Callable

from workloads.kinds.asynchronous.schemes import async_ps, ssp
from workloads.kinds.fabric.schemes.mlfabric_a import mlfabric_a
from workloads.kinds.fabric.schemes.mlfabric_s import mlfabric_s
from workloads.kinds.fabric.schemes.mlfabric_ssp import mlfabric_ssp
from workloads.kinds.library.schemes import gloo, openmpi
from workloads.plan import Plan
from workloads.sync.forest import Forest
from workloads.sync.schemes.atp import atp
from workloads.sync.schemes.bcube import bcube
from workloads.sync.schemes.bml import bml
from workloads.sync.schemes.double_binary_tree import double_binary_tree
from workloads.sync.schemes.h_ar import h_ar
from workloads.sync.schemes.halving_doubling import halving_doubling
from workloads.sync.schemes.hierarchical import hierarchical
from workloads.sync.schemes.hierarchical_ps import hierarchical_ps
from workloads.sync.schemes.multi_ring import multi_ring
from workloads.sync.schemes.ps import ps
from workloads.sync.schemes.rina import rina, rina_without
from workloads.sync.schemes.ring import ring
from workloads.sync.schemes.switchml import switchml
from workloads.sync.schemes.tree import tree
from workloads.sync.schemes.two_level import two_level

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
    gloo,
    openmpi,
)

REPAIRS: dict[str, Callable[..., Forest]] = {"rina": rina_without}
"""The schemes that go on when nodes die, and the function ``(dead, topology, tensor_sizes, ...)`` that says as what."""
