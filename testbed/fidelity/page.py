"""The page about all checks, made of what each says of itself: ``docs/reference/checks.md``."""

from __future__ import annotations

from collections.abc import Iterable

from analysis.verdicts import CALLED, NUMBERS
from testbed.fidelity.check import About
from testbed.fidelity.judgement import ABOUT, SOUND

HEADER = ("check", "sees", "cannot see", "threatens", "about the machine")
INTRODUCTION = f"""\
# Checks

This page is made by `python -m testbed.fidelity`. Each check is a file in `testbed/fidelity/`, which also says
what its limit was set from.

A trial reports up to {len(NUMBERS)} numbers: {", ".join(CALLED.values())}. Each has its own verdict. A number
is INVALID if a check fails that threatens it. A trial is VALID if all its numbers are.

**Error.** A lower bound and a measurement bracket the truth. A GST of 1.01 times its lower bound is too long by
at most 1 %. The record holds that share as the number's `error`, or null where it is not known.

**Certified.** A number is certified if its error is at most `certify` (in the spec; 3 % by default). What a
slow machine does can only make times longer. So checks about the machine do not count against a certified
number; they are told. The bound must be one to trust: no link may have been faster than asked, and these checks
must have been made and passed: {", ".join(SOUND)}.

Where no bound is tight, nothing is certified: asynchronous schemes, jitter, background flows, commands. JCT,
samples/s, iteration times and exposed waiting are certified only with a pace. Without, nobody knows how long
computing takes at least.
"""


def page() -> str:
    """The page as Markdown."""
    lines = [_row(HEADER), _row("---" for _ in HEADER), *(_row(_cells(about)) for about in ABOUT)]
    return INTRODUCTION + "\n" + "\n".join(lines) + "\n"


def _cells(about: About) -> tuple[str, ...]:
    every = len(about.threatens) == len(NUMBERS)
    threatens = "all numbers" if every else ", ".join(CALLED[name] for name in about.threatens)
    machine = "yes" if about.machine else about.machine_when or "no"
    return about.name, about.sees, about.misses, threatens, machine


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
