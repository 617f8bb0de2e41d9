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

from testbed.workloads.sync.forest import Forest, Parents, depths

Steps = NDArray[np.int64]


def steps(forest: Forest, node: int) -> tuple[Steps, Steps]:
    """Return int64[C] each: the step in which ``node`` passes a class's partial sum up, and its sum down."""
    up, down = all_steps(forest)
    return up[:, node], down[:, node]


def idle_steps(forest: Forest) -> int:
    """Count the steps in which a node sends nothing, at the node that sends in the fewest: its links wait until the
    first chunks have come as far as to it, and rest after its last ones have gone.

    A chunk at a time, such a synchronisation takes so many chunks' time longer than the bytes on its links. Where each
    node is a leaf of some class and the root of another, as in a ring, no link ever waits.
    """
    up, down = all_steps(forest)
    sends_up = forest.reduce >= 0
    classes, _ = np.nonzero(forest.broadcast >= 0)
    sends_down = np.zeros_like(sends_up)
    sends_down[classes, forest.broadcast[forest.broadcast >= 0]] = True
    every, counts = set[int](), []
    for node in range(len(forest.nodes)):  # not the steps of all nodes at a time: they take 150 MB with 1,024
        sent = {*up[sends_up[:, node], node].tolist(), *down[sends_down[:, node], node].tolist()}
        every |= sent
        if sent:
            counts.append(len(sent))
    return len(every) - min(counts, default=0)


def are_even(forest: Forest) -> bool:
    """Whether all nodes that send anything send the same amount in every step, as in a ring."""
    up, down = all_steps(forest)
    sent = np.zeros((len(forest.nodes), 1 + max(up.max(), down.max())), np.int64)
    for trees, step in ((forest.reduce, up), (forest.broadcast, down)):
        classes, inner = np.nonzero(trees >= 0)
        senders = inner if trees is forest.reduce else trees[classes, inner]
        np.add.at(sent, (senders, step[classes, senders]), forest.share[classes])
    some = sent[sent.any(axis=1)][:, sent.any(axis=0)]
    return bool((some == some.flat[0]).all()) if some.size else True


def all_steps(forest: Forest) -> tuple[Steps, Steps]:
    """Return int64[C, V] each: what :func:`steps` returns, of all nodes."""
    height = _height(forest.reduce)
    return height, height.max(axis=1, keepdims=True) + depths(forest.broadcast)


def _height(trees: Parents) -> Steps:
    """Return int64[C, V]: edges from each node down to its deepest leaf."""
    height, depth = np.zeros(trees.shape, np.int64), depths(trees)
    classes, inner = np.nonzero(trees >= 0)
    order = np.argsort(-depth[classes, inner], kind="stable")
    classes, inner = classes[order], inner[order]
    ends = np.flatnonzero(np.diff(depth[classes, inner])) + 1
    for some, nodes in zip(np.split(classes, ends), np.split(inner, ends), strict=True):  # the deepest ones first
        np.maximum.at(height, (some, trees[some, nodes]), height[some, nodes] + 1)
    return height


class Jitter:
    """Jitter: when a node may begin each step of one synchronisation after the other.

    ``sigma_s`` is the standard deviation of the normal distribution whose positive half is added.
    """

    def __init__(self, forest: Forest, node: int, sigma_s: float, seed: tuple[int, ...]) -> None:
        self._up, self._down = (found.tolist() for found in steps(forest, node))
        self._sigma_s = sigma_s
        self._random = np.random.default_rng(seed)
        self._due_s: dict[int, float] = {}
        self._latest_s = 0.0

    def begin(self) -> None:
        """Begin another synchronisation."""
        self._due_s.clear()

    def due_s(self, klass: int, *, is_sum: bool) -> float:
        """Return the time (``time.monotonic``) from which a message of a class, which could leave now, may leave."""
        step = self._down[klass] if is_sum else self._up[klass]
        if step not in self._due_s:
            delay_s = max(0.0, self._random.normal(0.0, self._sigma_s))
            self._latest_s = self._due_s[step] = max(time.monotonic(), self._latest_s) + delay_s
        return self._due_s[step]
