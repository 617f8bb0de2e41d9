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

from testbed.workloads.kinds.fabric.scheduling import components
from testbed.workloads.kinds.fabric.scheduling.cases import Cases, Cuts
from testbed.workloads.kinds.fabric.scheduling.model import Group, Transfer, Update, Way
from testbed.workloads.kinds.fabric.scheduling.network import Load, Network


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


class _Lane:
    """A case that is tried: its reservations so far, and when the target has their data.

    Attributes:
        last_s: when the target has all that was sent to it.
        waited_s: the sum of all updates' arrivals.
    """

    def __init__(self, updates: Sequence[Update], destination: Destination, network: Network) -> None:
        self.updates, self.destination, self.network = updates, destination, network
        self.last_s = self.waited_s = 0.0
        self.transfers: list[Transfer] = []

    def send(self, index: int) -> None:
        """Send an update straight to the target."""
        self._arrived(self._send(index, self.destination.targets), 1)

    def collect(self, index: int, aggregator: int) -> list[Transfer]:
        """Send an update to an aggregator."""
        return self._send(index, [aggregator] * len(self.destination.targets))

    def hand_on(self, aggregator: int, members: Sequence[Update], ready_s: Sequence[float]) -> None:
        """Send the sum of a group to the target; ``ready_s`` says when the aggregator has each component of all."""
        ids = tuple(update.id for update in members)
        sent = []
        for shard, target in enumerate(self.destination.targets):
            size_bytes = self.destination.sums * max(update.sizes_bytes[shard] for update in members)
            load = Load(aggregator, target, size_bytes, ready_s[shard], ids, shard, self.destination.is_replica)
            sent.append(self.network.reserve(load))
        self.transfers += sent
        self._arrived(sent, len(members))

    def _send(self, index: int, targets: Sequence[int]) -> list[Transfer]:
        sent = components.reserve(self.updates[index], targets, self.network, self.destination.is_replica)
        self.transfers += sent
        return sent

    def _arrived(self, sent: Sequence[Transfer], count: int) -> None:
        self.last_s = max(self.last_s, *(transfer.end_s for transfer in sent))
        self.waited_s += count * self.last_s


class _Collected:
    """A group while an aggregator collects it."""

    def __init__(self, lane: _Lane) -> None:
        self._lane = lane
        self.members: list[Update] = []
        self._ready_s = [0.0] * len(lane.destination.targets)

    def add(self, index: int, aggregator: int) -> None:
        self.members.append(self._lane.updates[index])
        sent = self._lane.collect(index, aggregator)
        self._ready_s = [max(a, transfer.end_s) for a, transfer in zip(self._ready_s, sent, strict=True)]

    def hand_on(self, aggregator: int) -> None:
        self._lane.hand_on(aggregator, self.members, self._ready_s)


def _laid(updates: Sequence[Update], cuts: Cuts, destination: Destination, network: Network) -> Way:
    """Return the way of a case, reserved."""
    lane = _Lane(updates, destination, network)
    arrivals_s: dict[int, float] = {}
    for index in range(cuts[0]):
        lane.send(index)
        arrivals_s[updates[index].id] = lane.last_s
    groups = []
    for aggregator, first, end in zip(destination.aggregators, cuts, (*cuts[1:], len(updates)), strict=False):
        group = _Collected(lane)
        for index in range(first, end):
            group.add(index, aggregator)
        if group.members:
            group.hand_on(aggregator)
            groups.append(Group(aggregator, tuple(update.id for update in group.members)))
            arrivals_s |= {update.id: lane.last_s for update in group.members}
    transfers = sorted(lane.transfers, key=lambda transfer: transfer.start_s)
    return Way(tuple(update.id for update in updates[: cuts[0]]), tuple(groups), tuple(transfers), arrivals_s)
