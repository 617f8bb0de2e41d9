"""Aggregation: ordered updates go straight to their target, or are summed on the way (MLfabric, section 5.2, alg. 3).

The first n updates go straight. The others are cut into groups, one for each aggregator: a group takes the next update
as long as the aggregator has it before the target has everything that comes before the group. So the target receives
all the time. Each n from 0 to the number of updates is tried; the least total time wins (eq. 16), then the least
average (eq. 17), then the larger n.

What the printed algorithm leaves open is decided in docs/decisions/mlfabric-aggregation.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from testbed.workloads.kinds.fabric.scheduling.cases import Cases, Cuts
from testbed.workloads.kinds.fabric.scheduling.model import Group, Transfer, Update, Way
from testbed.workloads.kinds.fabric.scheduling.network import Load, Network, loads


@dataclass(frozen=True)
class Destination:
    """Destination of updates, and the aggregators over which they may go.

    Attributes:
        targets: the node for each component of an update; one may have several components.
        aggregators: in the order in which groups take them.
        momentum: gamma of eq. 2; above 0 an aggregator sends two sums.
        is_replica: what the transfers say of themselves.
    """

    targets: tuple[int, ...]
    aggregators: tuple[int, ...] = ()
    momentum: float = 0.0
    is_replica: bool = False

    @property
    def sums(self) -> int:
        """How many times the bytes of an update an aggregator sends: with momentum it has two sums."""
        return 2 if self.momentum else 1


def aggregate(updates: Sequence[Update], destination: Destination, network: Network) -> Way:
    """Find the way of ordered updates, which is then reserved in ``network``.

    The target holds what comes before its turn: an update arrives when it and all before it are there.

    Raises:
        SchemeError: two of the nodes have several paths.
    """
    return _laid(updates, grouped(updates, destination, network), destination, network)


def aggregate_with(direct: int, updates: Sequence[Update], destination: Destination, network: Network) -> Way:
    """Find the way as :func:`aggregate` does, for the case in which ``direct`` updates go straight, whether it is the
    best or not.

    Raises:
        SchemeError: two of the nodes have several paths.
        ValueError: in that case, something is never there.
    """
    cases = Cases(updates, destination.targets, destination.aggregators, destination.sums, network)
    return _laid(updates, cases.with_straight(direct), destination, network)


def grouped(updates: Sequence[Update], destination: Destination, network: Network) -> Cuts:
    """Return the groups of the best case; the first one begins behind the updates that go straight.

    Raises:
        SchemeError: two of the nodes have several paths.
    """
    return Cases(updates, destination.targets, destination.aggregators, destination.sums, network).best()


def _laid(updates: Sequence[Update], cuts: Cuts, destination: Destination, network: Network) -> Way:
    """Return the way of a case, reserved."""
    targets, is_replica = destination.targets, destination.is_replica
    transfers: list[Transfer] = []
    arrivals_s: dict[int, float] = {}
    last_s = 0.0  # when the target has all that was sent to it
    for update in updates[: cuts[0]]:
        sent = network.reserve_all(loads(update, targets, is_replica))
        transfers += sent
        last_s = max(last_s, *(transfer.end_s for transfer in sent))
        arrivals_s[update.id] = last_s
    groups = []
    for aggregator, first, end in zip(destination.aggregators, cuts, (*cuts[1:], len(updates)), strict=False):
        members, ids = updates[first:end], tuple(update.id for update in updates[first:end])
        if not members:
            continue
        ready_s, sums = [0.0] * len(targets), []
        for update in members:
            sent = network.reserve_all(loads(update, [aggregator] * len(targets), is_replica))
            transfers += sent
            ready_s = [max(before_s, transfer.end_s) for before_s, transfer in zip(ready_s, sent, strict=True)]
        for shard, target in enumerate(targets):
            size_bytes = destination.sums * max(update.sizes_bytes[shard] for update in members)
            sums.append(network.reserve(Load(aggregator, target, size_bytes, ready_s[shard], ids, shard, is_replica)))
        transfers += sums
        last_s = max(last_s, *(transfer.end_s for transfer in sums))
        arrivals_s |= dict.fromkeys(ids, last_s)
        groups.append(Group(aggregator, ids))
    transfers.sort(key=lambda transfer: transfer.start_s)
    return Way(tuple(update.id for update in updates[: cuts[0]]), tuple(groups), tuple(transfers), arrivals_s)
