"""A paper's claim as data: what the paper says and where, what measures it here, and how it is decided.

A claim is a function from the runs of its experiments to a :class:`Finding`: rows of numbers, each the paper's,
theory's and ours side by side, and the checks that decide it. Nothing in it touches the machine, so made-up runs can
show that a claim would fail.

A statement holds where the whole 95 % interval agrees with it, and fails where none of it does. In between, more
repeats would have to tell, and so they would where nothing VALID was measured.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import TypeAlias

import numpy as np

from testbed.analysis.numbers.statistics import Interval
from testbed.analysis.papers.evidence import ITERATION_TIMES, Measured
from testbed.analysis.recorded import Run

Stated: TypeAlias = float | tuple[float, float] | None
"""A paper's value, or the range that it names; None where it has no number."""


class Verdict(StrEnum):
    """Outcome of a claim here."""

    HOLDS = "holds"
    FAILS = "fails"
    UNDECIDED = "not decided"


@dataclass(frozen=True)
class Row:
    """One number of a claim; all in ``unit``.

    Attributes:
        paper: the paper's value.
        theory: what our forests, topologies and models say; None where they say nothing.
        ours: what was measured; None for a number that is modelled only.
    """

    name: str
    unit: str
    paper: Stated = None
    theory: float | None = None
    ours: Measured | None = None

    @property
    def interval(self) -> Interval | None:
        """Interval of what was measured, or of theory alone if the number is modelled only; None where unknown."""
        if self.ours is not None:
            return self.ours.interval
        return None if self.theory is None else Interval(self.theory, self.theory, self.theory)

    @property
    def doubt(self) -> str:
        """Why it is not known, or with too little."""
        if self.ours is None:
            return "it is not modelled"
        if self.ours.doubts:
            return "; ".join(dict.fromkeys(self.ours.doubts))
        return f"{len(self.ours.samples)} samples are too few"


@dataclass(frozen=True)
class Statement:
    """One statement that a claim is made of, whether it holds here, and why it does not."""

    says: str
    verdict: Verdict
    why: str = ""


@dataclass(frozen=True)
class Finding:
    """Result of checking a claim. The first row stands for the claim where there is room for one."""

    rows: tuple[Row, ...]
    checks: tuple[Statement, ...]
    notes: tuple[str, ...] = ()

    @property
    def verdict(self) -> Verdict:
        """A claim fails with any of its checks, and holds with all of them."""
        found = {check.verdict for check in self.checks}
        return next((one for one in (Verdict.FAILS, Verdict.UNDECIDED) if one in found), Verdict.HOLDS)


@dataclass(frozen=True)
class Experiment:
    """Experiment that measures a claim: a spec under ``experiments/`` and the settings (``--set``) of each mode.

    Attributes:
        quick: changes for two cores and a few minutes; None where that cannot be had.
        full: changes for as long as it takes.
        number: the name of the number that claims take from it: trials that are INVALID in it decide nothing.
    """

    spec: str
    quick: tuple[str, ...] | None
    full: tuple[str, ...]
    number: str = ITERATION_TIMES

    def settings(self, full: bool) -> tuple[str, ...] | None:
        """The changes of a mode; None where it has no such experiment."""
        return self.full if full else self.quick


Runs: TypeAlias = Mapping[str, Run]
"""Runs by spec, one of each experiment that there is."""


@dataclass(frozen=True)
class Claim:
    """Claim of a paper, and how it is decided.

    Attributes:
        name: ``PAPER.CLAIM``.
        says: the claim, in our words.
        where: section, figure or table.
        decide: the finding, from the runs of its experiments; one whose run is missing is not decided.
        assumes: what the paper leaves open and is taken here.
        decide_full: the same with more that is computed, for ``--full``; None where that is as much as always.
        computes_s: about how long deciding takes (s), if that is worth to be told.
    """

    name: str
    says: str
    where: str
    decide: Callable[[Runs], Finding]
    experiments: tuple[Experiment, ...] = ()
    assumes: tuple[str, ...] = ()
    decide_full: Callable[[Runs], Finding] | None = None
    computes_s: float = 0.0


@dataclass(frozen=True)
class Paper:
    """A paper and its claims, whose names begin with ``prefix``, if not with its own name."""

    name: str
    title: str
    claims: tuple[Claim, ...]
    prefix: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """Words that may stand for the paper before a claim's name; the prefix of its claims comes first."""
        return (self.prefix, self.name) if self.prefix else (self.name,)


