"""The order of an experiment's trials, and how they are shared out among machines.

Every cell runs once in each round. Cells that are compared with each other form a block and run one after the other. A
round runs in the reverse order of the one before, so that whatever drifts evenly on the machine weighs on every cell
alike (ABBA); and after each such pair every block begins with its next cell, so that none is always first or always in
the middle.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import TypeVar

from testbed.analysis.cell import Comparable, are_compared
from testbed.base.errors import UsageError
from testbed.base.listing import counted

_C = TypeVar("_C", bound=Comparable)
Block = tuple[_C, ...]


def blocks(cells: Sequence[_C]) -> list[Block[_C]]:
    """Cells that belong together, in the order given: those of one batch that are compared
    (:func:`testbed.analysis.cell.are_compared`), or are so with the same others."""
    common = set.intersection(*(set(cell.point) for cell in cells)) if cells else set()
    places: dict[tuple[object, ...], list[list[int]]] = {}
    for index, cell in enumerate(cells):
        here = places.setdefault((cell.batch, *(cell.point[name] for name in sorted(common))), [])
        fitting = [block for block in here if any(are_compared(cells[other], cell) for other in block)]
        here[:] = [block for block in here if block not in fitting] + [sorted([*chain(*fitting), index])]
    found = sorted(block for here in places.values() for block in here)
    return [tuple(cells[index] for index in block) for block in found]


def in_order(blocks: Sequence[Block[_C]], number: int) -> list[_C]:
    """The cells in the order in which round ``number`` (from 0) runs them."""
    turns = number // 2
    turned = [block[turns % len(block) :] + block[: turns % len(block)] for block in blocks]
    forward = list(chain.from_iterable(turned))
    return forward[::-1] if number % 2 else forward


def part(blocks: Sequence[Block[_C]], seconds: Sequence[float], number: int, count: int) -> list[Block[_C]]:
    """Choose the blocks that are part ``number`` (from 1) of ``count``; whole ones, so that what is compared runs on
    one machine.

    The longest block goes first, each to the part that has least to do, so the same spec is shared out alike
    everywhere.

    Args:
        seconds: how long a round of each block takes.

    Raises:
        UsageError: there are fewer blocks than parts.
    """
    if len(blocks) < count:
        raise UsageError(
            f"--part {number}/{count}: trials that are compared with each other stay on one machine, and this "
            f"experiment has only {len(blocks)} such group{'s' * (len(blocks) > 1)}",
            fix=f"make at most {counted(len(blocks), 'part')}" if len(blocks) > 1 else "leave --part out",
        )
    loads = [(0.0, 0, one) for one in range(count)]  # seconds, blocks, part
    mine = []
    for index in sorted(range(len(blocks)), key=lambda index: (-seconds[index], index)):
        load = min(loads)
        loads[load[2]] = (load[0] + seconds[index], load[1] + 1, load[2])
        if load[2] == number - 1:
            mine.append(index)
    return [blocks[index] for index in sorted(mine)]
