"""The page about all checks, made of what each says of itself: ``docs/reference/checks.md``."""

from __future__ import annotations

from collections.abc import Iterable

from analysis.verdicts import CALLED, NUMBERS
from testbed.fidelity.check import About
from testbed.fidelity.judgement import ABOUT, FASTEST, SOUND

HEADER = ("check", "sees", "cannot see", "threatens", "about the machine")
INTRODUCTION = f"""\
# Checks

This page is made by `python -m testbed.fidelity`. Each check is described in a file in `testbed/fidelity/`, together
with its limit and the measurements that the limit was set from.

A trial reports up to {len(NUMBERS)} numbers: {", ".join(CALLED.values())}. Each has its own verdict. A number
is INVALID if a check that threatens it fails. A trial is VALID if all its numbers are.

**Error.** A lower bound and a measurement bracket the truth. A GST of 1.01 times its lower bound is too long by
at most 1 %. The record holds that share as the number's `error`, or null where it is not known.

**Certified.** A number is certified if its error is at most `certify` (in the spec; 3 % by default). A slow
machine can only make times longer. So failed checks about the machine do not make a certified number INVALID; they
are reported. The bound must be one to trust: no link may have been more than {100 * (FASTEST - 1):.0f} % faster than
asked, and these checks must have been made and passed: {", ".join(SOUND)}.

**Excused.** The record holds the names of the failed checks that do not count as the number's `excused`. The
certificate of GST is about the median over iterations, and so are most checks of GST. So the 95th percentile of GST
is VALID only if both GST and JCT are VALID and no check was excused for either.

Asynchronous schemes and commands have no bound, so nothing is certified. The bound leaves out delays, jitter of links
or steps, and background flows, so with these it is often too low to certify anything. JCT, samples/s and iteration
times have no bound with `compute: real`, because the least time of computing is not known then, and none with
`overlap: both`.

A worker that computed longer than its pace lets the others send before GST begins, so the error of GST holds that
delay, too. The error of exposed waiting is a share of an iteration, for waiting may be zero. It is the largest of two:
by how much iterations are too long, for no disturbance makes workers wait by more than that; and by how much waiting is
shorter than the paces ask for. Added to that is for how long a worker may have the sum before the others.
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
