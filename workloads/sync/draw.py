"""A picture of a forest: for each class that is shown, its reduce-tree and its broadcast-tree side by side."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

from testbed.base.errors import SchemeError
from testbed.topologies.places import HOST, LINK, NODE_PX, SWITCH, box, box_size, line, opening
from testbed.workloads.sync.forest import ABSENT, Forest
from testbed.workloads.sync.messages import Message, of_classes

MOST_CLASSES, MOST_NODES = 9, 400
"""Limits on the classes and the nodes of a picture: more could not be read."""

_MARGIN_PX, _TITLE_PX, _ROW_PX, _SLOT_PX = 16, 46, 54, 58
_NARROWEST_PX, _WIDEST_PX = 220, 1200  # as wide as a tree's title at least
_ARROW_PX = 6


@dataclass(frozen=True)
class _Tree:
    """One tree of one class: its nodes, and their places in slots across and rows down."""

    title: str
    parents: list[int]
    places: dict[int, tuple[float, int]]
    messages: list[Message]

    @property
    def slots(self) -> int:
        """Number of nodes that lie side by side."""
        return 1 + math.floor(max(across for across, _ in self.places.values()))

    @property
    def rows(self) -> int:
        return 1 + max(row for _, row in self.places.values())

    @property
    def width(self) -> int:
        return min(_WIDEST_PX, max(_NARROWEST_PX, _SLOT_PX * self.slots))


def svg(forest: Forest, klass: int | None = None) -> str:
    """Draw a picture of one class, or of all; readable on a light and on a dark background. The forest has been
    verified.

    Raises:
        SchemeError: there is no such class, or the picture would hold too much.
    """
    classes = _chosen(forest, klass)
    trees = [_trees(forest, c) for c in classes]
    heights = [_TITLE_PX + _ROW_PX * max(tree.rows for tree in pair) for pair in trees]
    width = max(sum(tree.width for tree in pair) + _MARGIN_PX * (len(pair) + 1) for pair in trees)
    parts = [opening(width, sum(heights) + _MARGIN_PX, forest.scheme)]
    top = _MARGIN_PX
    for c, pair, height in zip(classes, trees, heights, strict=True):
        title = f"class {c} of {forest.classes}, {forest.share[c] / forest.share.sum():.3g} of the gradient"
        parts.append(_words(_MARGIN_PX, top + 10, title, "600"))
        left = _MARGIN_PX
        for tree in pair:
            parts += _panel(forest, tree, left, top)
            left += tree.width + _MARGIN_PX
        top += height
    return "\n".join([*parts, "</svg>\n"])


def _chosen(forest: Forest, klass: int | None) -> Sequence[int]:
    every = f"0 to {forest.classes - 1}" if forest.classes > 1 else "0"
    if klass is None and forest.classes > MOST_CLASSES:
        raise SchemeError(
            f"{forest.scheme} has {forest.classes} classes; a picture shows at most {MOST_CLASSES}",
            fix=f"choose one with --class, {every}",
        )
    if klass is not None and not 0 <= klass < forest.classes:
        raise SchemeError(f"{forest.scheme} has no class {klass}", fix=f"choose {every}")
    classes = range(forest.classes) if klass is None else [klass]
    nodes = max(np.count_nonzero(trees[c] != ABSENT) for c in classes for trees in (forest.reduce, forest.broadcast))
    if nodes > MOST_NODES:
        raise SchemeError(
            f"{forest.scheme} has trees of {nodes} nodes; a picture shows at most {MOST_NODES}",
            fix="draw it on a smaller network of the same family",
        )
    return classes


def _trees(forest: Forest, c: int) -> list[_Tree]:
    every = list(of_classes(forest, [c]))
    return [
        _Tree(title, parents, _places(parents), [one for one in every if one.what.phase == phase])
        for title, parents, phase in [
            ("reduce: partial sums to the root", forest.reduce[c].tolist(), "up"),
            ("broadcast: the sum from the root", forest.broadcast[c].tolist(), "down"),
        ]
    ]


def _places(parents: Sequence[int]) -> dict[int, tuple[float, int]]:
    """Place leaves side by side in the order of a walk through the tree; every other node above its children."""
    children: dict[int, list[int]] = defaultdict(list)
    for node, parent in enumerate(parents):
        if parent != ABSENT:
            children[parent].append(node)
    walk: list[tuple[int, int]] = []  # (node, row), parents before children
    todo = [(node, 0) for node in children[-1]]
    while todo:
        node, row = todo.pop()
        walk.append((node, row))
        todo += [(child, row + 1) for child in reversed(children[node])]
    leaves = [node for node, _ in walk if not children[node]]
    across: dict[int, float] = {node: float(slot) for slot, node in enumerate(leaves)}
    for node, _ in reversed(walk):
        if children[node]:
            across[node] = sum(across[child] for child in children[node]) / len(children[node])
    return {node: (across[node], row) for node, row in walk}


def _panel(forest: Forest, tree: _Tree, left: float, top: float) -> list[str]:
    """Draw one tree below its title: edges first, so that nodes lie on them."""
    slot_px = tree.width / tree.slots
    size = box_size(max(len(forest.nodes[node]) for node in tree.places), 0.86 * slot_px)
    at = {
        node: (left + (across + 0.5) * slot_px, top + _TITLE_PX + row * _ROW_PX)
        for node, (across, row) in tree.places.items()
    }
    parts = [_words(left, top + 27, tree.title, "400")]
    names = forest.nodes
    parts += [_edge(at[one.src], at[one.dst], f"{names[one.src]} → {names[one.dst]}") for one in tree.messages]
    for node, (x, y) in at.items():
        is_worker = node in forest.workers
        what = "worker" if is_worker else "without a gradient of its own"
        is_root = tree.parents[node] < 0
        tip = f"{forest.nodes[node]}: {what}{', root' if is_root else ''}"
        parts.append(box(x, y, size, forest.nodes[node], tip, HOST if is_worker else SWITCH, is_worker))
    return parts


def _edge(sender: tuple[float, float], receiver: tuple[float, float], tip: str) -> str:
    """Draw an edge from the box of one node to the box of the other, with an arrow's head where the chunk goes."""
    side = math.copysign(NODE_PX / 2, receiver[1] - sender[1])
    start, end = (sender[0], sender[1] + side), (receiver[0], receiver[1] - side)
    length = math.hypot(end[0] - start[0], end[1] - start[1])
    along = ((end[0] - start[0]) / length * _ARROW_PX, (end[1] - start[1]) / length * _ARROW_PX)
    back = (end[0] - along[0], end[1] - along[1])
    corners = [end, (back[0] - along[1] / 2, back[1] + along[0] / 2), (back[0] + along[1] / 2, back[1] - along[0] / 2)]
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in corners)
    return line(*start, *end, LINK, 1.4, tip) + f'<polygon points="{points}" fill="{LINK}"/>'


def _words(x: float, y: float, words: str, weight: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" fill="currentColor" font-weight="{weight}">{escape(words)}</text>'
