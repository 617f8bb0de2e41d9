"""The verdicts of a trial's numbers: each of them is VALID or INVALID by itself, with how far off it can be at most.

Records of a version before that have one verdict for the whole trial, which is then that of every number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from testbed.files import number

VALID, INVALID = "VALID", "INVALID"
NUMBERS = ("gst", "jct", "throughput", "iterations", "waiting")
"""What has a verdict: GST, JCT, samples per second, the times of iterations, and exposed waiting."""
CALLED = dict(zip(NUMBERS, ("GST", "JCT", "samples/s", "iteration times", "exposed waiting"), strict=True))
"""What people call them."""
FAILED = "FAILED"
_LIKE = {"waiting": "iterations"}
"""Numbers of which a short text says nothing where they have the verdict of the one named."""


@dataclass(frozen=True)
class Number:
    """The verdict of one number of a trial.

    Attributes:
        error: by how much, as a share, it is too long at most (throughput: too low); None where that is not known.
        bound_s: the lower bound that this error is from; None where there is none.
        certified: the bound is so close that no finding about the machine can make the number INVALID.
        spoilt_by: names of the checks that make it INVALID.
    """

    verdict: str
    error: float | None = None
    bound_s: float | None = None
    certified: bool = False
    spoilt_by: tuple[str, ...] = ()


def numbers_of(fidelity: Mapping[str, Any]) -> dict[str, Number]:
    """By name, those of :data:`NUMBERS` that a trial's ``fidelity`` judges; nothing of a trial that did not finish.

    Raises:
        KeyError: a number has no verdict.
        ValueError: it is damaged.
    """
    if not fidelity:
        return {}
    if "numbers" not in fidelity:
        whole = Number(_verdict("verdict", fidelity["verdict"]))
        return dict.fromkeys(NUMBERS, whole)
    found = fidelity["numbers"]
    if not isinstance(found, Mapping):
        raise ValueError(f"numbers is {found!r:.40}, no object")
    return {name: _number(name, found[name]) for name in NUMBERS if name in found}


def in_short(trials: Sequence[Mapping[str, Number]]) -> str:
    """The verdicts of a cell's trials in a few words; a trial that failed has no numbers.

    ``VALID`` if all are; ``2 of 3 VALID`` if that is so for every number. Where GST and JCT differ: ``GST VALID, JCT
    INVALID`` of one trial, ``GST 3, JCT 2 of 3 VALID`` of several. Others are named where only they differ: ``VALID but
    for iteration times``.
    """
    total = len(trials)
    names = [name for name in NUMBERS if any(name in trial for trial in trials)]
    if not names:
        return FAILED
    count = {name: sum(name in one and one[name].verdict == VALID for one in trials) for name in names}
    main = sorted((name for name in ("gst", "jct") if name in count), key=lambda name: -count[name]) or names[:1]
    if len({count[name] for name in main}) > 1:
        if total == 1:
            return ", ".join(f"{CALLED[name]} {_whole(count[name], 1)}" for name in main)
        return ", ".join(f"{CALLED[name]} {count[name]}" for name in main) + f" of {total} VALID"
    whole = _whole(count[main[0]], total)
    others = [name for name in names if count[name] != count[main[0]] and count[name] != count.get(_LIKE.get(name, ""))]
    if not others:
        return whole
    if total == 1:
        return f"{whole} but for {' and '.join(CALLED[name] for name in others)}"
    return f"{whole} ({', '.join(f'{CALLED[name]} {count[name]}' for name in others)})"


def _whole(valid: int, total: int) -> str:
    return VALID if valid == total else f"{valid} of {total} VALID" if valid else INVALID


def errors_in_short(errors: Mapping[str, float | None]) -> str:
    """How far off GST and JCT can be: ``1.6 / 2.7 %``, ``1.6 % / -``; ``-`` where neither is known."""
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


def _number(name: str, raw: object) -> Number:
    if not isinstance(raw, Mapping):
        raise ValueError(f"{name} is {raw!r:.40}, no object")
    certified, spoilt_by = raw.get("certified", False), raw.get("spoilt_by", [])
    if not isinstance(certified, bool):
        raise ValueError(f"certified of {name} is {certified!r:.40}, neither true nor false")
    if not isinstance(spoilt_by, list) or not all(isinstance(check, str) for check in spoilt_by):
        raise ValueError(f"spoilt_by of {name} is {spoilt_by!r:.40}, no list of names")
    return Number(
        verdict=_verdict(f"verdict of {name}", raw["verdict"]),
        error=_known(f"error of {name}", raw.get("error")),
        bound_s=_known(f"bound_s of {name}", raw.get("bound_s")),
        certified=certified,
        spoilt_by=tuple(spoilt_by),
    )


def _verdict(name: str, value: object) -> str:
    if value not in (VALID, INVALID):
        raise ValueError(f"{name} is {value!r:.40}, neither {VALID} nor {INVALID}")
    return str(value)


def _known(name: str, value: object) -> float | None:
    return None if value is None else number(name, value)
