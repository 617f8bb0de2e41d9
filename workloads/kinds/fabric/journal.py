"""Decisions of a server: which update is applied when, and which comes too late. Pure logic, no I/O.

The scheduler says in which order updates are to be applied. One that comes before its turn is held. A delay bound holds
here, whatever was planned: an update is applied if fewer others than the bound were since its weights (eq. 9; so its
staleness is at most the bound less one). Of a sum either all is applied or nothing.

After a loss an update may come again, straight or in another sum: whatever contains one that was here before is ignored
as a whole, for all its members come again. Once the scheduler is lost, the journal is open: updates have their turn as
they come.

A *version* is how many updates the weights contain.

Where there is a replica, a unit is applied once the replica has so many updates that the weights do not get further
apart than they may (:class:`~testbed.workloads.kinds.fabric.scheduling.divergence.Lead`). The replica has a journal,
too (:class:`Copy`): it follows what the server has decided.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from testbed.workloads.kinds.fabric import sums
from testbed.workloads.kinds.fabric.fates import Entry, Fate
from testbed.workloads.kinds.fabric.scheduling.divergence import Lead

Rates = Callable[[int, int], float]
"""The rate at which an update counts, from the version that it changes and the one that it was computed on."""


@dataclass(frozen=True)
class Unit:
    """An update, or the sum of several, that comes in one piece.

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
    """The fate of a unit; ``begin`` is the version before it."""

    unit: Unit
    fate: Fate
    begin: int

    @property
    def entries(self) -> list[Entry]:
        return [(number, int(self.fate)) for number in self.unit.members]

    @property
    def line(self) -> list[Any]:
        """The step as a process reports it: its fate, and the numbers of its updates, their versions and shares."""
        return [int(self.fate), self.unit.members, self.unit.versions, self.unit.shares]


