"""A paper's claim as data: what the paper says and where, what measures it here, and how it is decided.

A claim is a function from the runs of its experiments to a :class:`Finding`: rows of numbers, each the paper's,
theory's and ours side by side, and the checks that decide it. Nothing in it touches the machine, so made-up runs can
show that a claim would fail.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
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
        name: what it is the number of.
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
        """Interval of our value: measured, or, of a number that is modelled only, theory's; None where it is not
        known."""
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
    """Result of checking a claim. The first row stands for the claim where there is room for one; ``notes`` say what
    differs."""

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
    """A paper and its claims.

    Attributes:
        prefix: what the names of its claims begin with, if not with its own name.
    """

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
