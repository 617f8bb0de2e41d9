"""What a server decides: which update is applied when, and which comes too late. Pure logic, no I/O.

The scheduler says in which order updates are to be applied. One that comes before its turn is held. A delay bound holds
here, whatever was planned: an update is applied if fewer others than the bound were since its weights (eq. 9; so its
staleness is at most the bound less one). Of a sum either all is applied or nothing.

A *version* is how many updates the weights contain.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from workloads.kinds.fabric.fates import Entry, Fate

Rates = Callable[[int, int], float]
"""From the version that an update changes, and the one that it was computed on, what it counts."""


@dataclass(frozen=True)
class Unit:
    """What comes in one piece: an update, or the sum of several.

    Attributes:
        members: numbers of the updates, in their order.
        versions: what each was computed on.
        is_sum: whether an aggregator made it.
        shares: what each counts in it (:mod:`.sums`).
    """

    members: tuple[int, ...]
    versions: tuple[int, ...]
    is_sum: bool
    shares: tuple[tuple[float, float], ...] = ((1.0, 1.0),)


@dataclass(frozen=True)
class Step:
    """What became of a unit; ``begin`` is the version before it."""

    unit: Unit
    fate: Fate
    begin: int

    @property
    def entries(self) -> list[Entry]:
        return [(number, int(self.fate)) for number in self.unit.members]


class Journal:
    """The order of updates, as it is enforced.

    Attributes:
        steps: what was decided, in order.
        version: of the newest weights.
    """

    def __init__(self, delay_bound: int | None) -> None:
        self._bound = delay_bound
        self._order: list[int] = []
        """Numbers of updates; those before :attr:`_at` have had their turn."""
        self._at = 0
        self._versions: dict[int, int] = {}
        self._held: dict[int, Unit] = {}
        self._known: set[int] = set()
        """Numbers of the updates that have come or were dropped."""
        self.steps: list[Step] = []
        self.entries: list[Entry] = []
        self.version = 0

    @property
    def awaited(self) -> list[int]:
        """Numbers of the updates whose turn comes next and that are not here."""
        return [number for number in self._order[self._at :] if number not in self._held]

    def expect(self, updates: Sequence[int], versions: Sequence[int]) -> None:
        """These are to be applied next, after those told before.

        Raises:
            ValueError: one was told before.
        """
        for number, version in zip(updates, versions, strict=True):
            if number in self._versions:
                raise ValueError(f"update {number} is expected twice")
            self._versions[number] = version
            self._order.append(number)

    def drop(self, number: int, version: int) -> Step:
        """This update will not come.

        Raises:
            ValueError: it is here, or was.
        """
        if number in self._known:
            raise ValueError(f"update {number} is dropped, and was here before")
        self._known.add(number)
        if number in self._versions:
            self._order.remove(number)
        self._versions[number] = version
        return self._decide(Unit((number,), (version,), False), Fate.DROPPED)

    def arrive(self, unit: Unit) -> None:
        """A unit is here, maybe before anybody has said when its turn is; :meth:`next` does what is due.

        Raises:
            ValueError: a part of it was here before, or will not come.
        """
        if again := self._known.intersection(unit.members):
            raise ValueError(f"of updates {list(unit.members)}, {sorted(again)} were here before")
        self._known.update(unit.members)
        self._held[unit.members[0]] = unit

    def next(self, rates: Rates = lambda _version, _computed_on: 1.0) -> Step | None:
        """What is to be done with the unit whose turn it is; None if it is not here. An update alone counts what
        ``rates`` says (:meth:`.plan.Options.rates`); in a sum it does already.

        Raises:
            ValueError: the unit is not what was expected.
        """
        if self._at == len(self._order) or self._order[self._at] not in self._held:
            return None
        unit = self._held.pop(self._order[self._at])
        expected = self._order[self._at : self._at + len(unit.members)]
        versions = [self._versions[number] for number in expected]
        if expected != list(unit.members) or versions != list(unit.versions):
            raise ValueError(f"expected are updates {expected} of versions {versions}, and {unit} came")
        self._at += len(unit.members)
        stale = max(self.version + at - version for at, version in enumerate(unit.versions))
        if self._bound is not None and stale >= self._bound:
            return self._decide(unit, Fate.LATE)
        if unit.is_sum:
            return self._decide(unit, Fate.AGGREGATED)
        rate = rates(self.version, unit.versions[0])
        return self._decide(replace(unit, shares=((rate, rate),)), Fate.DIRECT)

    def _decide(self, unit: Unit, fate: Fate) -> Step:
        step = Step(unit, fate, self.version)
        self.steps.append(step)
        self.entries += step.entries
        self.version += len(unit.members) if fate.is_applied else 0
        return step
