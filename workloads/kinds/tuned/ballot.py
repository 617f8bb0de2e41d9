"""Agreement of all workers on the next plan, by one number that each adds to the sum of each iteration.

A worker may have a plan before others do. So it adds ``HAS`` to the sum if it has the next plan, and nothing if it has
not. All workers get the same sum: once it is their number, all switch before the next iteration, or none does. A worker
that cannot follow the next plan, because it is wrong or its line is lost, adds more than all others together can. All
workers then leave that plan out. Plans are settled in the order of their numbers, one in an iteration at most.

Rejected: the newest plan of each worker. One number in the sum cannot tell whether all have the same one.
"""

from __future__ import annotations

from testbed.base.errors import SchemeError
from testbed.workloads.sync.forest import Forest
from testbed.workloads.sync.told_plans import along, read

HAS = 1
MOST_AHEAD = 1000
"""Limit on the difference between a plan's number and that of the plan that was settled last: it takes an iteration to
leave out each plan in between."""


class Ballot:
    """A worker's part in the agreement.

    Attributes:
        plan: number of the plan that all workers follow; the first plan has 0.
    """

    def __init__(self, forest: Forest) -> None:
        """Begin with a trial's first plan."""
        self._forest, self._world = forest, len(forest.workers)
        self._refusal = self._world + 1
        self._settled = self._newest = 0
        self._told: dict[int, Forest | None] = {}
        """Plans that are not settled, by number; None for one that was wrong."""
        self.plan = 0

    def take(self, line: bytes) -> str | None:
        """Take a line that was told; return the reason if its plan is left out."""
        try:
            number, parents = read(line)
        except ValueError as error:
            return f"a line that is no plan: {error}"
        if number <= self._settled:
            return f"plan {number}: it comes late, after plan {self._settled} was settled"
        if number in self._told:
            return f"plan {number}: it is told twice"
        if number > self._settled + MOST_AHEAD:
            return f"plan {number}: plan {self._settled + 1} is the next one"
        self._newest = max(self._newest, number)
        try:
            self._told[number] = along(self._forest, parents)
        except SchemeError as error:
            self._told[number] = None
            return f"plan {number}: {error.problem}"
        return None

    def vote(self) -> int:
        """Return what to add to the sum of the next iteration."""
        number = self._settled + 1
        if number in self._told:
            return HAS if self._told[number] is not None else self._refusal
        return self._refusal if self._newest > number else 0

    def count(self, total: float) -> Forest | None:
        """Settle the next plan by the sum of an iteration; return it if all have it."""
        if total < self._world * HAS:
            return None
        self._settled += 1
        settled = self._told.pop(self._settled, None)
        if total > self._world * HAS:
            return None
        self.plan = self._settled
        return settled
