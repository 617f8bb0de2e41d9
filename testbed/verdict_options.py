"""What commands that compare are asked for on the command line, and the exit code that a comparison asks for.

Apart from :mod:`testbed.gate`, which can run things, and takes as long to import as a comparison does.
"""

from __future__ import annotations

from collections.abc import Sequence

from analysis.compare import INCONCLUSIVE, THRESHOLDS, WORSE, Comparison
from analysis.measured import METRICS
from testbed import exits
from testbed.errors import SpecError, UsageError
from testbed.units import share


def exit_code(found: Comparison, accept_inconclusive: bool = False) -> int:
    """3 where something is worse, else 4 where something is inconclusive, unless that is accepted."""
    if found.of(WORSE):
        return exits.REGRESSION
    return exits.UNDECIDED if found.of(INCONCLUSIVE) and not accept_inconclusive else exits.OK


def wanted(thresholds: Sequence[str], metrics: Sequence[str] = ()) -> dict[str, float]:
    """The threshold of each metric to compare, from ``--threshold gst=5%`` and ``--metric gst``.

    Raises:
        UsageError: there is no such metric, or that is no share above 0.
    """
    for name in metrics:
        known_metric("--metric", name)
    found = {name: value for name, value in THRESHOLDS.items() if not metrics or name in metrics}
    for text in thresholds:
        name, _, value = text.rpartition("=")
        if name:
            known_metric("--threshold", name)
        limit = _limit(text, value)
        found |= {one: limit for one in found if not name or one == name}
    return found


def pairs(arms: Sequence[str]) -> list[tuple[str, str]] | None:
    """(label in BASE, label in NEW) of each ``--arms BASE=NEW``; None without any.

    Raises:
        UsageError: it is not written like that.
    """
    found = []
    for text in arms:
        base, equals, new = text.partition("=")
        if not (base and equals and new):
            raise UsageError(f"--arms {text}: is not two labels", fix="write it as --arms 'PS=ring'")
        found.append((base, new))
    return found or None


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
        raise UsageError(f"--threshold {text}: {error.problem}", fix="write it as --threshold gst=5%") from None
    if limit == 0:
        raise UsageError(
            f"--threshold {text}: no two measurements are the same", fix="give a share above 0, such as 3%"
        )
    return limit
