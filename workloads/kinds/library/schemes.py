"""Gloo and Open MPI beside ours, unchanged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from testbed.base.errors import SchemeError
from testbed.topologies.model import Topology
from testbed.workloads.kinds.library.plan import Library
from testbed.workloads.sync.forest import Forest
from testbed.workloads.sync.schemes.halving_doubling import halving_doubling
from testbed.workloads.sync.schemes.ps import ps
from testbed.workloads.sync.schemes.reference import cheapest, one_nic
from testbed.workloads.sync.schemes.ring import ring
from testbed.workloads.sync.trees import chains, over


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
        return replace(over(topology, chains(topology.hosts[::-1]), chains(topology.hosts)), run_by=library)
    return replace(cheapest(topology, tensor_sizes), run_by=library)


def openmpi(
    topology: Topology,
    tensor_sizes: Sequence[int],
    *,
    algorithm: Literal[
        "default",
        "basic_linear",
        "nonoverlapping",
        "recursive_doubling",
        "ring",
        "segmented_ring",
        "rabenseifner",
    ] = "default",
    segment_bytes: int = 0,
) -> Forest:
    """Open MPI's ``MPI_Allreduce``, unchanged, in place of our engine.

    ``default`` lets Open MPI choose by size and number of ranks; the others force one of its ``coll tuned`` algorithms
    (MCA parameter ``coll_tuned_allreduce_algorithm``), and ``segment_bytes`` sets
    ``coll_tuned_allreduce_algorithm_segmentsize``, which ``segmented_ring`` needs.

    Where an algorithm moves just the bytes of one of our forests, that is its forest and the bytes on the wire are held
    against it: ``ps(servers=1)`` for ``basic_linear``, ``ring`` for both rings, ``halving_doubling`` for
    ``rabenseifner`` on 2^m hosts. The forest of all others is the cheapest that is known, and their bytes are not.

    Open MPI polls while it waits, so how busy the cores are cannot be told from idle time: a trial is VALID only where
    its GST is near the least that the links allow. Gradients that leave layer by layer are summed as they come, and
    the backward pass waits, for ``MPI_Allreduce`` blocks.

    Source: Open MPI 4.1, ompi/mca/coll/tuned and coll/base/coll_base_allreduce.c; Thakur, Rabenseifner, Gropp 2005.
    """
    one_nic("openmpi", topology)
    if segment_bytes < 0 or (algorithm == "segmented_ring" and not segment_bytes):
        raise SchemeError(
            f"openmpi: {algorithm} with segments of {segment_bytes} bytes",
            fix="write it as openmpi(algorithm=segmented_ring,segment_bytes=1048576)",
        )
    exact = True
    if algorithm == "basic_linear":
        forest = ps(topology, tensor_sizes, servers=1)
    elif algorithm in ("ring", "segmented_ring"):
        forest = ring(topology, tensor_sizes)
    elif algorithm == "rabenseifner" and topology.host_count.bit_count() == 1:
        forest = halving_doubling(topology, tensor_sizes)
    else:
        forest, exact = cheapest(topology, tensor_sizes), False
    return replace(forest, run_by=Library("openmpi", algorithm, segment_bytes, exact=exact, polls=True))
