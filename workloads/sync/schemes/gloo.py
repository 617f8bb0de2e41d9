"""Gloo beside ours, unchanged, as ``torch.distributed`` calls it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from topologies.model import Topology
from workloads.sync.forest import Forest, Library
from workloads.sync.schemes.reference import cheapest, one_nic
from workloads.sync.trees import chains, over


def gloo(
    topology: Topology,
    tensor_sizes: Sequence[int],
    *,
    algorithm: Literal["allreduce", "reduce_broadcast"] = "allreduce",
) -> Forest:
    """PyTorch's Gloo back end, unchanged, in place of our engine.

    ``allreduce`` is ``torch.distributed.all_reduce``: a ring that sends to the rank before, whose segments take at most
    1 MiB. Its forest is a ring of that direction, and the bytes on the wire are held against it.
    ``reduce_broadcast`` is ``reduce`` to rank 0 and then ``broadcast``; the forest is the cheapest that is known.

    Gloo takes one NIC a host, and its connections use the trial's congestion control.

    Source: torch.distributed (backend gloo); Gloo, gloo/allreduce.cc.
    """
    one_nic("gloo", topology)
    library = Library("gloo", algorithm, 0, exact=algorithm == "allreduce", polls=False)
    if library.exact:
        return replace(over(topology, chains(topology.hosts[::-1]), chains(topology.hosts)), library=library)
    return replace(cheapest(topology, tensor_sizes), library=library)
