"""Trials by what they have in common: a cell is one arm at one setting, with its repeats.

A setting is a batch and a point of the sweep, if there is one. What is drawn side by side has the same setting but for
one numeric part of it, the axis.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property
from math import inf, isfinite
from typing import Any, NamedTuple

from testbed.analysis.numbers import ratios, repeats, statistics
from testbed.analysis.numbers.repeats import JCT
from testbed.analysis.numbers.statistics import Interval
from testbed.analysis.recorded import Place, Run, Setting, Trial
from testbed.base.errors import SpecError
from testbed.base.listing import counted, shortened
from testbed.base.units import RATE, SIZE, TIME, Unit, rate_bps, rate_text, size_bytes, time_s

BATCH = "batch"
_QUANTITIES: tuple[tuple[Unit, Callable[[object], float]], ...] = ((RATE, rate_bps), (TIME, time_s), (SIZE, size_bytes))
LEAST_BATCHES = 3
"""From so many batch sizes on they are an axis; two stand beside each other."""


class Network(NamedTuple):
    """The network that a cell ran on: cells that differ in it are not ranked against each other. ``rates_bps`` are
    the different rates of its links, as far as they were recorded."""

    topology: str
    rates_bps: tuple[int, ...]
    workers: int

    @property
    def rates_text(self) -> str:
        return shortened([rate_text(rate_bps) for rate_bps in self.rates_bps], 2)


@dataclass(frozen=True)
class MeasuredCell:
    """One arm at one setting: its repeats, finished or not."""

    label: str
    setting: Setting
    trials: tuple[Trial, ...]

    @property
    def place(self) -> Place:
        return self.label, self.setting

    @property
    def batch(self) -> int:
        return self.setting[0]

    @cached_property
    def point(self) -> dict[str, str]:
        """Point of a sweep, as text."""
        return {key: as_text(json.loads(value)) for key, value in self.setting[1]}

    @property
    def swept_rate(self) -> str:
        """The links' rate as a sweep of rates has it, before it is scaled; empty without such a sweep."""
        return next((value for key, value in self.point.items() if f".{key}".endswith(".rate")), "")

    @cached_property
    def finished(self) -> tuple[Trial, ...]:
        return repeats.finished(self.trials)

    def valid_in(self, number: str) -> bool:
        """Whether one of its numbers can be believed: it is VALID in a trial."""
        return any(trial.valid_in(number) for trial in self.finished)

    def doubt_in(self, number: str) -> str:
        """Why it is not VALID in that number (:func:`testbed.analysis.numbers.repeats.doubt`); empty where it is."""
        return repeats.doubt(self.trials, number)

    def counted(self, number: str) -> tuple[Trial, ...]:
        """The trials that a number is from (:func:`testbed.analysis.numbers.repeats.counted`)."""
        return repeats.counted(self.trials, number)

    def error(self, number: str) -> float | None:
        """Return the largest share by which any of these trials can be off in a number; None where that is not
        known."""
        return repeats.error(self.trials, number)

    @property
    def typical(self) -> Trial | None:
        """The trial in the middle by JCT: what is drawn where only one can be."""
        return self.typical_in(JCT)

    def typical_in(self, number: str) -> Trial | None:
        """Return the typical trial of those that a number is from."""
        ordered = sorted(self.counted(number), key=lambda trial: (trial.metrics.jct_s or 0.0, trial.repeat))
        return ordered[(len(ordered) - 1) // 2] if ordered else None

    @property
    def world(self) -> int:
        return self.trials[0].world

    @cached_property
    def network(self) -> Network:
        trial = next((one for one in self.finished if one.links), self.trials[0])
        return Network(trial.topology, tuple(sorted({int(link.rate_bps) for link in trial.links})), self.world)

    @cached_property
    def verdict(self) -> str:
        """Verdict of all numbers (:func:`testbed.analysis.numbers.repeats.verdict`)."""
        return repeats.verdict(self.trials)

    def verdict_in(self, number: str) -> str:
        """Return the verdict of one of the cell's numbers: ``VALID``, ``2 of 3 VALID``, ``INVALID``, ``UNWATCHED``,
        ``FAILED`` or ``not judged``."""
        return repeats.verdict(self.trials, (number,))

    @cached_property
    def numbers(self) -> tuple[ratios.Numbers, ...]:
        """Numbers that ratios of this cell and others are of."""
        return repeats.compared(self.trials)

    @property
    def part(self) -> str:
        """Name of the run that the cell is from, of several side by side."""
        return self.trials[0].part

    def median(self, name: str) -> Interval | None:
        """Return the median of a metric over the repeats, with its interval; None where no trial has it."""
        return interval(repeats.values(self.trials, name))

    def middle(self, name: str) -> float | None:
        """Return the median of a metric over the repeats without its interval."""
        return repeats.middle(self.trials, name)

    def most(self, name: str) -> float | None:
        """The largest of a metric over the repeats; None where no trial has it."""
        return max(repeats.values(self.trials, name), default=None)


@dataclass(frozen=True)
class Axis:
    """A numeric part of the settings, to be drawn along the x axis."""

    key: str
    title: str
    at: Callable[[MeasuredCell], float]


@dataclass(frozen=True)
class Group:
    """Cells that are drawn together, in the arms' order; ``title`` says what they have in common."""

    title: str
    cells: tuple[MeasuredCell, ...]


@dataclass(frozen=True)
class Study:
    """A run as its questions see it: the cells with a finished trial, and how they are drawn together."""

    run: Run
    cells: tuple[MeasuredCell, ...]
    along: Axis | None
    groups: tuple[Group, ...]

    @cached_property
    def settings(self) -> tuple[tuple[MeasuredCell, ...], ...]:
        """The cells of each setting, which are compared with each other."""
        found: dict[Setting, list[MeasuredCell]] = {}
        for cell in self.cells:
            found.setdefault(cell.setting, []).append(cell)
        return tuple(map(tuple, found.values()))

    def having(self, wanted: Callable[[MeasuredCell], object]) -> list[Group]:
        """The groups with those of their cells for which it is true, less groups without any."""
        return _having(self.groups, wanted)

    def settings_having(self, wanted: Callable[[MeasuredCell], object]) -> list[Group]:
        """Return the cells as :meth:`having`, with a group for each setting."""
        return _having([Group(title(cells[0]), cells) for cells in self.settings], wanted)

    def apart(self, cells: Iterable[MeasuredCell]) -> Iterator[MeasuredCell]:
        """Yield the cells of trials that no cell before was of: of jobs that shared a network, the first one's."""
        seen: set[object] = set()
        for cell in cells:
            stored = {trial.stored for trial in cell.trials if trial.job}
            if seen.isdisjoint(stored):
                yield cell
            seen |= stored

    def typical_of_arms(self, wanted: Callable[[Trial], object], number: str = JCT) -> list[tuple[MeasuredCell, Trial]]:
        """The first cell of each arm whose typical trial is ``wanted``, with that trial."""
        found: dict[str, tuple[MeasuredCell, Trial]] = {}
        for cell in self.cells:
            if (trial := cell.typical_in(number)) is not None and wanted(trial):
                found.setdefault(cell.label, (cell, trial))
        return list(found.values())

    def pair(self, cell: MeasuredCell) -> Pair | None:
        """A cell and the first arm's that its ratios are relative to; None of the first arm itself, or without one."""
        first = self._by_place.get(self.run.reference_of(*cell.place))
        return None if first is None or first is cell else Pair(first, cell)

    @cached_property
    def _by_place(self) -> dict[Place | None, MeasuredCell]:
        return {cell.place: cell for cell in self.cells}


def believed(cells: Sequence[MeasuredCell], number: str) -> tuple[tuple[MeasuredCell, ...], tuple[MeasuredCell, ...]]:
    """The cells that a sentence about a number speaks of, and those that it leaves out: the VALID ones, or, if none is,
    all."""
    told = tuple(cell for cell in cells if cell.valid_in(number)) or tuple(cells)
    return told, tuple(cell for cell in cells if cell not in told)


def by_network(cells: Sequence[MeasuredCell], among: Sequence[MeasuredCell] = ()) -> dict[str, list[MeasuredCell]]:
    """Cells of arms that are compared with each other, by the name of their network; by ``""``, all of them, if at each
    setting all are on the same network. Names tell these networks from those of cells ``among`` which they were chosen,
    too."""
    at: dict[Setting, set[Network]] = {}
    for cell in cells:
        at.setdefault(cell.setting, set()).add(cell.network)
    if all(len(networks) == 1 for networks in at.values()):
        return {"": list(cells)} if cells else {}
    named = names_of_networks([*among, *cells])
    found: dict[str, list[MeasuredCell]] = {}
    for cell in cells:
        found.setdefault(named[cell.network], []).append(cell)
    return found


def names_of_networks(cells: Iterable[MeasuredCell]) -> dict[Network, str]:
    """``star(hosts=9) with 9 workers``; with the links' rates where neither this nor the swept rate of a setting tells
    networks apart."""
    alike: dict[tuple[object, ...], dict[Network, None]] = {}
    for cell in cells:
        alike.setdefault((cell.network.topology, cell.network.workers, cell.swept_rate), {})[cell.network] = None
    named: dict[Network, str] = {}
    for networks in alike.values():
        are_told_by_rates = len(networks) > 1
        for one in networks:
            if are_told_by_rates or one not in named:
                named[one] = network_text(one, one.rates_text if are_told_by_rates else "")
    return named


def network_text(network: Network, rates: str = "") -> str:
    """``star(hosts=9) at 50 Mbit/s with 9 workers``."""
    return f"{network.topology}{f' at {rates}' if rates else ''} with {counted(network.workers, 'worker')}"


def _having(groups: Iterable[Group], wanted: Callable[[MeasuredCell], object]) -> list[Group]:
    found = [Group(group.title, tuple(cell for cell in group.cells if wanted(cell))) for group in groups]
    return [group for group in found if group.cells]


def study(run: Run) -> Study:
    """The run's cells in order, and the groups that figures have a panel for."""
    finished = tuple(cell for cell in cells(run) if cell.finished)
    along = axis(run)
    return Study(run, finished, along, tuple(groups(finished, along)))


@dataclass(frozen=True, eq=False)
class Pair:
    """A cell and another one that its ratios are relative to; both have a finished trial."""

    first: MeasuredCell
    cell: MeasuredCell

    @property
    def is_of_one_run(self) -> bool:
        """Whether trials of the same repeat ran one after the other."""
        return self.first.part == self.cell.part

    @property
    def did_alike(self) -> bool:
        """Whether they did the same work (:func:`testbed.analysis.numbers.ratios.did_alike`)."""
        return ratios.did_alike(self.first.numbers, self.cell.numbers)

    @property
    def is_on_one_network(self) -> bool:
        return self.first.network == self.cell.network

    @property
    def has_as_many(self) -> bool:
        """Whether the two had as many workers."""
        return self.first.network.workers == self.cell.network.workers

    @property
    def by(self) -> str:
        """The number that says which of them is faster (:func:`testbed.analysis.numbers.ratios.speed_by`)."""
        return ratios.speed_by(self.first.numbers, self.cell.numbers)

    @property
    def is_by_samples(self) -> bool:
        """Whether the two had other numbers of workers, so that only samples per second can be compared."""
        return self.by == ratios.THROUGHPUT

    def is_valid(self, number: str) -> bool:
        return self.first.valid_in(number) and self.cell.valid_in(number)

    def over(self, number: str) -> Interval | None:
        """A number of the cell over the first one's (:func:`testbed.analysis.numbers.ratios.over`)."""
        return ratios.over(self.first.numbers, self.cell.numbers, number, paired=self.is_of_one_run)

    @cached_property
    def speed_up(self) -> Interval | None:
        """How many times as fast the cell is (:func:`testbed.analysis.numbers.ratios.speed_up`)."""
        return ratios.speed_up(self.first.numbers, self.cell.numbers, paired=self.is_of_one_run)


def interval(values: Iterable[float]) -> Interval | None:
    """The median with its interval; None where there are no values."""
    known = tuple(values)
    return statistics.median(known) if known else None


def is_known(found: Interval | None) -> bool:
    """Whether there is more than one sample behind it."""
    return found is not None and found.high < float("inf")


def cells(run: Run) -> tuple[MeasuredCell, ...]:
    """Every arm at every setting that has a trial, by setting, then in the arms' order."""
    found: dict[tuple[Setting, str], list[Trial]] = {}
    for trial in run.trials:
        found.setdefault((trial.setting, trial.label), []).append(trial)
    rank = {setting: i for i, setting in enumerate(_ordered({setting for setting, _ in found}))}
    place = {label: i for i, label in enumerate(run.labels)}
    keys = sorted(found, key=lambda key: (rank[key[0]], place[key[1]]))
    return tuple(MeasuredCell(label, setting, tuple(found[setting, label])) for setting, label in keys)


def axis(run: Run) -> Axis | None:
    """Choose what to draw along x: of a sweep's numeric settings the one with the most values, else batches if there
    are many.

    None where arms are compared at one setting after another.
    """
    swept: dict[str, list[str]] = {}
    for setting in {trial.setting for trial in run.trials}:
        for key, value in setting[1]:
            swept.setdefault(key, []).append(value)
    scales = {key: (len(set(values)), _scale(set(values))) for key, values in sorted(swept.items())}
    usable = [(count, key, scale) for key, (count, scale) in scales.items() if scale is not None and count > 1]
    if usable:
        _, key, scale = max(usable, key=lambda pair: pair[0])
        return Axis(
            key, f"{key} ({scale.unit})" if scale.unit else key, lambda cell: scale.of[dict(cell.setting[1])[key]]
        )
    if len([batch for batch in run.batches if batch]) >= LEAST_BATCHES:
        return Axis(BATCH, "batch per worker", lambda cell: float(cell.batch))
    return None


def groups(found: Sequence[MeasuredCell], along: Axis | None) -> list[Group]:
    """The cells whose settings differ at most along the axis, together."""
    by_rest: dict[tuple[Any, ...], list[MeasuredCell]] = {}
    for cell in found:
        by_rest.setdefault(_rest(cell, along), []).append(cell)
    if along is not None:  # the cells of an arm after each other, for they are a line
        place = {label: i for i, label in enumerate(dict.fromkeys(cell.label for cell in found))}
        for members in by_rest.values():
            members.sort(key=lambda cell: (place[cell.label], along.at(cell)))
    return [Group(title(members[0], along), tuple(members)) for members in by_rest.values()]


def title(cell: MeasuredCell, along: Axis | None = None) -> str:
    """Write the title of a cell's group: its setting without the axis."""
    drawn = along.key if along else None
    words = [f"Batch {cell.batch} per worker"] if cell.batch and drawn != BATCH else []
    words += [f"{key} {value}" for key, value in cell.point.items() if key != drawn]
    return ", ".join(words) or ("Every setting" if along else "The command")


def _rest(cell: MeasuredCell, along: Axis | None) -> tuple[Any, ...]:
    key = along.key if along else None
    return (None if key == BATCH else cell.batch, *((name, value) for name, value in cell.setting[1] if name != key))


@dataclass(frozen=True)
class _Scale:
    """Numbers for the values of a setting (as JSON), in one unit."""

    unit: str
    of: dict[str, float]


@cache
def _number(text: str) -> tuple[float, Unit | None] | None:
    """A JSON value as a number, or as a quantity in its base unit."""
    value = json.loads(text)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value), None
    with suppress(ValueError, TypeError):
        return (float(value), None) if isinstance(value, str) and isfinite(float(value)) else None
    for unit, read in _QUANTITIES:
        with suppress(SpecError):
            return read(value), unit
    return None


