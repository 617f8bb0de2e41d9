"""Distribution of new weights to workers (MLfabric, section 10.3): from the servers, or from a distributor that passes
them on.

This is algorithm 3 backwards in time. Updates reach the servers group by group, and each aggregator has collected its
group by then. Weights leave the servers distributor by distributor, the last one first, and each passes them on to its
group while the servers go on. Workers that get them from the servers come at the end.

So the groups are those that alg. 3 finds for updates of the weights' size that go the other way. The transfers are then
planned forwards in time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from testbed.workloads.kinds.fabric.scheduling.aggregation import Destination, grouped
from testbed.workloads.kinds.fabric.scheduling.model import Batch, Group, Transfer, Update, Way
from testbed.workloads.kinds.fabric.scheduling.network import Load, Network
from testbed.workloads.kinds.fabric.scheduling.ordering import order


@dataclass(frozen=True)
class Request:
    """Workers that get one version of the weights.

    Attributes:
        workers: the nodes that asked, each once.
        servers: where the weights are: one node, or one for each shard.
        sizes_bytes: of the weights, by server.
        distributors: nodes that may pass them on, in the order in which groups take them.
        ready_s: when the servers have this version.
    """

    workers: tuple[int, ...]
    servers: tuple[int, ...]
    sizes_bytes: tuple[float, ...]
    distributors: tuple[int, ...] = ()
    ready_s: float = 0.0


def distribute(request: Request, network: Network) -> Way:
    """Find the way of weights to workers, which is then reserved in ``network``. Ids in it are the workers' nodes.

    A worker on a distributor's host has the weights when the distributor has them. A worker for which no rate is left,
    ever, is not in it. Where distributors would take longer, all workers get the weights from the servers.

    Raises:
        SchemeError: two of the nodes have several paths.
    """
    turned = network.turned()
    asked = [Update(one, one, request.sizes_bytes, 0, request.ready_s) for one in request.workers]
    ordered = order(Batch(tuple(asked), request.servers), turned).order
    workers = [update.worker for update in ordered]
    cuts = grouped(ordered, Destination(request.servers, request.distributors), turned)
    straight = (len(workers),)
    tried, other = (_reserved(request, workers, one, network.copy()) for one in (cuts, straight))
    return _reserved(request, workers, straight if tried.total_s > other.total_s else cuts, network)


def _reserved(request: Request, workers: Sequence[int], cuts: Sequence[int], network: Network) -> Way:
    """Return the way to workers whose groups begin at these indices; transfers from the servers are reserved first."""
    transfers: list[Transfer] = []

    def send(sources: Sequence[int], target: int, ready_s: Sequence[float]) -> list[float]:
        """Send each shard from its source; return when they are there."""
        sent = [
            network.reserve_whole(Load(source, target, size_bytes, at_s, (), shard))
            for shard, (source, size_bytes, at_s) in enumerate(zip(sources, request.sizes_bytes, ready_s, strict=True))
        ]
        transfers.extend(sent)
        return [transfer.end_s for transfer in sent]

    def from_servers(target: int) -> list[float]:
        return send(request.servers, target, [request.ready_s] * len(request.servers))

    groups = [
        Group(distributor, tuple(workers[first:end]))
        for distributor, first, end in zip(request.distributors, cuts, [*cuts[1:], len(workers)], strict=False)
        if first < end
    ][::-1]
    there_s = {group.aggregator: from_servers(group.aggregator) for group in groups}
    direct = tuple(workers[: cuts[0]])
    arrivals_s = {worker: max(there_s.get(worker) or from_servers(worker)) for worker in direct}
    for group in groups:
        source = [group.aggregator] * len(request.servers)
        for worker in group.members:
            arrivals_s[worker] = max(there_s.get(worker) or send(source, worker, there_s[group.aggregator]))
    transfers.sort(key=lambda transfer: transfer.start_s)
    return Way(direct, tuple(groups), tuple(transfers), arrivals_s)
