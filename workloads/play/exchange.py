"""A collective along trees in simulated time: the engine's decisions at all nodes (:class:`.messages.Play`), on wires.

A node takes what comes when it has asked for the collective itself. Of a large one, only the first message to a node
leaves before the sender has heard that this node has asked, as in :mod:`testbed.workloads.kinds.script.engine.carrier`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from testbed.topologies.model import Topology
from testbed.workloads.play.changes import Planned
from testbed.workloads.play.fluid import Fluid
from testbed.workloads.play.wires import Wires
from testbed.workloads.sync.chunks import ChunkTable
from testbed.workloads.sync.flows import neighbours
from testbed.workloads.sync.forest import Forest
from testbed.workloads.sync.messages import Message, Play, messages


class Moved(NamedTuple):
    """The trees and the chunks of a collective.

    Attributes:
        is_eager: whether all of it may leave before the receiver has asked for it.
        early_bytes: the largest first message to a node that may leave then, otherwise.
    """

    forest: Forest
    chunks: ChunkTable
    is_eager: bool
    early_bytes: int = 0


class Exchange:
    """One such collective on its way.

    Args:
        came: called with a node when its first message has come.
        ended: called with a node when it has all that it is to have, and all that it sends has left.
        sent: called with each message that joins those of its connection.
    """

    def __init__(
        self,
        moved: Moved,
        wires: Wires,
        came: Callable[[int], None],
        ended: Callable[[int], None],
        sent: Callable[[Message], None] = lambda _: None,
    ) -> None:
        self._forest, self._is_eager, self._wires = moved.forest, moved.is_eager, wires
        self._early_bytes = moved.early_bytes
        self._early: set[tuple[int, int]] = set()
        self._came, self._ended, self._sent = came, ended, sent
        self._play = Play(moved.forest, moved.chunks)
        self._missing = self._play.incoming()
        self._unsent: Counter[int] = Counter()
        self._begun = set(range(len(moved.forest.nodes))) - set(moved.forest.workers)
        self._held: dict[int, list[Message]] = defaultdict(list)
        self._heard: set[tuple[int, int]] = set()
        self._parked: dict[tuple[int, int], list[Message]] = defaultdict(list)
        self._has_come: set[int] = set()

    def begin(self, node: int) -> None:
        """Let a node ask for it."""
        self._begun.add(node)
        if not self._is_eager:
            for other in neighbours(self._forest, node):
                self._wires.at(self._wires.now_s + self._wires.delay_s(node, other), partial(self._hear, other, node))
        self._play.begin(node)
        for message in self._held.pop(node, ()):
            self._take(message)
        self._send(node)

    def _hear(self, node: int, other: int) -> None:
        """Note that a node has heard that another one has asked."""
        self._heard.add((node, other))
        for message in self._parked.pop((node, other), ()):
            self._leave(message)

    def _arrived(self, message: Message) -> None:
        if message.dst not in self._begun:
            self._held[message.dst].append(message)
            return
        if message.dst not in self._has_come:
            self._has_come.add(message.dst)
            self._came(message.dst)
        self._take(message)
        self._send(message.dst)

    def _take(self, message: Message) -> None:
        self._play.arrived(message)
        self._missing[message.dst] -= 1

    def _send(self, node: int) -> None:
        while (message := self._play.next_message(node)) is not None:
            self._unsent[node] += 1
            way = node, message.dst
            if self._is_eager or message.dst not in self._forest.workers or way in self._heard:
                self._leave(message)
            elif way not in self._early and message.bytes <= self._early_bytes:
                self._early.add(way)
                self._leave(message)
            else:
                self._parked[way].append(message)
        self._look(node)

    def _leave(self, message: Message) -> None:
        self._sent(message)
        left, came = partial(self._left, message.src), partial(self._arrived, message)
        self._wires.send(message.src, message.dst, message.bytes, left, came)

    def _left(self, node: int) -> None:
        self._unsent[node] -= 1
        self._look(node)

    def _look(self, node: int) -> None:
        if node in self._begun and not self._missing[node] and not self._unsent[node]:
            self._missing[node] = -1  # once
            self._ended(node)


def in_order(forest: Forest, chunks: ChunkTable, topology: Topology) -> list[Message]:
    """List the messages of a synchronisation in the order in which they leave on a network. Between two nodes that have
    several connections there is no such order: then it is that of the simplest network (:func:`.messages.messages`)."""
    if topology.is_parallel:
        return list(messages(forest, chunks))
    wires = Wires(topology, Fluid(np.array(topology.rates_bps)), Planned())
    found: list[Message] = []
    exchange = Exchange(Moved(forest, chunks, is_eager=True), wires, _nothing, _nothing, found.append)
    for worker in forest.workers:
        exchange.begin(worker)
    wires.run()
    return found


def _nothing(node: int) -> None:
    """Do nothing about a node."""