def rank(value: str) -> tuple[float, str]:
    """Return a key that sorts values of a setting: numbers and quantities by what they are, others after them."""
    number = _number(json.dumps(value))
    return (number[0] if number else inf, value)


def _scale(values: Iterable[str]) -> _Scale | None:
    """Numbers or quantities of one kind, in the largest unit in which all are 1 or more; None if they are neither."""
    known = {value: _number(value) for value in values}
    kinds = {number[1].noun if number[1] else "" for number in known.values() if number}
    if len(kinds) != 1 or None in known.values():
        return None
    numbers = {value: number[0] for value, number in known.items() if number}
    unit = next(number[1] for number in known.values() if number)
    if unit is None:
        return _Scale("", numbers)
    least = min((number for number in numbers.values() if number > 0), default=1.0)
    name = max((name for name in unit.factors if unit.factors[name] <= least), key=unit.factors.__getitem__, default="")
    name = name or min(unit.factors, key=unit.factors.__getitem__)
    return _Scale(name, {value: number / unit.factors[name] for value, number in numbers.items()})


def _ordered(settings: Iterable[Setting]) -> list[Setting]:

    def key(setting: Setting) -> tuple[Any, ...]:
        return setting[0], *((name, *rank(as_text(json.loads(value)))) for name, value in setting[1])

    return sorted(settings, key=key)


def as_text(value: Any) -> str:
    """A value as one would write it in a spec."""
    return value if isinstance(value, str) else f"{value:g}" if isinstance(value, float) else json.dumps(value)


def notes(cells: Iterable[MeasuredCell], question: str) -> str:
    """Return what must be said about a question's numbers because of the kinds of trial that the cells are of; it
    begins with a space if there is something."""
    told = dict.fromkeys(trial.kind.wording.notes.get(question, "") for cell in cells for trial in cell.finished)
    return "".join(f" {note}" for note in told if note)
