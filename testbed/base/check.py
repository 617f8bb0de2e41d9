"""What a check is: one finding about a trial, and which of its numbers it threatens."""

from __future__ import annotations

from dataclasses import dataclass

NUMBERS = ("gst", "jct", "throughput", "iterations", "waiting")
"""What has a verdict: GST, JCT, samples per second, the times of iterations, and exposed waiting."""
GST, JCT, THROUGHPUT, ITERATIONS, WAITING = NUMBERS
ALL = NUMBERS
MACHINE = "end other programs, or ask less of this machine: slower links, or fewer hosts (testbed doctor --capacity)"
"""A remedy where this machine was too busy or too slow."""
LOWER_BOUND = "lower bound"
"""The check that no number is less than it can be, whoever makes it."""
WHOLE_JOB = (JCT, THROUGHPUT, ITERATIONS, WAITING)
"""What covers computing as well as synchronising."""


@dataclass(frozen=True)
class About:
    """What a reader should know of a kind of check.

    Attributes:
        sees: what it finds, and from which evidence.
        misses: what it cannot see.
        threatens: names of the numbers that it can make INVALID (:data:`NUMBERS`).
        machine: it is about the machine below the network, which can only make numbers longer. So it does not count
            against a number that is certified (:mod:`testbed.fidelity.judgement`), and the trial is measured again.
        machine_when: of a check that is so only at times, when.
        remedy: of a check of the machine, what a user can do about it, if that is not :data:`MACHINE`.
    """

    name: str
    sees: str
    misses: str
    threatens: tuple[str, ...] = ALL
    machine: bool = False
    machine_when: str = ""
    remedy: str = ""


@dataclass(frozen=True)
class Check:
    """One condition: ``value`` against ``limit`` in ``unit``, and what was looked at; None where nobody could look.

    ``asked`` says that the trial was to be like that, so it is told and not judged. ``threatens`` and ``machine`` are
    as in :class:`About`, of this one finding.
    """

    name: str
    value: float | None
    limit: float
    unit: str
    ok: bool
    detail: str
    asked: bool = False
    threatens: tuple[str, ...] = ALL
    machine: bool = False
