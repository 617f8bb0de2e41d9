"""A parameter server that waits for nobody, and stale synchronous parallel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from testbed.base.errors import SchemeError
from topologies.model import Topology
from workloads.kinds.asynchronous.plan import Asynchronous
from workloads.sync.forest import Forest
from workloads.sync.schemes.ps import ps


def async_ps(topology: Topology, tensor_sizes: Sequence[int], *, servers: int = 1) -> Forest:
    """Parameter servers that wait for nobody: each gradient is a step, and its worker gets the newest weights.

    The last ``servers`` hosts serve, as in ``ps(colocated=false)``, and have as many bytes to move. Each has a part of
    the weights: as many floats, one after the other. A gradient counts 1/N, so that N updates move the weights as far
    as one synchronous step. There are as many updates as a synchronous trial has gradients, ``iterations`` times N;
    whoever is faster makes more of them. At the end all get the same weights. An update's part for a server travels
    whole, whatever the workload's ``chunk``, so GST is at least the time there and then back.

    With several servers, nobody orders updates for all of them. A worker computes on the parts that it gets, and their
    versions may differ.

    Source: MLfabric section 2 (asynchronous SGD); Dean et al., NIPS 2012, section 4.1 (Downpour SGD).
    """
    _check_servers("async_ps", topology, tensor_sizes, servers)
    return replace(ps(topology, tensor_sizes, colocated=False, servers=servers), window=0, run_by=Asynchronous(None))


def ssp(topology: Topology, tensor_sizes: Sequence[int], *, staleness: int = 3, servers: int = 1) -> Forest:
    """As async_ps, but no worker begins an iteration that is more than ``staleness`` ahead of the slowest worker's.

    A worker that is further ahead gets its weights once the slowest has caught up; GST does not count that wait.
    ``staleness=0`` lets nobody begin before all have done as many iterations. With several ``servers``, each of them
    holds its part back by the updates that it has itself applied, and a worker waits for all parts.

    Source: MLfabric section 6 (stale synchronous SGD); Ho et al., NIPS 2013, section 2.
    """
    if staleness < 0:
        raise SchemeError(f"ssp has a staleness of {staleness}", fix="give staleness 0 or more, in iterations")
    _check_servers("ssp", topology, tensor_sizes, servers)
    return replace(async_ps(topology, tensor_sizes, servers=servers), run_by=Asynchronous(staleness))


def _check_servers(scheme: str, topology: Topology, tensor_sizes: Sequence[int], servers: int) -> None:
    """
    Raises:
        SchemeError: there are too few hosts, or floats, for so many servers.
    """
    most = topology.host_count - 1
    if most < 1:
        raise SchemeError(
            f"{scheme} needs a server and a worker; {topology.expression} has one host",
            fix="take a network of three hosts or more",
        )
    if not 1 <= servers <= most:
        raise SchemeError(
            f"{scheme} has {servers} servers for the {topology.host_count} hosts of {topology.expression}",
            fix=f"give servers 1 to {most}, with a host left to work",
        )
    floats = sum(tensor_sizes)
    if tensor_sizes and servers > floats:
        raise SchemeError(
            f"{scheme} has {servers} servers for a model of {floats:,} floats",
            fix=f"give servers 1 to {floats:,}, so that each has a part of the weights",
        )
