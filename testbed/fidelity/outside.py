"""Evidence about a job's processes from outside, whatever they are (:mod:`testbed.machine.processes`)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import pairwise

import numpy as np

from testbed.fidelity.seen import Seen
from testbed.machine.processes import ProcessLog, Standing

UNSEEN = 0.03
"""Most of a job for which nobody may have looked, for what was seen to count."""
ENOUGH = 100
"""Number of looks that show a stop of a tenth of the time. In fewer looks within synchronisations, a process that was
stopped all along can seem to have run: with 100, once in 40 cases."""
TOGETHER, LEAST_SPANS = 20, 5
"""Looks in a span of iterations, in which a stop of a tenth of the time shows in nearly nine of ten spans. And how many
spans there are at least: a process that stands still once must not be in half of them."""


class Outside:
    """Processes of one job, by name, but those that were to stand still.

    Args:
        window: the job's beginning and end (s).
        names: the processes that must have been seen.
    """

    def __init__(self, log: ProcessLog, window: tuple[float, float], names: Sequence[str]) -> None:
        self._log, self._window, self._names = log, window, names

    @classmethod
    def of(cls, seen: Seen) -> Outside:
        moving = [process.name for part, process in seen.job.members.items() if part not in seen.to_stand_still]
        return cls(seen.processes, seen.window, moving)

    @cached_property
    def missing(self) -> str:
        """Reason why these processes were not watched; empty if they were."""
        if not self._names:
            return "all of its processes were to stand still"
        unseen = [name for name in self._names if name not in self.standing]
        if unseen:
            return f"nobody saw {unseen[0]} run" + (f", nor {len(unseen) - 1} others" if len(unseen) > 1 else "")
        unseen_s = self._log.unseen_s(*self._window)
        share = unseen_s / (self._window[1] - self._window[0])
        return f"nobody looked for {unseen_s:.2f} s, {share:.1%} of the job" if share > UNSEEN else ""

    @cached_property
    def standing(self) -> dict[str, Standing]:
        """Looks at each process that was seen at least twice."""
        return {name: one for name in self._names if (one := self._log.of.get(name)) and len(one.at_s) > 1}

    @property
    def counts_waits(self) -> bool:
        """Whether the kernel says how long threads wait for a core."""
        return all(one.counts_waits for one in self.standing.values())

    def stalled_s(self) -> dict[str, float]:
        """Seconds for which each process was stopped or kept from running, in all of the job."""
        return {
            name: float((one.inside([self._window], one.stopped_s) + one.inside([self._window], one.starved_s))[0])
            for name, one in self.standing.items()
        }

    def stopped_s(self) -> dict[str, float]:
        """Seconds for which each process was stopped, in all of the job."""
        return {name: float(one.inside([self._window], one.stopped_s)[0]) for name, one in self.standing.items()}

    def waited(self, windows: Sequence[tuple[float, float]]) -> dict[str, float]:
        """Share of the shorter half of these windows for which a thread of each process waited for a core."""
        short, _ = _shorter_half(windows)
        return {name: _share(short, one, one.waited_s) for name, one in self.standing.items()}

    def halted(self, windows: Sequence[tuple[float, float]]) -> dict[str, float]:
        """Share of synchronisations for which each process was stopped, as far as their median is threatened.

        The median is of the shorter half of the ``windows`` and the next, so what happened in the longer half does not
        count: a process that stands still once makes one synchronisation long. Where these windows are too short to
        see a stop in them, what counts is the median over iterations of the share for which a process was stopped in
        the whole iteration: from the end of a window to the end of the next. Iterations with too few looks are taken
        together.
        """
        short, length_s = _shorter_half(windows)
        found = {name: _share(short, one, one.stopped_s) for name, one in self.standing.items()}
        if self._log.looks_per_s * length_s >= ENOUGH:
            return found
        ends = np.maximum.accumulate([self._window[0], *(end for _, end in windows)])
        whole = _joined([(begin, end) for begin, end in pairwise(ends) if end > begin], self._log.looks_per_s)
        lengths = np.asarray([end - begin for begin, end in whole])
        shares = {name: one.inside(whole, one.stopped_s) / lengths for name, one in self.standing.items()}
        return {name: max(found[name], float(np.median(share))) for name, share in shares.items()}


def _joined(spans: Sequence[tuple[float, float]], looks_per_s: float) -> list[tuple[float, float]]:
    """Join spans of time that follow each other, as many of them in one as have :data:`TOGETHER` looks."""
    if not spans:
        return []
    looks = looks_per_s * float(np.median([end - begin for begin, end in spans]))
    count = max(1, min(math.ceil(TOGETHER / max(looks, 1e-9)), len(spans) // LEAST_SPANS))
    return [(some[0][0], some[-1][1]) for at in range(0, len(spans), count) if (some := spans[at : at + count])]


def _shorter_half(windows: Sequence[tuple[float, float]]) -> tuple[list[tuple[float, float]], float]:
    """Find the windows up to the median length, and how long they are together."""
    lengths = [end - begin for begin, end in windows]
    most = float(np.median(lengths)) if lengths else 0.0
    short = [window for window, length in zip(windows, lengths, strict=True) if 0 < length <= most]
    return short, sum(end - begin for begin, end in short)


def _share(windows: Sequence[tuple[float, float]], one: Standing, counted: Sequence[float]) -> float:
    length_s = sum(end - begin for begin, end in windows)
    return float(one.inside(windows, counted).sum()) / length_s if length_s else 0.0


def worst(of: Mapping[str, float]) -> tuple[str, float]:
    """Find the process with the largest value."""
    name = max(of, key=of.__getitem__)
    return name, of[name]
