"""Tables that have no room for every cell: each arm keeps a row as long as there is room, and the rest is counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, TypeVar

from testbed.base.listing import counted

MOST_ROWS = 24
"""The most rows of a table with a row for each arm at each setting."""
CSV = "the CSV of the HTML report"
"""Where sentences say that all rows of a question are. Markdown has the same sentences, and no CSV of its own."""
T = TypeVar("T")
_LABEL = attrgetter("label")


def of_pair(pair: tuple[Any, ...]) -> str:
    """The label of what is told with a cell: the cell is the first of them."""
    return str(pair[0].label)


def chosen(every: Sequence[T], label_of: Callable[[T], str] = _LABEL, most: int = MOST_ROWS) -> list[T]:
    """Choose as many as there is room for, in their order: the first of each arm, then the second of each, and so
    on."""
    seen: Counter[str] = Counter()
    turns = []
    for place, item in enumerate(every):
        turns.append((seen[label_of(item)], place))
        seen[label_of(item)] += 1
    return [every[place] for place in sorted(place for _, place in sorted(turns)[:most])]


def rest(
    every: Sequence[T], label_of: Callable[[T], str] = _LABEL, most: int = MOST_ROWS, where: str = CSV
) -> tuple[str, ...]:
    """The sentence that says how many rows, and which arms, the table is without, and where they are; none where it has
    all."""
    shown = chosen(every, label_of, most)
    if len(shown) == len(every):
        return ()
    arms = without(every, label_of, most) or ", at least one of each arm"
    return (f"The table has {len(shown):,} of {len(every):,} rows{arms}. All are in {where}.",)


def without(every: Sequence[T], label_of: Callable[[T], str] = _LABEL, most: int = MOST_ROWS) -> str:
    """The end of a sentence that says how many arms have no row; empty if each has one."""
    count = len(set(map(label_of, every)) - set(map(label_of, chosen(every, label_of, most))))
    return f"; {counted(count, 'more arm')} {'has' if count == 1 else 'have'} none" if count else ""
