"""A check: one finding about a trial, and which of its numbers it threatens."""

from __future__ import annotations

from dataclasses import dataclass

NUMBERS = ("gst", "jct", "throughput", "iterations", "waiting")
"""Numbers that have a verdict: GST, JCT, samples per second, the times of iterations, and exposed waiting."""
GST, JCT, THROUGHPUT, ITERATIONS, WAITING = NUMBERS
ALL = NUMBERS
MACHINE = "end other programs, or ask less of this machine: slower links, or fewer hosts (testbed doctor --capacity)"
"""Remedy where this machine was too busy or too slow."""
LOWER_BOUND = "lower bound"
"""Name of the check that no number is less than it can be, whoever makes it."""
WHOLE_JOB = (JCT, THROUGHPUT, ITERATIONS, WAITING)
"""Numbers that cover computing as well as synchronising."""


@dataclass(frozen=True)
class About:
    """Facts that a reader should know of a kind of check.

    Attributes:
        sees: what it finds, and from which evidence.
        misses: what it cannot see.
        threatens: names of the numbers that it can make INVALID (:data:`NUMBERS`).
        machine: it is about the machine below the network, which can only make numbers longer. So it does not count
            against a number that is certified (:mod:`testbed.fidelity.judgement`), and the trial is measured again.
        machine_when: of a check that is so only at times, when.
        remedy: of a check of the machine, what a user can do about it, if that is not :data:`MACHINE`.
        needed: a number that it threatens is UNWATCHED if the check was not made and no bound certifies the number.
    """

    name: str
    sees: str
    misses: str
    threatens: tuple[str, ...] = ALL
    machine: bool = False
    machine_when: str = ""
    remedy: str = ""
    needed: bool = False


@dataclass(frozen=True)
class Check:
    """A finding of a check: ``value`` against ``limit`` in ``unit``, and what was looked at; None where nobody could
    look.

    ``asked`` says that the trial was to be like that, so it is told and not judged. ``threatens``, ``machine`` and
    ``needed`` are as in :class:`About`, of this one finding. ``watched`` is False of a check that was not made
    (:func:`not_watched`): it has no value, ``ok`` says only that nothing failed, and ``detail`` says why it was not
    made.
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
    needed: bool = False
    watched: bool = True


def not_watched(about: About, limit: float, unit: str, why: str, threatens: tuple[str, ...] | None = None) -> Check:
    """Make a check that was not made; ``why`` says what was missing. ``threatens`` is the kind's own unless given."""
    return Check(
        about.name,
        None,
        limit,
        unit,
        True,
        why,
        threatens=about.threatens if threatens is None else threatens,
        machine=about.machine,
        needed=about.needed,
        watched=False,
    )
