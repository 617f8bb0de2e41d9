"""Places of each operator's weights: in the flat buffers whose layout servers share, and in the files that they
save."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from testbed.workloads.learning.parts import Span
from testbed.workloads.parallel.operators import FLOAT_BYTES, Model
from testbed.workloads.parallel.strategy import Holders, Strategy, gradients

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Layout:
    """Places of operators in a buffer of all weights, in which each AllReduce group has one span.

    It is the same on all servers, so that a span means the same to all members of a group. A server touches only what
    it holds; the kernel gives no memory for the rest.

    Attributes:
        operators: by place in the model; within it, tensors as the operator declares them.
        groups: by members, the groups of two or more, which come first. Within one, the model's last operator comes
            first, for its gradient is ready first.
    """

    operators: tuple[Span, ...]
    groups: Mapping[Holders, Span]

    @property
    def floats(self) -> int:
        """Floats of all weights."""
        return max(stop for _, stop in self.operators)


def floats(model: Model) -> list[int]:
    """Count the weights of each operator."""
    return [operator.weight_bytes // FLOAT_BYTES for operator in model.operators]


def layout(model: Model, strategy: Strategy) -> Layout:
    """Lay out the groups in the order of their last operators, then the operators that single servers hold."""
    sizes, order = floats(model), range(len(model.operators))[::-1]
    summed = gradients(model, strategy)
    spans: dict[int, Span] = {}
    groups: dict[Holders, Span] = {}
    at = 0
    for members in dict.fromkeys(strategy.holders[place] for place in order):
        if members in summed:
            begin = at
            at = _lay(spans, [place for place in order if strategy.holders[place] == members], sizes, at)
            groups[members] = (begin, at)
    _lay(spans, [place for place in order if place not in spans], sizes, at)
    return Layout(tuple(spans[place] for place in order[::-1]), groups)


def _lay(spans: dict[int, Span], places: Sequence[int], sizes: Sequence[int], at: int) -> int:
    for place in places:
        spans[place] = (at, at + sizes[place])
        at += sizes[place]
    return at


def saved(strategy: Strategy, server: int, where: Layout, weights: Floats) -> Floats:
    """Return float32[weights that a server holds], operator by operator, from its flat buffer."""
    held = [span for span, holders in zip(where.operators, strategy.holders, strict=True) if server in holders]
    return np.concatenate([weights[start:stop] for start, stop in held] or [weights[:0]])


def held_floats(model: Model, strategy: Strategy, server: int) -> int:
    """Count the weights that a server saves."""
    return sum(size for size, holders in zip(floats(model), strategy.holders, strict=True) if server in holders)


@dataclass(frozen=True, eq=False)
class Collected:
    """Weights that all servers have saved, put together.

    Attributes:
        weights: float32[parameters] in gradient order, as those of
            :class:`testbed.workloads.learning.training.Replica`.
        differing: operator and two holders whose replicas are not the same bits. Each is compared with the first.
    """

    weights: Floats
    differing: tuple[tuple[str, int, int], ...]


def collected(model: Model, strategy: Strategy, files: Sequence[Floats]) -> Collected:
    """Put together all weights; ``files`` are what each server has :func:`saved`.

    Raises:
        ValueError: a server has saved more or fewer weights than it holds.
    """
    sizes, parts, differing = floats(model), dict[int, Floats](), []
    for server, file in enumerate(files):
        held = [place for place, holders in enumerate(strategy.holders) if server in holders]
        ends = np.cumsum([sizes[place] for place in held], dtype=np.int64)
        if len(file) != held_floats(model, strategy, server):
            raise ValueError(f"server {server} saved {len(file)} weights, and holds {ends[-1:].sum()}")
        for place, part in zip(held, np.split(file, ends[:-1]), strict=False):
            first = parts.setdefault(place, part)
            if first.tobytes() != part.tobytes():
                differing.append((model.operators[place].name, strategy.holders[place][0], server))
    whole = np.concatenate([parts[place] for place in reversed(range(len(sizes)))])
    return Collected(whole, tuple(differing))
