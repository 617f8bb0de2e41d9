"""The scheme PBox: hosts that serve, with keys on NICs and cores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from testbed.base.errors import SchemeError
from testbed.topologies.model import Topology
from testbed.workloads.kinds.phub.plan import FLOAT_BYTES, Across, Affinity, Aggregation, Plan
from testbed.workloads.sync.trees import racks

MOST_CORES = 64
"""Most cores of a NIC: each is a process."""


def pbox(
    topology: Topology,
    tensor_sizes: Sequence[int],
    *,
    boxes: Literal["one", "rack"] = "one",
    across: Across = "none",
    colocated: bool = False,
    affinity: Affinity = "key",
    aggregation: Aggregation = "tall",
    cores: int = 1,
    key_bytes: int = 32768,
) -> Plan:
    """PBox: a parameter server of many cores, which add, take the step, and send weights back, key by key.

    The last host is the box; with ``boxes=rack`` that of each rack, and keys go to boxes first (sharded servers). With
    ``across=ps`` or ``across=ring`` each box adds the gradients of its rack instead. Boxes add these sums, at one box
    for each key or along a ring of boxes, and each takes the step with the same sum. On
    ``star(server_nics=N,routing=every_nic)`` each NIC of a box has ``cores`` cores, processes that share nothing.
    Each layer is cut at ``key_bytes``, a multiple of 4, and each key belongs to one core: the largest goes first to the
    NIC with the least so far, and there to a core. ``key_bytes=0`` makes one key for each NIC. A key passes the NIC of
    its core. With ``affinity=worker`` all keys of host h pass NIC h modulo N: cores of all NICs add to a key in shared
    memory, and the one that adds last takes the step. With ``colocated=true`` each worker has a core beside it, and no
    host only serves (PShard).

    With ``aggregation=tall`` a core changes the weights of a key once it has come from all workers, and sends them back
    at once. With ``wide`` a layer waits until all of it has come from all workers; then all cores change it, one layer
    at a time.

    Source: PHub thesis sections 2.2, 2.3, 3.2.2 to 3.2.4 and 3.3; Graham 1969 (LPT).
    """
    _check(topology, tensor_sizes, cores, key_bytes)
    if colocated and boxes == "rack":
        raise SchemeError(
            "scheme pbox(boxes=rack,colocated=true) has a core beside each worker, and no box",
            fix="leave out boxes, or colocated=true",
        )
    if across != "none":
        _check_across(across, boxes, affinity, aggregation)
    if affinity == "worker" and (colocated or aggregation == "wide"):
        other = "colocated=true" if colocated else "aggregation=wide"
        why = "has one NIC for all keys" if colocated else "waits for layers, and its NICs do not share keys then"
        raise SchemeError(f"scheme pbox(affinity=worker,{other}) {why}", fix=f"leave out affinity, or {other}")
    served = topology.hosts if colocated else _boxes(topology, boxes)
    workers = tuple(host for host in topology.hosts if colocated or host not in served)
    number_of = {topology.nodes[box].rack: number for number, box in enumerate(served)}
    homes = tuple(number_of[topology.nodes[worker].rack] for worker in workers) if across != "none" else ()
    return Plan(
        "",
        tuple(node.name for node in topology.nodes),
        workers,
        tuple(served),
        len(topology.connections(workers[0], served[-1])),
        tuple(tensor_sizes),
        key_bytes=key_bytes,
        cores=cores,
        affinity=affinity,
        aggregation=aggregation,
        across=across,
        homes=homes,
    )


def _check_across(across: str, boxes: str, affinity: str, aggregation: str) -> None:
    """
    Raises:
        SchemeError: sums cannot go across racks.
    """
    if boxes == "one":
        raise SchemeError(
            f"scheme pbox(across={across}) adds sums of racks, and needs a box in each rack", fix="add boxes=rack"
        )
    for asked in ("affinity=worker", "aggregation=wide"):
        if asked in (f"affinity={affinity}", f"aggregation={aggregation}"):
            raise SchemeError(
                f"scheme pbox(across={across},{asked}) adds sums of racks, which does not work with {asked}",
                fix=f"leave out across, or {asked}",
            )


def _boxes(topology: Topology, boxes: str) -> Sequence[int]:
    """Return the hosts that serve.

    Raises:
        SchemeError: there is to be one in each rack, and there is one rack, or a rack of one host.
    """
    if boxes == "one":
        return [topology.host_count - 1]
    groups = racks(topology, "pbox(boxes=rack)")
    if len(groups) == 1 or min(map(len, groups)) == 1:
        which = "one rack" if len(groups) == 1 else "a rack of one host"
        raise SchemeError(
            f"scheme pbox(boxes=rack) needs a box and a worker in each of several racks, and {topology.expression} has "
            f"{which}",
            fix="leave out boxes, or take a network of several racks, such as spine_leaf(racks=2)",
        )
    return [group[-1] for group in groups]


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
    if not 1 <= cores <= MOST_CORES:
        raise SchemeError(f"scheme pbox has {cores} cores for each NIC", fix=f"give cores 1 to {MOST_CORES}")
    if topology.host_count <= 1:
        raise SchemeError(
            f"scheme pbox needs a host for its box and others for workers, and {topology.expression} has "
            f"{topology.host_count} host",
            fix="take a network of 3 hosts or more",
        )
    if not sum(tensor_sizes):
        raise SchemeError("scheme pbox needs the sizes of the tensors, and there are none", fix="use ps")
