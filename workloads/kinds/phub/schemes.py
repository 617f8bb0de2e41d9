"""The scheme PBox: hosts that serve, with keys on NICs and cores."""

from __future__ import annotations

from collections.abc import Sequence

from testbed.base.errors import SchemeError
from testbed.topologies.model import Topology
from testbed.workloads.kinds.phub.keys import FLOAT_BYTES
from testbed.workloads.kinds.phub.plan import Affinity, Aggregation, Plan


def pbox(
    topology: Topology,
    tensor_sizes: Sequence[int],
    *,
    colocated: bool = False,
    affinity: Affinity = "key",
    aggregation: Aggregation = "tall",
    cores: int = 1,
    key_bytes: int = 32768,
) -> Plan:
    """PBox: a parameter server of many cores, which add, take the step, and send weights back, key by key.

    The last host is the box. On ``star(server_nics=N,routing=every_nic)`` each of its NICs has ``cores`` cores, single
    processes that share nothing. Each layer is cut at ``key_bytes``, a multiple of 4, and each key belongs to one core:
    the largest goes first to the NIC with the least so far, and there to a core. ``key_bytes=0`` makes one key for each
    NIC. A key passes the NIC of its core. With ``affinity=worker`` all keys of host h pass NIC h modulo N: cores of all
    NICs add to a key in shared memory, and the one that adds last takes the step. With ``colocated=true`` each worker
    has a core beside it, and no host only serves (PShard).

    With ``aggregation=tall`` a core changes the weights of a key once it has come from all workers, and sends them back
    at once. With ``wide`` a layer waits until all of it has come from all workers; then all cores change it, one layer
    at a time.

    Source: PHub thesis sections 2.2, 3.2.2 to 3.2.4 and 3.3; Graham 1969 (LPT).
    """
    hosts = topology.host_count
    _check(topology, tensor_sizes, cores, key_bytes)
    if affinity == "worker" and (colocated or aggregation == "wide"):
        other = "colocated=true" if colocated else "aggregation=wide"
        why = "has one NIC for all keys" if colocated else "waits for layers, and its NICs do not share keys then"
        raise SchemeError(f"scheme pbox(affinity=worker,{other}) {why}", fix=f"leave out affinity, or {other}")
    workers = tuple(range(hosts if colocated else hosts - 1))
    return Plan(
        "",
        tuple(node.name for node in topology.nodes),
        workers,
        workers if colocated else (hosts - 1,),
        len(topology.connections(0, hosts - 1)),
        tuple(tensor_sizes),
        key_bytes=key_bytes,
        cores=cores,
        affinity=affinity,
        aggregation=aggregation,
    )


def _check(topology: Topology, tensor_sizes: Sequence[int], cores: int, key_bytes: int) -> None:
    """
    Raises:
        SchemeError: a parameter is out of its range, or the network too small.
    """
    if key_bytes < 0 or key_bytes % FLOAT_BYTES:
        raise SchemeError(
            f"scheme pbox: keys of {key_bytes} bytes cut a float",
            fix=f"give key_bytes a multiple of {FLOAT_BYTES}, such as 32768",
        )
    if cores < 1:
        raise SchemeError(f"scheme pbox has {cores} cores for each NIC", fix="give cores 1 or more")
    if topology.host_count <= 1:
        raise SchemeError(
            f"scheme pbox needs a box and a worker; {topology.expression} has {topology.host_count} host",
            fix="take a network of 3 hosts or more",
        )
    if not sum(tensor_sizes):
        raise SchemeError("scheme pbox needs the sizes of the tensors, and there are none", fix="use ps")
