"""A parameter server that waits for nobody, and stale synchronous parallel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from testbed.base.errors import SchemeError
from topologies.model import Topology
from workloads.kinds.asynchronous.plan import Asynchronous
from workloads.sync.forest import Forest
from workloads.sync.schemes.ps import ps


def async_ps(topology: Topology, tensor_sizes: Sequence[int]) -> Forest:
    """One parameter server that waits for nobody: each gradient is a step, and its worker gets the newest weights.

    The last host serves, as in ``ps(colocated=false)``, and has as many bytes to move. A gradient counts 1/N, so that N
    updates move the weights as far as one synchronous step. There are as many updates as a synchronous trial has
    gradients, ``iterations`` times N; whoever is faster makes more of them. At the end all get the same weights. An
    update travels whole, whatever the workload's ``chunk``, so GST is at least the time there and then back.

    Source: MLfabric section 2 (asynchronous SGD); Dean et al., NIPS 2012, section 4.1 (Downpour SGD).
    """
    return replace(ps(topology, tensor_sizes, colocated=False), window=0, run_by=Asynchronous(None))


def ssp(topology: Topology, tensor_sizes: Sequence[int], *, staleness: int = 3) -> Forest:
    """As async_ps, but no worker begins an iteration that is more than ``staleness`` ahead of the slowest worker's.

    A worker that is further ahead gets its weights once the slowest has caught up; GST does not count that wait.
    ``staleness=0`` lets nobody begin before all have done as many iterations.

    Source: MLfabric section 6 (stale synchronous SGD); Ho et al., NIPS 2013, section 2.
    """
    if staleness < 0:
        raise SchemeError(f"ssp has a staleness of {staleness}", fix="give staleness 0 or more, in iterations")
    return replace(async_ps(topology, tensor_sizes), run_by=Asynchronous(staleness))
