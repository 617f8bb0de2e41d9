"""An update's components, one for each server, which are sent together (MLfabric, section 10.2)."""

from __future__ import annotations

from collections.abc import Sequence

from workloads.kinds.fabric.scheduling.model import Transfer, Update
from workloads.kinds.fabric.scheduling.network import Load, Network


def reserve(update: Update, targets: Sequence[int], network: Network, is_replica: bool = False) -> list[Transfer]:
    """Send each component to its target; where two meet, that of the first target goes first."""
    return [
        network.reserve(Load(update.worker, target, size_bytes, update.ready_s, (update.id,), shard, is_replica))
        for shard, (target, size_bytes) in enumerate(zip(targets, update.sizes_bytes, strict=True))
    ]


def end_s(update: Update, targets: Sequence[int], network: Network) -> float:
    """When the slowest component would be there (eq. 18)."""
    if len(targets) == 1:
        return network.end_s(Load(update.worker, targets[0], update.sizes_bytes[0], update.ready_s))
    return max(transfer.end_s for transfer in reserve(update, targets, network.copy()))
