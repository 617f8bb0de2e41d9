"""Options of commands that compare, and the exit code that a comparison asks for.

Apart from :mod:`testbed.comparison.gate`, which can run things, and takes as long to import as a comparison does.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from testbed.analysis.comparing.compare import INCONCLUSIVE, THRESHOLDS, WORSE, Comparison
from testbed.analysis.comparing.measured import METRICS, Side
from testbed.base import exits
from testbed.base.errors import SpecError, UsageError
from testbed.base.units import share


def exit_code(found: Comparison, accept_inconclusive: bool = False) -> int:
    """Exit code of a comparison: 3 where something is worse, or more trials failed than before, unless that is
    accepted; else 4 where something is inconclusive, unless that is accepted. What has no VALID trial on a side was not
    compared, and is never accepted."""
    if found.of(WORSE) or (found.failures and not found.failures_accepted):
        return exits.REGRESSION
    undecided = [one for one in found.of(INCONCLUSIVE) if one.unmeasured or not accept_inconclusive]
    return exits.UNDECIDED if undecided else exits.OK


def wanted(thresholds: Sequence[str], metrics: Sequence[str] = ()) -> dict[str, float]:
    """Read the threshold of each metric to compare, from ``--threshold gst=5%`` and ``--metric gst``.

    Raises:
        UsageError: there is no such metric, it is not compared, or that is no share above 0.
    """
    for name in metrics:
        known_metric("--metric", name)
    found = {name: value for name, value in THRESHOLDS.items() if not metrics or name in metrics}
    for text in thresholds:
        name, _, value = text.rpartition("=")
        if name:
            known_metric("--threshold", name)
        if name and name not in found:
            fix = f"add --metric {name}, or leave that threshold out"
            raise UsageError(f"--threshold {text}: {name} is not compared, only {' and '.join(found)}", fix=fix)
        limit = _limit(text, value)
        found |= {one: limit for one in found if not name or one == name}
    return found


def pairs(arms: Sequence[str], base: Side, new: Side) -> list[tuple[str, str]] | None:
    """Read (label in BASE, label in NEW) of each ``--arms BASE=NEW``, once where it is given twice; None without any.

    Raises:
        UsageError: it is not two labels that the sides have, or is so in more than one way.
    """
    known = [dict.fromkeys(cell.label for cell in side.cells) for side in (base, new)]
    return list(dict.fromkeys(_pair(text, known) for text in arms)) or None


def _pair(text: str, known: Sequence[Collection[str]]) -> tuple[str, str]:
    """Read a pair. A label may hold ``=``, as those of arms without one do: ``ring on star(hosts=3)``."""
    ways = [(text[:i], text[i + 1 :]) for i, letter in enumerate(text) if letter == "="]
    if not any(all(way) for way in ways):
        raise UsageError(f"--arms {text}: does not name two labels", fix="write it as --arms 'PS=ring'")
    found = [way for way in ways if way[0] in known[0] and way[1] in known[1]]
    if len(found) > 1:
        told = " or ".join(f"{one!r} with {other!r}" for one, other in found)
        raise UsageError(f"--arms {text}: can mean {told}", fix="give the arms labels without = in their spec")
    if not found:
        sides = (("BASE", known[0]), ("NEW", known[1]))
        wrong = [
            [(*side, label) for side, label in zip(sides, way, strict=True) if label not in side[1]] for way in ways
        ]
        lacks = [
            f"{side} has no arm {label!r}, only {', '.join(map(repr, has)) or 'no arm at all'}"
            for side, has, label in min(wrong, key=len)
        ]
        fix = "write --arms BASE=NEW with one label of each side"
        raise UsageError(f"--arms {text}: {'; '.join(lacks)}", fix=fix)
    return found[0]


def known_metric(option: str, name: str) -> None:
    """
    Raises:
        UsageError: there is no such metric.
    """
    if name not in METRICS:
        raise UsageError(f"{option}: there is no metric {name!r}", fix=f"choose from {', '.join(METRICS)}")


def _limit(text: str, value: str) -> float:
    try:
        limit = share(value)
    except SpecError as error:
        raise UsageError(
            f"--threshold {text}: {error.problem}", fix="give a share, such as --threshold 5% or gst=5%"
        ) from None
    if limit == 0:
        raise UsageError(
            f"--threshold {text}: a threshold of 0 would count every difference", fix="give a share above 0, such as 3%"
        )
    return limit
