"""The page about all checks, made of what each says of itself: ``reference/checks.md`` of the documentation."""

from __future__ import annotations

from collections.abc import Iterable

from testbed.analysis.verdicts import CALLED, NUMBERS
from testbed.base.check import About
from testbed.fidelity.judgement import FASTEST, SOUND, abouts

NEEDED = ", ".join(about.name for about in abouts() if about.needed)
HEADER = ("check", "sees", "cannot see", "threatens", "about the machine")
INTRODUCTION = f"""\
# Checks

This page is made by `python -P -m testbed.fidelity`. Each check is described in a file in `testbed/fidelity/`, together
with its limit and the measurements that the limit was set from.

A trial reports up to {len(NUMBERS)} numbers: {", ".join(CALLED.values())}. Each has its own verdict. A number
is INVALID if a check that threatens it fails. A trial is VALID if all its numbers are.

**Not watched.** A check that was not made is *not watched*, in records, tables and reports; it is never *ok*. A number
is **UNWATCHED** if no check failed, no bound certifies it, and one of these checks was not made: {NEEDED}.
Nobody saw then whether a process stood still or waited for a core. An UNWATCHED number counts nowhere as VALID: not in
medians, ratios, gates, claims or `repeats: until`. The trial is not measured again, because that would not help.

**Simulated.** A number of a place that plays trials in simulated time is **SIMULATED**, and counts nowhere as VALID
either. It is INVALID if links carried other bytes than theory says, an event was not carried out, or a time is below
its lower bound. The error of GST is the worst by which simulated trials of the scheme differed from emulated ones
(`testbed/fidelity/known_errors.json`); of a job beside others, of its scheme beside theirs. It is null, and not known,
for any other scheme, beside flows of others, if circuits move or steps jitter, with `overlap: both` or
`priority: layer`, and for all other numbers.

**Error.** A lower bound and a measurement bracket the truth. A GST of 1.01 times its lower bound is too long by
at most 1 %. A worker that computes longer than its pace can make GST too short, since the others send before GST
begins; the error includes that. The record holds the error, as a share, as the number's `error`, or null where it
is not known.

**Certified.** A number is certified if its error is at most `certify` (in the spec; 3 % by default). A slow
machine can only make times longer. So failed checks about the machine do not make a certified number INVALID; they
are reported. The bound must be one to trust: no link may have been more than {100 * (FASTEST - 1):.0f} % faster than
asked, and these checks must have been made and passed: {", ".join(SOUND)}.

**Excused.** `excused` lists the failed checks that are not held against a certified number. The
certificate of GST is about the median over iterations, and so are most checks of GST. So the 95th percentile of GST
is VALID only if both GST and JCT are VALID and no check was excused for either.

Numbers of asynchronous schemes and commands have no error, so none is certified. (For asynchronous schemes, "lower
bound" only finds times that are too short to be possible.) The bound leaves out delays, jitter of links
or steps, and background flows, so with these it is often too low to certify anything. JCT, samples/s and iteration
times have no bound with `compute: real`, because the least time of computing is not known then, and none with
`overlap: both`.

Exposed waiting can be zero, so its error is a share of an iteration. It is the larger of two shares, plus a third.
First: by how much iterations are too long, for no disturbance makes waiting longer by more. Second: by how much waiting
is shorter than the paces ask for. Third: the longest time by which one worker can have the sum before the last one. It
is not known with any `overlap`, with `compute: real`, or if links or circuits were changed during the trial.
"""


def page() -> str:
    """Write the page as Markdown."""
    lines = [_row(HEADER), _row("---" for _ in HEADER), *(_row(_cells(about)) for about in abouts())]
    return INTRODUCTION + "\n" + "\n".join(lines) + "\n"


def _cells(about: About) -> tuple[str, ...]:
    every = len(about.threatens) == len(NUMBERS)
    threatens = "all numbers" if every else ", ".join(CALLED[name] for name in about.threatens)
    machine = "yes" if about.machine else about.machine_when or "no"
    return about.name, about.sees, about.misses, threatens, machine


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
