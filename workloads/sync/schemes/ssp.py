"""Stale synchronous parallel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from testbed.base.errors import SchemeError
from topologies.model import Topology
from workloads.sync.forest import Asynchronous, Forest
from workloads.sync.schemes.async_ps import async_ps


def ssp(topology: Topology, tensor_sizes: Sequence[int], *, staleness: int = 3) -> Forest:
    """As async_ps, but no worker begins an iteration that is more than ``staleness`` ahead of the slowest worker's.

    A worker that is further ahead gets its weights once the slowest has caught up; GST does not count that wait.
    ``staleness=0`` lets nobody begin before all have done as many iterations.

    Source: MLfabric section 6 (stale synchronous SGD); Ho et al., NIPS 2013, section 2.
    """
    if staleness < 0:
        raise SchemeError(f"ssp has a staleness of {staleness}", fix="give staleness 0 or more, in iterations")
    return replace(async_ps(topology, tensor_sizes), asynchronous=Asynchronous(staleness))
