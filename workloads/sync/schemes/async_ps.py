"""A parameter server that waits for nobody."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from topologies.model import Topology
from workloads.sync.forest import Asynchronous, Forest
from workloads.sync.schemes.ps import ps


def async_ps(topology: Topology, tensor_sizes: Sequence[int]) -> Forest:
    """One parameter server that waits for nobody: each gradient is a step, and its worker gets the newest weights.

    The last host serves, as in ``ps(colocated=false)``, and has as many bytes to move. A gradient counts 1/N, so that N
    updates move the weights as far as one synchronous step. There are as many updates as a synchronous trial has
    gradients, ``iterations`` times N; whoever is faster makes more of them. At the end all get the same weights. An
    update travels whole, whatever the workload's ``chunk``, so GST is at least the time there and then back.

    Source: MLfabric section 2 (asynchronous SGD); Dean et al., NIPS 2012, section 4.1 (Downpour SGD).
    """
    return replace(ps(topology, tensor_sizes, colocated=False), window=0, asynchronous=Asynchronous(None))
