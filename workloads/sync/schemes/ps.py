"""Parameter server in its four forms: colocated with workers or not, centralised or sharded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from testbed.base.errors import SchemeError
from testbed.topologies.model import Topology
from testbed.workloads.longest_first import longest_first
from testbed.workloads.sync.forest import ABSENT, ROOT, Forest
from testbed.workloads.sync.trees import over

_WINDOW = 16
"""Chunks of a server's share that a worker has on the way: more than the two or three that keep the links full. Without
a limit the flows towards a server drift apart, up to the buffers of their connections, and the server has nothing to
send until the slowest is there: one server for eight workers took 1.3 to 1.5 times its bound."""


def ps(
    topology: Topology,
    tensor_sizes: Sequence[int],
    *,
    place: Literal["chunk", "tensor", "lpt"] = "chunk",
    colocated: bool = True,
    servers: int = 0,
) -> Forest:
    """Parameter servers; on every worker, or on some, or on hosts of their own.

    ``ps(servers=1)`` is colocated and centralised (CC), ``ps`` colocated and sharded over every worker (CS),
    ``ps(colocated=false)`` non-colocated and centralised (NCC), ``ps(colocated=false,servers=4)`` non-colocated and
    sharded (NCS). ``servers=0``, the default, takes every worker where colocated and one host where not. Colocated
    servers are spread evenly over the workers; otherwise the last hosts serve and have no gradient.

    ``place=chunk``: one class a server, of equal share; class c is summed at server c. The workload's ``chunk_bytes``
    is the size of a key (PHub cuts at 32 KiB, its baseline at 4 MiB).
    ``place=tensor``: one class a tensor; tensor i is summed at server i mod S, in order of creation. That is what
    TensorFlow's ``tf.compat.v1.train.replica_device_setter`` does by default (round-robin over the PS tasks), and it
    leaves the servers as unequal as the tensors are.
    ``place=lpt``: one class a tensor; the largest first, each at the server with the least so far (longest processing
    time, the 4/3 approximation of set partition with which PHub balances keys).

    A centralised server of its own with several NICs, as on ``star(hosts=9,server_nics=4)``, has PBox's bytes. A worker
    and a server share one connection, so each worker's keys all pass one NIC of the server, the one to which the
    topology routes that worker: PHub's "worker by interface" (section 6.1.5). With ``routing=every_nic`` they have a
    connection over each NIC, which carry the same bytes, as with its "key by interface".

    Source: PHub thesis sections 1.1.5, 2.2, 3.2.3 and 3.2.4; BML section 2 (CS is its peer-to-peer placement);
    TensorFlow, tensorflow/python/training/device_setter.py; Graham 1969 (LPT).
    """
    if colocated:
        hosts, workers = colocated_servers(topology, servers, "ps"), topology.hosts
    else:
        hosts = servers_of_their_own(topology, servers)
        workers = range(topology.host_count - len(hosts))
    count = len(hosts)
    if place == "chunk":
        share, at = np.ones(count, dtype=np.int64), np.arange(count)
    elif not tensor_sizes:
        raise SchemeError(f"ps(place={place}) needs the sizes of the tensors, and there are none", fix="use ps")
    else:
        share = np.asarray(tensor_sizes, dtype=np.int64)
        at = np.arange(len(share)) % count if place == "tensor" else longest_first(tensor_sizes, count)
    root = hosts[at]
    trees = np.full((len(share), topology.host_count), ABSENT, dtype=np.int32)
    trees[:, list(workers)] = root[:, None]
    trees[np.arange(len(share)), root] = ROOT
    return over(topology, trees, share=share, workers=workers, aligned=place != "chunk", window=_WINDOW)


def colocated_servers(topology: Topology, servers: int, scheme: str) -> NDArray[np.int64]:
    """Return the workers that also serve, spread evenly; every worker where ``servers`` is 0.

    Raises:
        SchemeError: there are fewer workers.
    """
    most = topology.host_count
    count = servers or most
    _check_count(topology, scheme, count, most, "one a worker")
    return np.arange(count) * most // count


def servers_of_their_own(topology: Topology, servers: int) -> NDArray[np.int64]:
    """Return the hosts that serve and do not work, the last ones; one where ``servers`` is 0.

    Raises:
        SchemeError: no host is left to work.
    """
    most = topology.host_count - 1
    count = servers or 1
    _check_count(topology, "ps", count, most, "with a host left to work")
    return np.arange(most + 1 - count, most + 1)


def _check_count(topology: Topology, scheme: str, count: int, most: int, whose: str) -> None:
    if not 1 <= count <= most:
        raise SchemeError(
            f"{scheme} has {count} servers for the {topology.host_count} hosts of {topology.expression}",
            fix=f"give servers 1 to {most}, {whose}" if most else "take a network of two hosts or more",
        )
