"""Keys: pieces of a gradient, each of which belongs to one core (PHub thesis, sections 3.2.3 and 3.2.4).

Each tensor is a layer here, as in MXNet's key-value store. A layer is cut at the size of a key, so that a large one is
spread over all NICs and cores. Keys go to boxes, then those of a box to its NICs, then those of a NIC to its cores.
Each time the largest comes first, and goes where there is least so far.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from testbed.workloads.learning.parts import Span, spans
from testbed.workloads.longest_first import longest_first

FLOAT_BYTES = 4


@dataclass(frozen=True)
class Key:
    """A piece of the gradient.

    Attributes:
        layer: number of its layer, in gradient order.
        span: its place in the gradient, in floats.
    """

    layer: int
    span: Span

    @property
    def floats(self) -> int:
        return self.span[1] - self.span[0]


@dataclass(frozen=True, order=True)
class Place:
    """The place of a core: number of its box, of its NIC there, and its own at that NIC."""

    box: int
    nic: int
    core: int


def cut(tensor_sizes: Sequence[int], key_bytes: int, nics: int) -> list[Key]:
    """Cut each layer into keys of ``key_bytes``, and one of the rest. With 0, the whole gradient is one layer, of a key
    for each of ``nics``; tensor sizes are in floats."""
    edges = [0, *accumulate(tensor_sizes)]
    if key_bytes == 0:
        return [Key(0, span) for span in spans(edges[-1], nics) if span[0] < span[1]]
    floats = key_bytes // FLOAT_BYTES
    return [
        Key(layer, (begin, min(begin + floats, stop)))
        for layer, (start, stop) in enumerate(pairwise(edges))
        for begin in range(start, stop, floats)
    ]


def spread(keys: Sequence[Key], counts: tuple[int, int, int]) -> list[tuple[int, ...]]:
    """Return the place of each key by level; ``counts`` are those of its parts, such as the boxes, the NICs of each
    box, and the cores of each NIC."""
    at: list[tuple[int, ...]] = [()] * len(keys)
    for count in counts:
        groups: dict[tuple[int, ...], list[int]] = defaultdict(list)
        for number, place in enumerate(at):
            groups[place].append(number)
        for place, numbers in groups.items():
            bins = longest_first([keys[number].floats for number in numbers], count).tolist()
            for number, chosen in zip(numbers, bins, strict=True):
                at[number] = (*place, chosen)
    return at
