"""One batch, from the updates that wait to concrete transfers: order, aggregate, replicate (MLfabric, section 5)."""

from __future__ import annotations

from testbed.workloads.kinds.fabric.scheduling.aggregation import Destination, aggregate
from testbed.workloads.kinds.fabric.scheduling.model import Batch, Schedule
from testbed.workloads.kinds.fabric.scheduling.network import Network
from testbed.workloads.kinds.fabric.scheduling.ordering import order
from testbed.workloads.kinds.fabric.scheduling.replication import replicate


def schedule(batch: Batch, network: Network) -> Schedule:
    """Schedule a batch; all of its transfers are then reserved in ``network``.

    Synchronous training has no order of updates (section 6, eq. 16). A batch of it has no delay bound: algorithm 3 then
    takes its updates shortest transfer first.

    Raises:
        SchemeError: two of the nodes have several paths.
    """
    ordered = order(batch, network)
    way = aggregate(ordered.order, Destination(batch.servers, batch.aggregators, batch.momentum), network)
    replicated = None
    if batch.replication is not None:
        way, replicated = replicate(batch, ordered.order, way, network)
    return Schedule(tuple(update.id for update in ordered.order), ordered.dropped, way, replicated)
