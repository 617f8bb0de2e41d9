"""Algorithms 2 and 3 as they are written, slowly: what the fast ones are held against."""

from __future__ import annotations

import math
from collections.abc import Sequence

from testbed.workloads.kinds.fabric.scheduling.model import Batch, Drop, Update
from testbed.workloads.kinds.fabric.scheduling.network import Load, Network

Answer = tuple[float, float, int, list[list[int]]]
"""Total time, sum of arrivals, how many go straight, and the groups' ids."""


def send(update: Update, targets: Sequence[int], network: Network) -> list[float]:
    return [
        network.reserve(Load(update.worker, target, size, update.ready_s)).end_s
        for target, size in zip(targets, update.sizes_bytes, strict=True)
    ]


def end_s(update: Update, targets: Sequence[int], network: Network) -> float:
    return max(send(update, targets, network.copy()))


def order(batch: Batch, network: Network) -> tuple[list[int], dict[int, Drop]]:
    """Alg. 2 with the mended points, by going back to the state before an update that is dropped."""
    kept: list[Update] = []
    dropped: dict[int, Drop] = {}
    network = network.copy()
    for one in batch.placed:
        update = next(update for update in batch.updates if update.id == one)
        if end_s(update, batch.servers, network) == math.inf:
            dropped[one] = Drop.UNREACHABLE
        else:
            kept.append(update)
            send(update, batch.servers, network)
    first = len(kept)
    dues: list[bool] = []
    states = [network]
    while True:
        network, position = states[-1], len(kept) + 1
        deadlines = {
            one.id: math.inf if batch.delay_bound is None else one.version + batch.delay_bound - batch.version
            for one in batch.updates
        }
        ends = {
            one.id: end_s(one, batch.servers, network)
            for one in batch.updates
            if one not in kept and one.id not in dropped and deadlines[one.id] >= position
        }
        left = [one for one in batch.updates if ends.get(one.id, math.inf) < math.inf]
        if not left:
            break
        due = next(
            (
                some
                for j in range(1, len(left) + 1)
                if len(some := [one for one in left if deadlines[one.id] <= position + j - 1]) >= j
            ),
            [],
        )
        chosen = min(due or left, key=lambda one: (round(ends[one.id], 9), one.worker, one.id))
        if len(kept) > first and dues[-1]:
            before = states[-2].copy()
            if round(max(send(kept[-1], batch.servers, before)), 9) > round(ends[chosen.id], 9):
                dropped[kept.pop().id] = Drop.BLOCKS
                dues.pop()
                states.pop()
                continue
        states.append(network.copy())
        send(chosen, batch.servers, states[-1])
        kept.append(chosen)
        dues.append(bool(due))
    for one in batch.updates:
        if one not in kept and one.id not in dropped:
            dropped[one.id] = Drop.OVERDUE if deadlines[one.id] < position else Drop.UNREACHABLE
    return [one.id for one in kept], dropped


def aggregate(
    updates: Sequence[Update], targets: Sequence[int], aggregators: Sequence[int], sums: int, network: Network
) -> Answer:
    """Alg. 3: every case from the beginning, and the best of them."""
    cases = [case(n, updates, targets, aggregators, sums, network.copy()) for n in range(len(updates) + 1)]
    return min((one for one in cases if one), key=lambda one: (round(one[0], 9), round(one[1], 9), -one[2]))


def case(
    n: int, updates: Sequence[Update], targets: Sequence[int], aggregators: Sequence[int], sums: int, network: Network
) -> Answer | None:
    """DetAgg of alg. 3."""
    t_max = waited = 0.0
    for update in updates[:n]:
        t_max = max(t_max, *send(update, targets, network))
        waited += t_max
    groups: list[list[Update]] = [[]]
    ready = [0.0] * len(targets)
    left = list(updates[n:])
    if left and not aggregators:
        return None

    def close() -> None:
        nonlocal t_max, waited
        aggregator = aggregators[len(groups) - 1]
        ends = [
            network.reserve(
                Load(aggregator, target, sums * max(one.sizes_bytes[shard] for one in groups[-1]), ready[shard])
            ).end_s
            for shard, target in enumerate(targets)
        ]
        t_max = max(t_max, *ends)
        waited += t_max * len(groups[-1])

    while left:
        update, aggregator = left[0], aggregators[len(groups) - 1]
        is_last = len(groups) == len(aggregators)
        is_free = not groups[-1] or is_last or (n == 0 and len(groups) == 1)
        to_it = [aggregator] * len(targets)
        if not is_free and end_s(update, to_it, network) > t_max + 1e-9:
            close()
            groups.append([])
            ready = [0.0] * len(targets)
            continue
        ready = [max(a, b) for a, b in zip(ready, send(update, to_it, network), strict=True)]
        groups[-1].append(left.pop(0))
    if groups[-1]:
        close()
    return t_max, waited, n, [[one.id for one in group] for group in groups if group]
