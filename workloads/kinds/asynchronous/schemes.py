"""Parameter servers that wait for nobody, and stale synchronous parallel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from testbed.base.errors import SchemeError
from testbed.topologies.model import Topology
from testbed.workloads.kinds.asynchronous.plan import Asynchronous
from testbed.workloads.learning import parts
from testbed.workloads.sync.forest import ABSENT, ROOT, Forest
from testbed.workloads.sync.trees import over

Replicated = Literal["none", "chain"]


def async_ps(
    topology: Topology, tensor_sizes: Sequence[int], *, servers: int = 1, replication: Replicated = "none"
) -> Forest:
    """Parameter servers that wait for nobody: each gradient is a step, and its worker gets the newest weights.

    The last ``servers`` hosts serve, as in ``ps(colocated=false)``, and have as many bytes to move. Each has a part of
    the weights: as many floats, one after the other. A gradient counts 1/N, so that N updates move the weights as far
    as one synchronous step. There are as many updates as a synchronous trial has gradients, ``iterations`` times N;
    whoever is faster makes more of them. At the end all get the same weights. An update's part for a server travels
    whole, whatever the workload's ``chunk``, so GST is at least the time there and then back.

    With several servers, nobody orders updates for all of them. A worker computes on the parts that it gets, and their
    versions may differ.

    With ``replication=chain`` each server has a replica, one of as many hosts behind the servers. The server sends each
    update on when it has all of it. When the replica has it, too, both apply it, and the worker gets weights.

    Source: MLfabric section 2 (asynchronous SGD) and 3.3 (chain replication); Dean et al., NIPS 2012, section 4.1
    (Downpour SGD); Li et al., OSDI 2014, section 4.3 (replication before an answer).
    """
    return _star(_Asked("async_ps", topology, tensor_sizes, servers, replication), None)


def ssp(
    topology: Topology,
    tensor_sizes: Sequence[int],
    *,
    staleness: int = 3,
    servers: int = 1,
    replication: Replicated = "none",
) -> Forest:
    """As async_ps, but no worker begins an iteration that is more than ``staleness`` ahead of the slowest worker's.

    A worker that is further ahead gets its weights once the slowest has caught up; GST does not count that wait.
    ``staleness=0`` lets nobody begin before all have done as many iterations. With several ``servers``, each of them
    holds its part back by the updates that it has itself applied, and a worker waits for all parts.

    Source: MLfabric section 6 (stale synchronous SGD); Ho et al., NIPS 2013, section 2.
    """
    if staleness < 0:
        raise SchemeError(f"ssp has a staleness of {staleness}", fix="give staleness 0 or more, in iterations")
    return _star(_Asked("ssp", topology, tensor_sizes, servers, replication), staleness)


@dataclass(frozen=True)
class _Asked:
    """Arguments of both schemes; ``scheme`` is the name of the one that is asked for."""

    scheme: str
    topology: Topology
    tensor_sizes: Sequence[int]
    servers: int
    replication: Replicated


def _star(asked: _Asked, staleness: int | None) -> Forest:
    """Build a forest with the workers first, then servers, then their replicas."""
    _check_servers(asked)
    topology, count = asked.topology, asked.servers
    replicas = count if asked.replication == "chain" else 0
    workers = range(topology.host_count - count - replicas)
    root = np.arange(len(workers), len(workers) + count)
    trees = np.full((count, topology.host_count), ABSENT, dtype=np.int32)
    trees[:, list(workers)] = root[:, None]
    trees[np.arange(count), root] = ROOT
    run_by = Asynchronous(staleness, tuple(range(topology.host_count - replicas, topology.host_count)))
    return replace(over(topology, trees, workers=workers), run_by=run_by)


def _check_servers(asked: _Asked) -> None:
    """
    Raises:
        SchemeError: there are too few hosts, or floats, for so many servers.
    """
    scheme, topology, servers = asked.scheme, asked.topology, asked.servers
    is_chain = asked.replication == "chain"
    most = (topology.host_count - 1) // (2 if is_chain else 1)
    if most < 1:
        who = "a server, its replica and a worker" if is_chain else "a server and a worker"
        raise SchemeError(
            f"{scheme} needs {who}; {topology.expression} has {topology.host_count} "
            + ("host" if topology.host_count == 1 else "hosts"),
            fix=f"take a network of {4 if is_chain else 3} hosts or more",
        )
    if not 1 <= servers <= most:
        raise SchemeError(
            f"{scheme} has {servers} servers{' and as many replicas' if is_chain else ''} "
            f"for the {topology.host_count} hosts of {topology.expression}",
            fix=f"give servers {parts.up_to(most)}, with a host left to work",
        )
    parts.check(scheme, servers, asked.tensor_sizes)