class Journal:
    """The order of updates, which the journal enforces.

    Attributes:
        steps: what was decided, in order.
        version: of the newest weights.
        replicated: how many updates of the order the replica has, without a gap.
        leads: by step, how many that were when it was decided, of those that had had their turn.
        norms: by number, those that were told with the order.
    """

    def __init__(
        self,
        delay_bound: int | None,
        lead: Lead | None = None,
        momentum: float = 0.0,
        allowed: float = math.inf,
    ) -> None:
        """Set up; ``lead`` is None where there is no replica; ``momentum`` is gamma of eq. 2; ``allowed`` is how many
        updates of the order may have their turn until :meth:`allow` says more."""
        self._allowed = allowed
        self._bound, self._lead, self._momentum = delay_bound, lead, momentum
        self._order: list[int] = []
        """Numbers of updates; those before :attr:`_at` have had their turn."""
        self._at = 0
        self._versions: dict[int, int] = {}
        self.norms: dict[int, float] = {}
        self._held: dict[int, Unit] = {}
        self._known: set[int] = set()
        """Numbers of the updates that have come or were dropped."""
        self.steps: list[Step] = []
        self.entries: list[Entry] = []
        self.version = self.replicated = 0
        self.leads: list[int] = []
        self._is_open = False

    @property
    def at(self) -> int:
        """Number of updates of the order that have had their turn."""
        return self._at

    @property
    def turn(self) -> Unit | None:
        """The unit whose turn it is; None if it is not here."""
        return self._held.get(self._order[self._at]) if self._at < len(self._order) else None

    @property
    def awaited(self) -> list[int]:
        """Numbers of the updates whose turn comes next and that are not here."""
        return [number for number in self._order[self._at :] if number not in self._held]

    @property
    def waits_for_replica(self) -> bool:
        """Whether the unit whose turn has come is here."""
        return self.turn is not None

    def knows(self, number: int) -> bool:
        """Whether this update has come, or will not."""
        return number in self._known

    def expect(self, updates: Sequence[int], versions: Sequence[int], norms: Sequence[float] | None = None) -> None:
        """Append updates to the order, to be applied after those told before. ``norms`` are theirs, where there is a
        replica.

        Raises:
            ValueError: one was told before, or the lengths differ.
        """
        for number, version in zip(updates, versions, strict=True):
            if number in self._versions:
                raise ValueError(f"update {number} is expected twice")
            self._versions[number] = version
            self._order.append(number)
        if norms is not None:
            self.norms |= zip(updates, norms, strict=True)

    def drop(self, number: int, version: int) -> Step:
        """Note that an update will not come: its worker has dropped it.

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

    def resume(self, steps: Sequence[Step]) -> None:
        """Begin with the steps that a checkpoint reports."""
        for step in steps:
            self._known.update(step.unit.members)
            self._versions |= zip(step.unit.members, step.unit.versions, strict=True)
            self._decide(step.unit, step.fate)

    def lose(self, number: int) -> Step:
        """Note that an update was lost with a server, or was computed on weights that were lost with it.

        Raises:
            ValueError: it is here, or was.
        """
        if number in self._known:
            raise ValueError(f"update {number} is lost, and was here before")
        self._known.add(number)
        return self._decide(Unit((number,), (0,), False), Fate.LOST)

    def allow(self, updates: int) -> None:
        """Let this many updates of the order have their turn."""
        self._allowed = updates

    def arrive(self, unit: Unit, norms: Sequence[float] = ()) -> bool:
        """Take a unit that has come, maybe before its turn is known; :meth:`next` does what is due. ``norms`` are those
        of its updates, if they are known.

        Returns whether it counts: a part of it may have been here before, or is given up.
        """
        if not self._known.isdisjoint(unit.members):
            return False
        self._known.update(unit.members)
        self.norms = dict(zip(unit.members, norms, strict=False)) | self.norms
        self._held[unit.members[0]] = unit
        if self._is_open:
            self._append(unit)
        return True

    def forget(self, number: int) -> None:
        """Stop expecting an update whose worker is lost, unless it is here. An open journal expects none."""
        if number in self._known:
            return
        self._known.add(number)
        if number in self._order:
            self._order.remove(number)

    def open(self) -> None:
        """Go on without a scheduler, which is lost: the units that are here have their turn now, in the order that it
        told, and later ones as they come."""
        self._is_open = True
        by_member = {number: unit for unit in self._held.values() for number in unit.members}
        told, self._order = self._order[self._at :], self._order[: self._at]
        for number in (*told, *by_member):
            unit = by_member.get(number)
            if unit is not None and unit.members[0] not in self._order[self._at :]:
                self._append(unit)

    def _append(self, unit: Unit) -> None:
        self._order += unit.members
        self._versions |= zip(unit.members, unit.versions, strict=True)

    def next(self, rates: Rates = lambda _version, _computed_on: 1.0) -> Step | None:
        """Decide on the unit whose turn it is; None if it is not here, or has to wait. An update alone counts as
        ``rates`` says (:meth:`.plan.Options.rates`); the members of a sum are already weighted so.

        Raises:
            ValueError: the unit is not what was expected.
        """
        unit = self.turn
        if unit is None or self._at >= self._allowed:
            return None
        if not unit.is_sum:
            rate = rates(self.version, unit.versions[0])
            unit = replace(unit, shares=((rate, rate),))
        fate = self._fate(unit)
        if fate is None:
            return None
        expected = self._order[self._at : self._at + len(unit.members)]
        versions = [self._versions[number] for number in expected]
        if expected != list(unit.members) or versions != list(unit.versions):
            raise ValueError(f"expected are updates {expected} of versions {versions}, and {unit} came")
        del self._held[self._order[self._at]]
        self._at += len(unit.members)
        return self._decide(unit, fate)

    def _fate(self, unit: Unit) -> Fate | None:
        """Return the fate of the unit whose turn it is; None if that is still to be seen."""
        stale = max(self.version + at - version for at, version in enumerate(unit.versions))
        is_late = self._bound is not None and stale >= self._bound
        if self._lead is not None:
            self._weigh(self._lead, unit, is_late)
            if not is_late and self.replicated < self._lead.needed(self._at + len(unit.members)):
                return None
        if is_late:
            return Fate.LATE
        return Fate.AGGREGATED if unit.is_sum else Fate.DIRECT

    def _weigh(self, lead: Lead, unit: Unit, is_late: bool) -> None:
        """Add the unit to the distance that the weights move, when its turn has come."""
        if len(lead) > self._at:
            return
        if is_late:
            lead.pass_over(len(unit.members))
        else:
            counts = zip(unit.members, sums.rates(unit.shares, self._momentum), strict=True)
            lead.add(rate * self.norms.get(number, 0.0) for number, rate in counts)

    def let_go(self) -> None:
        """Stop waiting for the replica, which is lost."""
        self._lead = None

    def _entered(self, step: Step) -> list[Entry]:
        """Return the entries that a step adds to the journal."""
        return step.entries

    def _decide(self, unit: Unit, fate: Fate) -> Step:
        step = Step(unit, fate, self.version)
        self.steps.append(step)
        self.leads.append(min(self.replicated, self._at))
        self.entries += self._entered(step)
        self.version += len(unit.members) if fate.is_applied else 0
        return step


class Copy(Journal):
    """The journal of a replica: a unit is applied once the server has decided all that is in it, and as it has decided.

    Once the server is lost, the copy is the journal (:meth:`take_over`): it makes up for what the server had done and
    then decides itself. Entries are the server's as far as anybody knows them, and then its own. A step may be both: a
    sum for the replica may contain updates that the server had decided, and some that it had not.

    Attributes:
        inherited: how many entries are the server's; None while that serves.
        own_from: how many steps had been made when it took over.
        had: how many updates of the order were here then, without a gap; applied or not.
    """

    def __init__(self) -> None:
        super().__init__(None)
        self._decided: dict[int, Fate] = {}
        """Fates at the server of updates that were not applied here yet."""
        self._before = self._here = 0
        """Number of updates of the order in the state that the server sent last; and of those here that came since."""
        self._theirs: set[int] = set()
        self.inherited: int | None = None
        self.own_from = self.had = 0

    @property
    def here(self) -> int:
        """Number of updates of the order that are here, without a gap."""
        while self._here < len(self._order) and self._order[self._here] in self._known:
            self._here += 1
        return self._before + self._here

    def begin_again(self, at: int, version: int) -> None:
        """Start again from the server's weights, which contain the first ``at`` updates of its order. All that follows
        is told anew."""
        self._order, self._versions, self._held, self._known, self._decided = [], {}, {}, set(), {}
        self._at = self._here = 0
        self._before, self.version = at, version

    @property
    def is_level(self) -> bool:
        """Whether the copy has caught up with all that the server had decided."""
        return not self._decided

    def decided(self, entries: Sequence[Entry]) -> None:
        """Note the fates of updates at the server. Updates that it dropped are in no order."""
        self._decided |= {number: Fate(fate) for number, fate in entries if fate != Fate.DROPPED}

    def take_over(
        self, order: Sequence[int], versions: Sequence[int], entries: Sequence[Entry], bound: int | None
    ) -> None:
        """Take over from the server, which is lost. ``order`` is all that was to be applied, with the updates'
        versions, and ``entries`` is what the server is known to have decided.

        Raises:
            ValueError: they do not go on where the copy is.
        """
        told = len(self._order)
        if list(order[:told]) != self._order:
            raise ValueError(f"the order was {self._order[-20:]}, and is {list(order[:told])[-20:]}")
        self.expect(order[told:], versions[told:])
        fates = dict(entries)
        if unknown := [number for number, _ in self.entries if number not in fates]:
            raise ValueError(f"the server has told of updates {unknown[:20]}, which nobody else knows")
        done = {number for number, _ in self.entries}
        self._decided = {}
        self.decided([(number, fate) for number, fate in entries if number not in done])
        self._theirs = {*fates}
        self._known.update(number for number, fate in entries if fate == Fate.DROPPED)
        self.entries, self.inherited, self.own_from, self._bound = list(entries), len(entries), len(self.steps), bound
        self.had = self.here

    def new(self, step: Step) -> list[Entry]:
        """Return the entries of a step that the server had not made."""
        return [entry for entry in step.entries if entry[0] not in self._theirs]

    def _entered(self, step: Step) -> list[Entry]:
        return self.new(step)

    def _fate(self, unit: Unit) -> Fate | None:
        told = {number: self._decided[number] for number in unit.members if number in self._decided}
        fates = {*told.values()}
        if len(told) < len(unit.members):
            if self.inherited is None:
                return None
            stale = max(self.version + at - unit.versions[at] for at in range(len(told), len(unit.members)))
            fates.add(Fate.LATE if self._bound is not None and stale >= self._bound else Fate.DIRECT)
        if Fate.LATE in fates and fates != {Fate.LATE}:
            raise ValueError(f"the server has discarded a part of updates {list(unit.members)}, and they are summed")
        for number in told:
            del self._decided[number]
        if Fate.LATE in fates:
            return Fate.LATE
        return Fate.AGGREGATED if unit.is_sum else Fate.DIRECT
