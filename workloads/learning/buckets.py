"""Buckets of layers whose gradients leave together: one bucket, a bucket a layer, or layers fused until they have some
size.

Fusing follows PyTorch DDP (Li et al. 2020, sections 3.2.3 and 4.2; ``compute_bucket_assignment_by_size`` in its
reducer.cpp): layers join a bucket in the order of the backward pass until it has reached its size, and the first bucket
is smaller, so that something is on the wire early.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

FIRST_BUCKET_BYTES = 2**20
"""DDP's ``_DEFAULT_FIRST_BUCKET_BYTES``."""


@dataclass(frozen=True)
class Gradient:
    """The gradient that is synchronised in an iteration.

    Attributes:
        tensors: floats of each tensor that has any, in gradient order.
        layers: by bucket, the numbers of its layers, counted in the order of the backward pass.
        buckets: spans (start, stop) in floats, in the order in which they become ready; they cover the gradient once.
    """

    tensors: tuple[int, ...]
    layers: tuple[range, ...]
    buckets: tuple[tuple[int, int], ...]

    @property
    def floats(self) -> int:
        """Length of the gradient."""
        return sum(self.tensors)


def gradient(layers: Sequence[Sequence[int]], scale: float, layered: bool, bucket_bytes: int | None) -> Gradient:
    """Describe the gradient of a model whose ``layers`` (in the order of the backward pass) have tensors of these many
    floats.

    ``scale`` divides the floats: each tensor begins and ends where its original does, divided and rounded, so small
    ones may have none left. ``bucket_bytes`` are those of the original, so that the same layers are fused at any scale.
    """
    edges, total = [0], 0
    tensors = []
    for layer in layers:
        for floats in layer:
            begin, total = round(total / scale), total + floats
            tensors.append(round(total / scale) - begin)
        edges.append(round(total / scale))
    sizes = [4 * sum(layer) for layer in layers]
    groups = fuse(sizes, edges, bucket_bytes) if layered else (range(len(layers)),)
    spans = tuple((edges[group.start], edges[group.stop]) for group in groups)
    return Gradient(tuple(floats for floats in tensors if floats), groups, spans)


def fuse(sizes: Sequence[int], edges: Sequence[int], bucket_bytes: int | None) -> tuple[range, ...]:
    """Return the layers of each bucket: ``sizes`` are their bytes, and layer i is floats ``edges[i]`` to ``edges[i +
    1]``.

    Without ``bucket_bytes`` a layer is a bucket. One that has no float left waits for the next one that has.
    """
    limit = 0 if bucket_bytes is None else min(FIRST_BUCKET_BYTES, bucket_bytes)
    groups: list[range] = []
    first = 0
    for i in range(len(sizes)):
        if edges[i + 1] > edges[first] and sum(sizes[first : i + 1]) >= limit:
            groups.append(range(first, i + 1))
            first, limit = i + 1, bucket_bytes or 0
    if first < len(sizes):
        begin = first if edges[-1] > edges[first] or not groups else groups.pop().start
        groups.append(range(begin, len(sizes)))
    return tuple(groups)


def shares(macs: Sequence[int], groups: Sequence[range]) -> tuple[float, ...]:
    """Return each bucket's share of the computing; ``macs`` are by layer, ``groups`` the layers of each bucket."""
    whole = sum(macs)
    return tuple(sum(macs[layer] for layer in group) / whole for group in groups)
