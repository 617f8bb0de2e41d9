"""Cells of an experiment, from settings with swept fields: every point at which every arm is measured, each with a
whole spec.

Fields outside of arms give the grid. A field inside of an arm makes variants of that arm alone; where arms sweep a
field of the same name, such as ``hosts`` of their topologies, they meet at equal values.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from itertools import product
from math import prod
from pathlib import Path as FilePath
from typing import Any

from pydantic import ValidationError

from testbed.base.errors import SpecError
from testbed.base.listing import counted
from testbed.spec.arm import LONGEST_LABEL, Arm
from testbed.spec.axes import Axis, Finder, Plain, Value
from testbed.spec.explain import Texts, explain, place, together
from testbed.spec.model import Spec
from testbed.spec.where import Condition, condition, unit_of

MOST_CELLS = 20_000
"""The most cells, points times arms times batches, before conditions: all are looked at before the first trial runs."""
MOST_TRIALS = 10_000
"""The most trials of an experiment. At ten seconds each, more than a day."""
ENOUGH = 100
"""Number of points to look at once a mistake is found, to know whether it is one of all points."""
BATCH, LABEL = "workload.batch", "label"
"""Names that conditions may use besides those of swept fields."""
Assignment = tuple[Value, ...]
_SHORT = re.compile(r"[^.]+(\.\d+)*$")
"""Pattern of the last word of a field's name, with the number of which it is: ``pace.16``."""


@dataclass(frozen=True)
class PlannedCell:
    """An arm at one point with one batch size: what is measured ``repeats`` times.

    Attributes:
        spec: the whole spec at this point, but for fields that the arm itself sweeps. Its links have the arm's rate.
        arm: with its own swept fields at this point.
        number: which one of the spec's arms that is.
        batch: 0 where the workload is a command.
        point: by name, each swept field's value in base units.
        written: by name, the same as the spec has it.
        label: the arm's, as the spec has it; empty where it has none.
    """

    spec: Spec
    arm: Arm
    number: int
    batch: int
    point: Mapping[str, Plain]
    written: Mapping[str, str]
    label: str

    @property
    def at(self) -> str:
        """The point for people: ``rate=100 Mbit/s, hosts=4``; empty where nothing is swept."""
        return point_text(self.written)


@dataclass(frozen=True)
class Grid:
    """The cells of an experiment, by point, batch and arm, and the fields that are swept.

    Attributes:
        spec: at the first point, with the links that the spec has for all arms; what is not swept is the same in all.
    """

    cells: tuple[PlannedCell, ...]
    axes: tuple[Axis, ...]
    spec: Spec

    @property
    def values(self) -> dict[str, list[Plain]]:
        """Values of each swept field in base units, by name, in the order written."""
        found: dict[str, dict[Plain, None]] = {}
        for axis in self.axes:
            found.setdefault(axis.name, {}).update({value.plain: None for value in axis.values})
        return {name: list(values) for name, values in found.items()}


def point_text(written: Mapping[str, str]) -> str:
    """Join values with the last words of their fields' names, or with the whole names where these are the same."""
    return ", ".join(point_words(written, "="))


def point_words(written: Mapping[str, str], between: str = "") -> list[str]:
    """List the words of :func:`point_text`, one by one."""
    short = [_SHORT.search(name)[0] for name in written]  # type: ignore[index]  # it matches every name
    names = short if len(set(short)) == len(short) else list(written)
    return [f"{name}{between}{value}" for name, value in zip(names, written.values(), strict=True)]


def grid(settings: dict[object, object], name: str, texts: Texts, folder: FilePath, *, has_begun: bool = False) -> Grid:
    """Check the settings of a spec, at every point if some of its fields are swept.

    Conditions of a run that ``has_begun`` may compare with bare numbers, as older versions allowed.

    Raises:
        SpecError: they make no sense; every mistake is listed.
    """
    finder = Finder(name, texts, folder)
    axes = finder.find(settings)
    if finder.problems:
        raise together(finder.problems)
    return _Grid(settings, axes, name, texts, has_begun=has_begun).made()


def _with_rate_of(arm: Arm, spec: Spec) -> Spec:
    if arm.rate_bps is None:
        return spec
    return spec.model_copy(update={"links": spec.links.model_copy(update={"rate_bps": arm.rate_bps})})


def at_point(error: SpecError, at: str) -> SpecError:
    """Add to an error the point at which it is, if there is one."""
    if not at:
        return error
    return SpecError(f"{error.problem} (at {at})", fix=f"{error.fix}; or leave such points out with where")


