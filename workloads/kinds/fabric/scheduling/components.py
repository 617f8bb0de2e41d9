"""An update's components, one for each server, which are sent together (MLfabric, section 10.2)."""

from __future__ import annotations

from collections.abc import Sequence

from testbed.workloads.kinds.fabric.scheduling.model import Transfer, Update
from testbed.workloads.kinds.fabric.scheduling.network import Load, Network


def reserve(update: Update, targets: Sequence[int], network: Network, is_replica: bool = False) -> list[Transfer]:
    """Send each component to its target; where two meet, that of the first target goes first."""
    return [network.reserve(load) for load in _loads(update, targets, is_replica)]


def end_s(update: Update, targets: Sequence[int], network: Network) -> float:
    """Return when the slowest component would be there (eq. 18)."""
    return network.last_s(_loads(update, targets))


def _loads(update: Update, targets: Sequence[int], is_replica: bool = False) -> list[Load]:
    return [
        Load(update.worker, target, size_bytes, update.ready_s, (update.id,), shard, is_replica)
        for shard, (target, size_bytes) in enumerate(zip(targets, update.sizes_bytes, strict=True))
    ]
