"""Number of trials: the rounds that are certain, and those that turn out needed: with ``repeats: {until: 3 %}``, and
where a gate finds too few trials VALID."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

from testbed.analysis.cell import Cell, cell_of
from testbed.analysis.numbers.statistics import median
from testbed.analysis.numbers.stopping import promise
from testbed.analysis.verdicts import VALID, numbers_of
from testbed.base.errors import SpecError, UsageError
from testbed.experiment.duration import Estimate
from testbed.experiment.expand import first_trials, in_rounds
from testbed.experiment.order import Block, blocks, in_order, part
from testbed.spec import Source, Spec
from testbed.spec.model import TOPPED_UP, Until
from testbed.trial.model import Trial
from testbed.workloads.kinds import has_iterations

Record = dict[str, Any]
Part = tuple[int, int]
"""Number of a part, from 1, and how many parts there are."""
Lacking = Callable[[Path], Mapping[Cell, int]]
"""Function that finds, for the run in a directory, the cells that need more VALID trials, and how many."""
Selection = Callable[[Sequence[Trial]], Collection[str]]
"""Function that chooses, of the first trials of all cells, the ids of those that are to run."""


@dataclass(frozen=True)
class ImpreciseCell:
    """A cell whose interval is wider than asked for; ``width`` is infinite where one trial or none was VALID."""

    cell: Cell
    valid: int
    width: float

    def __str__(self) -> str:
        if self.valid < 2:
            return f"{self.cell}: {self.valid} VALID trials"
        return f"{self.cell}: ±{self.width:.1%} after {self.valid} VALID trials"


class Planned:
    """The trials of an experiment, or of one part of it, as far as they are known.

    Attributes:
        firsts: the first trial of each cell.
        trials: all that are certain, in the order in which they run.
    """

    def __init__(
        self,
        source: Source,
        of: Part | None = None,
        only: Selection | None = None,
        most_rounds: int | None = None,
    ) -> None:
        """``only`` selects cells, if not all are to run; ``most_rounds`` is how many rounds there may be, if more than
        the spec asks for.

        Raises:
            SpecError: an arm cannot be.
            UsageError: there are fewer groups of trials than parts, or ``only`` leaves no trial.
        """
        self._spec, self._name = source.spec, source.name
        firsts = first_trials(source)
        selected = set(only(firsts)) if only else {first.id for first in firsts}
        everything = blocks(firsts)
        self._blocks: list[Block[Trial]] = everything
        if of:
            estimate = Estimate()
            self._blocks = part(everything, [sum(map(estimate.of, block)) for block in everything], *of)
        self._possible = list(chain.from_iterable(self._blocks))
        kept = (tuple(trial for trial in block if trial.id in selected) for block in self._blocks)
        self._blocks = [block for block in kept if block]
        if not self._blocks:
            raise UsageError("the part has none of the selected trials", fix="run another part, or the whole")
        self.firsts = list(chain.from_iterable(self._blocks))
        self._rounds = self._spec.least_repeats
        self._most = max(self._spec.most_repeats, most_rounds or 0)
        self.trials = in_rounds(self._blocks, self._rounds)

    @property
    def blocks(self) -> Sequence[Block[Trial]]:
        """The first trials of cells that are compared with each other, together."""
        return self._blocks

    def keep_ids(self, records: Iterable[Record]) -> None:
        """Give trials that ran the ids of their records: an earlier version of testbed chose them otherwise. The cell,
        the repeat and the identity say which trial a record is of."""
        ids: dict[Cell, dict[int, str]] = {}
        by_cell = {first.cell: first for first in self._possible}
        for record in records:
            first = by_cell.get(cell_of(record))
            if first is not None and first.identity == record["identity"]:
                ids.setdefault(first.cell, {})[int(record.get("repeat", 0))] = record["id"]

        def kept(trial: Trial) -> Trial:
            return replace(trial, kept_ids=ids.get(trial.cell, {}))

        self._blocks = [tuple(map(kept, block)) for block in self._blocks]
        self._possible = list(map(kept, self._possible))
        self.firsts, self.trials = list(map(kept, self.firsts)), list(map(kept, self.trials))

    def require(self, ask: Callable[[Trial], None]) -> None:
        """Ask whether each cell can run.

        Raises:
            SpecError: one cannot; it names the spec.
        """
        for first in self.firsts:
            try:
                ask(first)
            except SpecError as error:
                raise SpecError(f"{self._name}: {error.problem}", fix=error.fix) from None

    @property
    def is_full(self) -> bool:
        """Whether there can be no more rounds."""
        return self._rounds >= self._most

    def another_round(
        self,
        records: Mapping[str, Record],
        is_there: Callable[[Trial], bool],
        lacking: Mapping[Cell, int] | None = None,
    ) -> list[Trial]:
        """The trials of one more round, which are now certain, too; none where no cell needs one.

        Every cell of a block takes part as long as one of them is loose or lacks VALID trials, so that what is compared
        has as many trials on both sides; of a block that has trials still to run nothing is known yet. What ran already
        stays, whatever came of trials that were run again.

        Args:
            records: by id, of all trials so far.
            is_there: whether a trial ran before.
            lacking: how many more VALID trials cells need. One that cannot get so many in the rounds that are left is
                not run in vain.
        """
        if self.is_full:
            return []
        left = self._most - self._rounds
        short = {cell for cell, count in (lacking or {}).items() if count <= left}
        until = self._rounds < self._spec.most_repeats
        values = _values(records.values())
        waits = {(trial.name, trial.mark) for trial in self.trials if trial.id not in records}
        needed = {
            first.id
            for block in self._blocks
            if not any((first.name, first.mark) in waits for first in block)
            and (any(first.cell in short for first in block) or (until and _loose(block, values, self._spec)))
            for first in block
        }
        found = [
            trial
            for first in in_order(self._blocks, self._rounds)
            if is_there(trial := replace(first, repeat=self._rounds)) or first.id in needed
        ]
        self._rounds += bool(found)
        self.trials += found
        return found

    def unknown(self, ids: Iterable[str]) -> list[str]:
        """List those of ``ids`` that no trial can have, in whatever round, and though it be none of ``only``."""
        left = dict.fromkeys(ids)
        for number in range(self._most):
            if not left:
                break
            for first in self._possible:
                left.pop(replace(first, repeat=number).id, None)
        return list(left)

    @property
    def repeats(self) -> str:
        """Setting of how often a trial is repeated, as a spec writes it."""
        wanted = self._spec.repeats
        if self._most > self._spec.most_repeats:
            return f"repeats: {wanted}, of which there may be {self._most} for a gate"
        return f"repeats: {{most: {wanted.most}}}" if isinstance(wanted, Until) else f"repeats: {wanted}"

    def loose(self, records: Mapping[str, Record]) -> list[ImpreciseCell]:
        """The cells whose intervals are not as narrow as the spec wants."""
        return _loose(self.firsts, _values(records.values()), self._spec)

    def promise(self, records: Mapping[str, Record]) -> str:
        """Say how many of the intervals that are narrow enough cover the median, in a sentence; empty where none had to
        become narrow, or none has."""
        wanted = self._spec.repeats
        if not isinstance(wanted, Until) or self._spec.without_repeats:
            return ""
        values = _values(records.values())
        return promise([values.get(first.cell, []) for first in self.firsts], wanted.until, wanted.least, wanted.most)

    def sorted(self, records: Mapping[str, Record]) -> list[Record]:
        """Records of its trials by repeat, then by what is compared with each other, in the spec's order."""
        place = {first.id: i for i, first in enumerate(self.firsts)}
        known = [trial for trial in self.trials if trial.id in records]
        known.sort(key=lambda trial: (trial.repeat, place[replace(trial, repeat=0).id]))
        return [records[trial.id] for trial in known]


