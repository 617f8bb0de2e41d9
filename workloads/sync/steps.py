"""Steps of a synchronisation, and jitter in them.

A step of a node is the sending of all that depends on equally many transfers before it: a leaf sends in step 0, whoever
adds what leaves sent in step 1, and so on up each reduce-tree and down each broadcast-tree. A ring takes 2(N-1) steps,
a parameter server two, whatever the number of their classes.

With jitter a worker begins each step later than it could, by the positive half of a normal distribution: interference
by other work, interrupts, garbage collection. One step's delay holds up the next one, as in a library whose processes
take a step after the other. Switches have none of that. (Rina section II-C and equation 3.)
"""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import NDArray

from workloads.sync.forest import Forest, Parents

Steps = NDArray[np.int64]


def steps(forest: Forest, node: int) -> tuple[Steps, Steps]:
    """int64[C] each: the step in which ``node`` passes a class's partial sum up, and its sum down."""
    height = _height(forest.reduce)
    root = height.max(axis=1)
    return height[:, node], root + _depth(forest.broadcast, node)


def idle_steps(forest: Forest) -> int:
    """Steps in which a node sends nothing, at the node that sends in the fewest: its links wait until the first chunks
    have come as far as to it, and rest after its last ones have gone.

    A chunk at a time, such a synchronisation takes so many chunks' time longer than the bytes on its links. Where each
    node is a leaf of some class and the root of another, as in a ring, no link ever waits.
    """
    sent: dict[int, set[int]] = {}
    for node in range(len(forest.nodes)):
        up, down = steps(forest, node)
        sends = set(up[forest.reduce[:, node] >= 0].tolist())
        sends |= set(down[(forest.broadcast == node).any(axis=1)].tolist())
        if sends:
            sent[node] = sends
    if not sent:
        return 0
    return len(set.union(*sent.values())) - min(map(len, sent.values()))


def _height(trees: Parents) -> Steps:
    """int64[C, V]: edges from each node down to its deepest leaf."""
    height = np.zeros(trees.shape, np.int64)
    for c, parents in enumerate(trees):
        for _ in range(trees.shape[1]):
            inner = np.flatnonzero(parents >= 0)
            before = height[c].copy()
            np.maximum.at(height[c], parents[inner], height[c][inner] + 1)
            if (before == height[c]).all():
                break
    return height


def _depth(trees: Parents, node: int) -> Steps:
    """int64[C]: edges from each tree's root to ``node``."""
    depth = np.zeros(len(trees), np.int64)
    at = np.full(len(trees), node)
    while True:
        parents = trees[np.arange(len(trees)), at]
        inner = parents >= 0
        if not inner.any():
            return depth
        depth += inner
        at = np.where(inner, parents, at)


class Jitter:
    """When a node may begin each step of one synchronisation after the other.

    ``sigma_s`` is the standard deviation of the normal distribution whose positive half is added.
    """

    def __init__(self, forest: Forest, node: int, sigma_s: float, seed: tuple[int, ...]) -> None:
        self._up, self._down = (found.tolist() for found in steps(forest, node))
        self._sigma_s = sigma_s
        self._random = np.random.default_rng(seed)
        self._due_s: dict[int, float] = {}
        self._latest_s = 0.0

    def begin(self) -> None:
        """Another synchronisation."""
        self._due_s.clear()

    def due_s(self, klass: int, *, is_sum: bool) -> float:
        """The time (``time.monotonic``) from which a message of a class, which could leave now, may leave."""
        step = self._down[klass] if is_sum else self._up[klass]
        if step not in self._due_s:
            delay_s = max(0.0, self._random.normal(0.0, self._sigma_s))
            self._latest_s = self._due_s[step] = max(time.monotonic(), self._latest_s) + delay_s
        return self._due_s[step]
