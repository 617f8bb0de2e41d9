"""Cells of an experiment: an arm at a point of the sweep with a batch size, which is run ``repeats`` times.

A point is what each swept field was, such as ``{"links.rate": 100000000, "topology.hosts": 4}``. An arm has no value of
a field that only others sweep, so two points belong together where the fields that both have agree.

Which cells belong together is said here, for the order of trials (:mod:`testbed.experiment.order`), the table that a
run ends with (:mod:`testbed.comparison.closing_table`), the report, and ``testbed compare --arms``.
:mod:`testbed.analysis.numbers.ratios` says what the ratio of two of them is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias, TypeVar

Point = Mapping[str, Any]
_T = TypeVar("_T")
Repeat: TypeAlias = tuple[int, bool, _T]
"""A trial's repeat, whether it is VALID, and what is wanted of it."""


@dataclass(frozen=True, order=True)
class Cell:
    """Name of a cell, the same in a spec's trials, their records, runs and baselines; values of points as text."""

    label: str
    batch: int
    point: tuple[tuple[str, str], ...] = ()
    at: str = field(default="", compare=False)
    """The point for people; the same value may be written in several ways."""

    @classmethod
    def of(cls, label: str, batch: int, point: Point | None, at: str = "") -> Cell:
        """The cell of a trial with these settings; a plain run has no points."""
        values = sorted((str(name), str(value)) for name, value in (point or {}).items())
        return cls(label, batch, tuple(values), at)

    def __str__(self) -> str:
        batch = f"batch {self.batch}" if self.batch else ""
        return ", ".join(word for word in (self.label, batch, self.where) if word)

    @property
    def where(self) -> str:
        """The point as text; nothing in a plain run."""
        return self.at or ", ".join(f"{name}={value}" for name, value in self.point)


def cell_of(record: Mapping[str, Any]) -> Cell:
    """Return the cell of a trial's record (its JSON)."""
    return Cell.of(record["label"], record["batch"], record.get("point"), record.get("at", ""))


class Comparable(Protocol):
    """Facts of a cell that are needed to say which others belong to it."""

    @property
    def label(self) -> str: ...
    @property
    def batch(self) -> int: ...
    @property
    def point(self) -> Point: ...


@dataclass(frozen=True)
class References:
    """Cells that ratios are relative to: those of the spec's first arm. ``own`` is the point at which it stands, in
    what it alone sweeps; ``of`` has for each cell, by its place in the sequence given, the place of its reference, None
    without."""

    own: Point
    of: tuple[int | None, ...]


def agree(point: Point, other: Point) -> bool:
    """Whether every field that both have has the same value in both."""
    return all(point[name] == other[name] for name in point.keys() & other.keys())


def are_compared(cell: Comparable, other: Comparable) -> bool:
    """Whether they are of different arms at the same point, of which one of them may know more."""
    related = cell.point.keys() <= other.point.keys() or other.point.keys() <= cell.point.keys()
    return cell.label != other.label and related and agree(cell.point, other.point)


def partner(point: Point, others: Iterable[tuple[Point, _T]]) -> _T | None:
    """Choose the one of others, given with their points, that agrees with ``point``; None where none does, or points
    that differ do."""
    found = [(there, other) for there, other in others if agree(point, there)]
    return found[0][1] if found and all(there == found[0][0] for there, _ in found) else None


def pairs(base: Iterable[Repeat[_T]], new: Iterable[Repeat[_T]]) -> list[tuple[_T, _T]]:
    """Two cells' trials repeat by repeat, as they ran one after the other, of those that each one's numbers are from.

    Where only one of them has a VALID trial there are none: a ratio is as good as the worse of its sides, and the one
    that is not VALID is marked in another row.
    """
    (base_valid, before), (new_valid, after) = counted(base), counted(new)
    if base_valid != new_valid:
        return []
    return [(before[repeat], one) for repeat, one in after.items() if repeat in before]


def counted(trials: Iterable[Repeat[_T]]) -> tuple[bool, dict[int, _T]]:
    """Whether any is VALID, and by repeat the ones that a cell's numbers are from: the VALID ones, or, without any,
    all."""
    every = list(trials)
    valid = {repeat: one for repeat, is_valid, one in every if is_valid}
    return bool(valid), valid or {repeat: one for repeat, _, one in every}


def references(cells: Sequence[Comparable], first: str) -> References:
    """Find for each cell the one of the arm ``first`` that has the same batch and agrees with it.

    Where that arm sweeps fields that no other does, it is several arms in one: the one with the least values is the
    reference, of the rest of them, too. A cell for which points that differ would do has none.
    """
    ours = [i for i, cell in enumerate(cells) if cell.label == first]
    theirs = {name for cell in cells if cell.label != first for name in cell.point}
    alone = {name for i in ours for name in cells[i].point} - theirs if len(ours) < len(cells) else set()
    apart = [_split(cell.point, alone) for cell in cells]
    own = min((apart[i][0] for i in ours), key=_order, default={})
    candidates: dict[int, list[tuple[Point, int]]] = {}
    for i in ours:
        if apart[i][0] == own:
            candidates.setdefault(cells[i].batch, []).append((apart[i][1], i))
    found = (partner(rest, candidates.get(cell.batch, ())) for cell, (_, rest) in zip(cells, apart, strict=True))
    return References(own, tuple(found))


def _split(point: Point, names: Collection[str]) -> tuple[Point, Point]:
    """The part of a point that has these names, and the rest."""
    there = {name: value for name, value in point.items() if name in names}
    return there, {name: value for name, value in point.items() if name not in names}


def _order(point: Point) -> list[tuple[bool, float, str]]:
    """Points of the same fields from the least values on; what is no number comes after those, by its text."""
    return [
        (False, value, "") if isinstance(value, int | float) else (True, 0.0, str(value)) for value in point.values()
    ]