def topped_up(spec: Spec) -> int:
    """Return how many rounds there may be where a gate finds too few trials VALID; ``repeats: 1`` and ``repeats.most``
    stay what they are."""
    if isinstance(spec.repeats, Until) or spec.most_repeats == 1:
        return spec.most_repeats
    return TOPPED_UP * spec.repeats


def _loose(firsts: Sequence[Trial], values: Mapping[Cell, Sequence[float]], spec: Spec) -> list[ImpreciseCell]:
    if not isinstance(spec.repeats, Until) or spec.without_repeats:
        return []
    found = []
    for cell in (first.cell for first in firsts):
        known = values.get(cell, ())
        width = median(known).relative_width if known else float("inf")
        if width > spec.repeats.until:
            found.append(ImpreciseCell(cell, len(known), width))
    return found


def _values(records: Iterable[Record]) -> dict[Cell, list[float]]:
    """Return, by cell, the median GST (s) of each trial in which it is VALID; of kinds that say nothing of iterations,
    the JCT."""
    found: dict[Cell, list[float]] = {}
    for record in records:
        number, metric = ("gst", "gst_median_s") if has_iterations(record) else ("jct", "jct_s")
        if record["status"] != "done":
            continue
        judged = numbers_of(record["fidelity"]).get(number)
        if judged and judged.verdict == VALID:
            found.setdefault(cell_of(record), []).append(float(record["metrics"][metric]))
    return found