def number(value: float, unit: str = "") -> str:
    """``1.78 T_F``, ``56.4 %``, ``12``: three digits, of per cents one behind the point."""
    if not np.isfinite(value):
        return "unknown"
    digits = f"{value:.1f}" if unit == "%" else f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"
    return f"{digits} {unit}".strip()


def stated(value: Stated, unit: str = "") -> str:
    """A paper's value, or its range; that of an interval, too."""
    if value is None:
        return "-"
    if isinstance(value, tuple) and np.isinf(value[1]):
        return f"{number(value[0], unit)} or more" if np.isfinite(value[0]) else "unknown"
    if isinstance(value, tuple):
        low, high = (number(one, unit).removesuffix(unit).strip() for one in value)
        return f"{low} to {high} {unit}".strip()
    return number(value, unit)


def within(says: str, row: Row, low: float = -np.inf, high: float = np.inf) -> Statement:
    """The row's number is from ``low`` to ``high``."""
    found = row.interval
    if found is None:
        return Statement(
            says, Verdict.UNDECIDED, row.doubt if says.startswith(row.name) else f"{row.name}: {row.doubt}"
        )
    if low <= found.low and found.high <= high:
        return Statement(says, Verdict.HOLDS)
    outside = found.high < low or high < found.low
    who = "" if says.startswith(row.name) else f"{row.name}: "
    why = f"{who}{_text(found, row.unit)}, where {_limits(low, high, row.unit)} would agree"
    return Statement(says, Verdict.FAILS if outside else Verdict.UNDECIDED, why)


ALL_SIMULATED = (
    "All trials are simulated, so nothing is VALID: links have queues, and there are no packets, no TCP and no "
    "processors."
)
"""Note on claims that only runs in simulated time decide."""


def near(says: str, row: Row, share: float) -> Statement:
    """The row's number is the paper's, or off by at most that share of it."""
    assert isinstance(row.paper, int | float), f"{row.name}: the paper gives no number"
    return within(says, row, row.paper * (1 - share), row.paper * (1 + share))


def near_beyond_1(says: str, row: Row, share: float) -> Statement:
    """State that the row's ratio has beyond 1 what the paper's has, or is off by at most that share of it: of a cost
    that is small, a share of the whole ratio would let none at all pass."""
    assert isinstance(row.paper, int | float), f"{row.name}: the paper gives no number"
    ends = (1 + (row.paper - 1) * (1 - share), 1 + (row.paper - 1) * (1 + share))
    return within(says, row, min(ends), max(ends))


def falling(says: str, rows: Sequence[Row]) -> Statement:
    """Each row's number is below the one before."""
    checks = [_below(says, later, earlier) for earlier, later in pairwise(rows)]
    for verdict in (Verdict.FAILS, Verdict.UNDECIDED):
        for check in checks:
            if check.verdict == verdict:
                return check
    return Statement(says, Verdict.HOLDS)


def rising(says: str, rows: Sequence[Row]) -> Statement:
    """Each row's number is above the one before."""
    return falling(says, rows[::-1])


def _below(says: str, less: Row, more: Row) -> Statement:
    low, high = less.interval, more.interval
    if low is None or high is None:
        unknown = less if low is None else more
        return Statement(says, Verdict.UNDECIDED, f"{unknown.name}: {unknown.doubt}")
    if low.high < high.low:
        return Statement(says, Verdict.HOLDS)
    why = f"{less.name} ({_text(low, less.unit)}) is not below {more.name} ({_text(high, more.unit)})"
    return Statement(says, Verdict.FAILS if low.low >= high.high else Verdict.UNDECIDED, why)


def true(says: str, is_so: bool, otherwise: str) -> Statement:
    """State something that is computed and exact, and so is decided in any case."""
    return Statement(says, Verdict.HOLDS if is_so else Verdict.FAILS, "" if is_so else otherwise)


def _text(found: Interval, unit: str) -> str:
    if found.low == found.high:
        return number(found.value, unit)
    return f"{number(found.value, unit)} ({stated((found.low, found.high), unit)})"


def _limits(low: float, high: float, unit: str) -> str:
    if low == -np.inf:
        return f"at most {number(high, unit)}"
    return f"at least {number(low, unit)}" if high == np.inf else stated((low, high), unit)


@dataclass(frozen=True)
class Table:
    """Rows of text under a header, the first ``left`` columns to the left; ``notes`` say where the paper's numbers
    differ, and why."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()
    left: int = 1
