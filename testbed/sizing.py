"""How many trials there are: the rounds that are certain, and, with ``repeats: {until: 3 %}``, those that turn out
needed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from analysis.cell import Cell, cell_of
from analysis.statistics import median
from testbed.estimate import expected_s
from testbed.rounds import blocks, in_order, part
from testbed.spec import Source, Spec
from testbed.spec.model import Until
from testbed.trial import Trial
from testbed.trials import first_trials, in_rounds

Record = dict[str, Any]
Part = tuple[int, int]
"""Which one, from 1, of how many."""


@dataclass(frozen=True)
class Loose:
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

    def __init__(self, source: Source, of: Part | None = None, only: Collection[str] | None = None) -> None:
        """``only`` holds the ids of the cells' first trials to run, if not all.

        Raises:
            SpecError: an arm cannot be.
            UsageError: there are fewer groups of trials than parts.
        """
        self._spec = source.spec
        everything = blocks(first_trials(source))
        lengths = [sum(map(expected_s, block)) for block in everything]
        self._blocks = part(everything, lengths, *of) if of else everything
        self._possible = list(chain.from_iterable(self._blocks))
        if only is not None:
            kept = (tuple(trial for trial in block if trial.id in only) for block in self._blocks)
            self._blocks = [block for block in kept if block]
        self.firsts = list(chain.from_iterable(self._blocks))
        self._rounds = self._spec.least_repeats
        self.trials = in_rounds(self._blocks, self._rounds)

    def another_round(self, records: Mapping[str, Record], is_there: Callable[[Trial], bool]) -> list[Trial]:
        """The trials of one more round, which are now certain, too; none where no cell needs one.

        Every cell of a block takes part as long as one of them is loose, so that what is compared has as many trials on
        both sides; of a block that has trials still to run nothing is known yet. What ran already stays, whatever came
        of trials that were run again.

        Args:
            records: by id, of all trials so far.
            is_there: whether a trial ran before.
        """
        if self._rounds == self._spec.most_repeats:
            return []
        values = _values(records.values())
        waits = {(trial.name, trial.mark) for trial in self.trials if trial.id not in records}
        needed = {
            first.id
            for block in self._blocks
            if not any((first.name, first.mark) in waits for first in block) and _loose(block, values, self._spec)
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

    def strange(self, ids: Iterable[str]) -> list[str]:
        """Those of ``ids`` that no trial can have, in whatever round, and though it be none of ``only``."""
        left = dict.fromkeys(ids)
        for number in range(self._spec.most_repeats):
            if not left:
                break
            for first in self._possible:
                left.pop(replace(first, repeat=number).id, None)
        return list(left)

    @property
    def repeats(self) -> str:
        """How often a trial is repeated, as a spec says it."""
        wanted = self._spec.repeats
        return f"repeats: {{most: {wanted.most}}}" if isinstance(wanted, Until) else f"repeats: {wanted}"

    def loose(self, records: Mapping[str, Record]) -> list[Loose]:
        """The cells whose intervals are not as narrow as the spec wants."""
        return _loose(self.firsts, _values(records.values()), self._spec)

    def sorted(self, records: Mapping[str, Record]) -> list[Record]:
        """Records of its trials by repeat, then by what is compared with each other, in the spec's order."""
        place = {first.id: i for i, first in enumerate(self.firsts)}
        known = [trial for trial in self.trials if trial.id in records]
        known.sort(key=lambda trial: (trial.repeat, place[replace(trial, repeat=0).id]))
        return [records[trial.id] for trial in known]


def _loose(firsts: Sequence[Trial], values: Mapping[Cell, Sequence[float]], spec: Spec) -> list[Loose]:
    if not isinstance(spec.repeats, Until):
        return []
    found = []
    for cell in (first.cell for first in firsts):
        known = values.get(cell, ())
        width = median(known).relative_width if known else float("inf")
        if width > spec.repeats.until:
            found.append(Loose(cell, len(known), width))
    return found


def _values(records: Iterable[Record]) -> dict[Cell, list[float]]:
    """By cell, the median GST (s) of each VALID trial; of commands, which say nothing of their iterations, the JCT."""
    found: dict[Cell, list[float]] = {}
    for record in records:
        if record["status"] == "done" and record["fidelity"]["verdict"] == "VALID":
            metric = "jct_s" if record["kind"] == "command" else "gst_median_s"
            found.setdefault(cell_of(record), []).append(float(record["metrics"][metric]))
    return found
