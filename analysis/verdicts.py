"""The verdicts of a trial's numbers: each is VALID, INVALID, UNWATCHED or SIMULATED by itself, with how far off it can
be at most.

UNWATCHED: no check failed, but nobody saw whether processes stood still or waited for a core, and no bound certifies
the number. SIMULATED: no check failed, and the number is a model's. Such numbers count nowhere as VALID.

Records of a version before that have one verdict for the whole trial, which is then that of every number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from testbed.analysis.record.fields import SHARE, Part, optional, read, required, shape_of
from testbed.base.check import NUMBERS as NUMBERS
from testbed.files.shape import NO_NULL, OBJECT, Kind, check

VALID, INVALID, UNWATCHED, SIMULATED = "VALID", "INVALID", "UNWATCHED", "SIMULATED"
VERDICTS = (VALID, INVALID, UNWATCHED, SIMULATED)
_VERDICT = Kind(f"verdict ({', '.join(VERDICTS)})", lambda value: value in VERDICTS)
CALLED = dict(zip(NUMBERS, ("GST", "JCT", "samples/s", "iteration times", "exposed waiting"), strict=True))
"""Names of the numbers as people call them."""
FAILED = "FAILED"
GST_P95 = "gst_p95"
WITHOUT_CERTIFICATE = {GST_P95: ("gst", "jct")}
"""Judged by the numbers named, but not by their certificates, which are about a median and a sum: VALID if all of them
are VALID and no failed check was excused. GST alone is not enough: a process that stands still in a few iterations
threatens JCT, but not the median of GST. Two real-time hogs that ran for 1.6 s of 9 s made a p95 3.5 times too long,
and no check that threatens GST failed."""
_LIKE = {"waiting": "iterations"}
"""Numbers of which a short text says nothing where they have the verdict of the one named."""


@dataclass(frozen=True)
class Number(Part):
    """The verdict of one number of a trial. Names of checks are empty in records of earlier versions."""

    verdict: str = required(
        "`VALID`, `INVALID`, `UNWATCHED`: nothing failed, but nobody watched the processes, or `SIMULATED`: a model's",
        bound=_VERDICT,
    )
    error: float | None = optional("by how much the number can be off at most; null if not known", SHARE)
    bound_s: float | None = optional("the lower bound that this is from")
    certified: bool = optional(
        "whether the bound is so near that the machine cannot have changed the number much", default=False
    )
    began: str | None = optional(
        "when the attempt began that it is from, if not the one that the samples are of", "ISO 8601", key="from"
    )
    spoilt_by: tuple[str, ...] = optional("checks that make it INVALID", default=())
    excused: tuple[str, ...] = optional("failed checks of the machine that do not count against it", default=())
    unwatched: tuple[str, ...] = optional("checks that it needs and that were not made", default=())


def numbers_of(fidelity: Mapping[str, Any]) -> dict[str, Number]:
    """Read the verdicts of those of :data:`NUMBERS` that a trial's ``fidelity`` judges, by name; nothing of a trial
    that did not finish.

    Raises:
        KeyError: a number has no verdict.
        ValueError: it is damaged.
    """
    if not fidelity:
        return {}
    if "numbers" not in fidelity:
        check(fidelity["verdict"], _VERDICT, "verdict")
        return dict.fromkeys(NUMBERS, Number(fidelity["verdict"]))
    check(fidelity["numbers"], OBJECT, "numbers")
    known = {name: fidelity["numbers"][name] for name in NUMBERS if name in fidelity["numbers"]}
    check(known, {NO_NULL: shape_of(Number)}, "numbers")
    return {name: read(Number, raw) for name, raw in known.items()}


def verdict_of(numbers: Mapping[str, Number], name: str) -> Number | None:
    """The verdict of one of a trial's numbers, or of what is judged by some of them (:data:`WITHOUT_CERTIFICATE`); None
    if the trial does not report it."""
    if name not in WITHOUT_CERTIFICATE:
        return numbers.get(name)
    found = [numbers[each] for each in WITHOUT_CERTIFICATE[name] if each in numbers]
    if len(found) < len(WITHOUT_CERTIFICATE[name]):
        return None
    spoilt_by = tuple(dict.fromkeys(check for one in found for check in (*one.spoilt_by, *one.excused)))
    unwatched = tuple(dict.fromkeys(check for one in found for check in one.unwatched))
    if spoilt_by or any(one.verdict == INVALID for one in found):
        return Number(INVALID, spoilt_by=spoilt_by, unwatched=unwatched)
    return Number(UNWATCHED if unwatched else joint_verdict(one.verdict for one in found), unwatched=unwatched)


def joint_verdict(verdicts: Iterable[str]) -> str:
    """Return the verdict of several numbers, or of one number in several trials, none of which is VALID in some:
    INVALID if any is, else UNWATCHED if any is, else SIMULATED if any is."""
    known = set(verdicts)
    return next((verdict for verdict in (INVALID, UNWATCHED, SIMULATED) if verdict in known), VALID)


def in_short(trials: Sequence[Mapping[str, Number]]) -> str:
    """The verdicts of a cell's trials in a few words; a trial that failed has no numbers.

    ``VALID`` if all are; ``2 of 3 VALID`` if that is so for every number. Where GST and JCT differ: ``GST VALID, JCT
    INVALID`` of one trial, ``GST 3, JCT 2 of 3 VALID`` of several. Others are named where only they differ: ``VALID
    except iteration times``. Without a VALID one: their joint verdict.
    """
    total = len(trials)
    names = [name for name in NUMBERS if any(name in trial for trial in trials)]
    if not names:
        return FAILED
    count = {name: sum(name in trial and trial[name].verdict == VALID for trial in trials) for name in names}
    without = {name: joint_verdict(trial[name].verdict for trial in trials if name in trial) for name in names}
    main = sorted((name for name in ("gst", "jct") if name in count), key=lambda name: -count[name]) or names[:1]
    if total == 1 and len({without[name] for name in main}) > 1:
        return ", ".join(f"{CALLED[name]} {without[name]}" for name in main)
    if len({count[name] for name in main}) > 1:
        return ", ".join(f"{CALLED[name]} {count[name]}" for name in main) + f" of {total} VALID"
    valid = count[main[0]]
    some = f"{valid} of {total} VALID" if valid else joint_verdict(without[name] for name in main)
    whole = VALID if valid == total else some
    others = [name for name in names if count[name] != valid and count[name] != count.get(_LIKE.get(name, ""))]
    if not others:
        return whole
    if total == 1:
        return f"{whole} except {' and '.join(CALLED[name] for name in others)}"
    return f"{whole} ({', '.join(f'{CALLED[name]} {count[name]}' for name in others)})"


def errors_in_short(errors: Mapping[str, float | None]) -> str:
    """Write how far off GST and JCT can be: ``1.6 / 2.7 %``, ``1.6 % / -``; ``-`` where neither is known."""
    gst, jct = (errors.get(name) for name in ("gst", "jct"))
    if gst is None and jct is None:
        return "-"
    if gst is None or jct is None:
        return " / ".join("-" if one is None else percent(one) for one in (gst, jct))
    return f"{100 * gst:.1f} / {percent(jct)}"


def percent(share: float) -> str:
    """An error as text: ``1.6 %``."""
    return f"{100 * share:.1f} %"


def largest(errors: Sequence[float | None]) -> float | None:
    """The largest of several trials' errors; None where one of them is not known, or there are none."""
    known = [error for error in errors if error is not None]
    return max(known) if known and len(known) == len(errors) else None