@dataclass
class _Noted:
    """A mistake, the first point at which it was made, and at how many."""

    error: SpecError
    at: str
    count: int = 0


class _Grid:
    def __init__(
        self,
        settings: dict[object, object],
        axes: Sequence[Axis],
        name: str,
        texts: Texts,
        *,
        has_begun: bool,
    ) -> None:
        self._settings, self._name, self._texts = settings, name, texts
        self._axes, self._has_begun = axes, has_begun
        self._shared = [axis for axis in axes if axis.arm is None]
        arms = settings.get("arms")
        self._own = [
            [axis for axis in axes if axis.arm == i] for i in range(len(arms) if isinstance(arms, list) else 0)
        ]
        self._problems: dict[str, _Noted] = {}
        self._checked = 0

    def made(self) -> Grid:
        self._check_size()
        conditions = self._conditions()
        cells: list[PlannedCell] = []
        specs: list[Spec] = []
        for values in product(*(axis.values for axis in self._shared)):
            shared = {axis.name: value.plain for axis, value in zip(self._shared, values, strict=True)}
            spec = self._spec(values) if self._holds(conditions, shared) else None
            found = [*self._cells(spec, values, conditions)] if spec else []
            cells += found
            specs += [spec] if spec and found else []
            if self._problems and self._checked >= ENOUGH:
                break
        self._check_own_rates(cells)
        if self._problems:
            raise together(
                [
                    at_point(noted.error, noted.at) if noted.count < self._checked else noted.error
                    for noted in self._problems.values()
                ]
            )
        if not cells:
            problem = f"{place(('where',), self._name, self._texts)}: no point of the grid is left"
            raise SpecError(problem, fix="loosen the conditions, or add values")
        self._check_trials(cells)
        return Grid(tuple(cells), tuple(self._axes), specs[0])

    def _spec(self, values: Assignment) -> Spec | None:
        """Make the spec at one point; every arm's own fields have their first values."""
        settings = deepcopy(self._settings) if self._axes else self._settings
        for axis, value in zip(self._shared, values, strict=True):
            axis.put(settings, value)
        for axis in (axis for own in self._own for axis in own):
            axis.put(settings, axis.values[0])
        self._checked += 1
        try:
            spec = Spec.model_validate(settings)
        except ValidationError as error:
            self._note(explain(error, self._name, self._texts), self._text(self._shared, values))
            return None
        arms = [
            self._labelled(arm, i) if own else arm
            for i, (arm, own) in enumerate(zip(spec.arms, self._own, strict=True))
        ]
        return spec.model_copy(update={"arms": arms}) if self._axes else spec

    def _labelled(self, arm: Arm, number: int) -> Arm:
        """Give an arm that sweeps its network, scheme or rate one title at all points: network and scheme as
        written."""
        written = self._settings["arms"][number]  # type: ignore[index]  # it has axes, so it is there
        scheme, topology, rate = (
            re.sub(r",\s+", ",", " ".join(str(written.get(key, "")).replace("'", "").split()))
            for key in ("scheme", "topology", "rate")
        )
        as_written: dict[str, object] = {"scheme": scheme, "topology": topology}
        if any(axis.name == "arm.rate" for axis in self._own[number]):
            as_written |= {"topology": f"{topology} at {rate}", "rate_bps": None}
        title = arm.model_copy(update=as_written).title
        return arm.model_copy(
            update={"label": title if len(title) <= LONGEST_LABEL else f"{title[: LONGEST_LABEL - 1]}…"}
        )

    def _cells(self, spec: Spec, values: Assignment, conditions: Sequence[Condition]) -> Iterator[PlannedCell]:
        shared = list(zip(self._shared, values, strict=True))
        batches = spec.workload.batch
        variants = [self._variants(spec, i) for i in range(len(spec.arms))]
        specs = {arm.rate_bps: _with_rate_of(arm, spec) for many in variants for arm, _ in many}
        labels = [one.get("label", "") for one in self._settings["arms"]]  # type: ignore[attr-defined]  # valid by now
        for batch in batches:
            for number, arm, own in ((number, *one) for number, many in enumerate(variants) for one in many):
                point = {axis.name: value for axis, value in (*shared, *own)}
                plain = {name: value.plain for name, value in point.items()}
                known = plain | {LABEL: arm.title} | ({BATCH: batch} if batch else {})
                if self._holds(conditions, known):
                    written = {name: str(value) for name, value in point.items()}
                    yield PlannedCell(specs[arm.rate_bps], arm, number, batch, plain, written, labels[number])

    def _variants(self, spec: Spec, number: int) -> list[tuple[Arm, list[tuple[Axis, Value]]]]:
        """Make an arm at each point of its own fields."""
        own = self._own[number]
        if not own:
            return [(spec.arms[number], [])]
        found = []
        for values in product(*(axis.values for axis in own)):
            settings: Any = {"arms": {number: deepcopy(self._settings["arms"][number])}}  # type: ignore[index]
            settings["arms"][number]["label"] = spec.arms[number].label
            for axis, value in zip(own, values, strict=True):
                axis.put(settings, value)
            try:
                arm = Arm.model_validate(settings["arms"][number])
            except ValidationError as error:
                at = ("arms", number)
                self._note(explain(error, self._name, self._texts, at), self._text(own, values))
                continue
            found.append((arm, list(zip(own, values, strict=True))))
        return found

    def _conditions(self) -> list[Condition]:
        """Conditions that can be read; what is no text is left to the schema."""
        known = list(dict.fromkeys([*(axis.name for axis in self._axes), BATCH, LABEL]))
        units = {axis.name: unit for axis in self._axes if (unit := unit_of(axis.values[0].written))}
        units = {} if self._has_begun else units
        texts: Any = self._settings.get("where", [])
        found = []
        for i, text in enumerate(texts if isinstance(texts, list) else [texts]):
            try:
                found += [condition(text, known, units)] if isinstance(text, str) else []
            except SpecError as error:
                self._note([self._at_condition(i, error)])
        return found

    def _holds(self, conditions: Sequence[Condition], known: Mapping[str, Plain]) -> bool:
        for i, one in enumerate(conditions):
            try:
                if not one.holds(known):
                    return False
            except SpecError as error:
                told = self._at_condition(i, error)
                self._problems.setdefault(f"where.{i}", _Noted(told, ""))  # once, whatever the values
                return False
        return True

    def _at_condition(self, number: int, error: SpecError) -> SpecError:
        where = place(("where", number), self._name, self._texts)
        return SpecError(f"{where}: {error.problem}", fix=error.fix)

    def _note(self, errors: Sequence[SpecError], at: str = "") -> None:
        """Keep each mistake once, with the first point at which it is made."""
        for error in errors:
            noted = self._problems.setdefault(error.problem, _Noted(error, at))
            noted.count += 1

    def _text(self, axes: Sequence[Axis], values: Assignment) -> str:
        return point_text({axis.name: str(value) for axis, value in zip(axes, values, strict=True)})

    def _check_size(self) -> None:
        """
        Raises:
            SpecError: the grid has too many points to look at each.
        """
        work = self._settings.get("workload")
        batches = work.get("batch") if isinstance(work, dict) else None
        variants = sum(prod(len(axis.values) for axis in own) for own in self._own)
        count = (
            variants
            * prod(len(axis.values) for axis in self._shared)
            * (len(batches) if isinstance(batches, list) else 1)
        )
        if count > MOST_CELLS:
            lengths = ", ".join(f"{axis.name} has {len(axis.values)}" for axis in self._axes)
            raise SpecError(
                f"{self._name}: {count:,} combinations of arms, batches and swept fields; at most {MOST_CELLS:,} "
                f"are allowed{lengths and f' ({lengths})'}",
                fix="give fewer values, or make several experiments of it",
            )

    def _check_own_rates(self, cells: Sequence[PlannedCell]) -> None:
        """Refuse an arm with a rate of its own if the links' rate is swept: it would be measured again at each of the
        rates, and be the same."""
        if not any(axis.name == "links.rate" for axis in self._shared):
            return
        for number in sorted({cell.number for cell in cells if cell.arm.rate_bps is not None}):
            where = place(("arms", number, "rate"), self._name, self._texts)
            self._note(
                [SpecError(f"{where}: links.rate is swept, which this arm does not take", fix="remove one of them")]
            )

    def _check_trials(self, cells: Sequence[PlannedCell]) -> None:
        repeats = cells[0].spec.least_repeats
        count = len(cells) * repeats
        if count > MOST_TRIALS:
            raise SpecError(
                f"{self._name}: {counted(count, 'trial')} ({counted(len(cells), 'cell')}, "
                f"{counted(repeats, 'repeat')}); at most {MOST_TRIALS:,} are allowed",
                fix="give fewer values or repeats, leave some out with where, or make several experiments of it",
            )
