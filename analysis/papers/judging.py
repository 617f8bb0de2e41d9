"""Whether a statement about numbers holds, fails, or cannot be told: pure functions of rows.

A statement holds where the whole 95 % interval agrees with it, and fails where none of it does. In between, more
repeats would have to tell, and so they would where nothing VALID was measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from testbed.analysis.numbers.statistics import Interval
from testbed.analysis.papers.claim import Row, Statement, Verdict, number, stated


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
