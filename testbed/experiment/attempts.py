"""Measured again: which trials are, and what is kept of several attempts.

A trial is measured again at the end of its round, at most ``retries`` times, as long as a number that is *wanted* is
INVALID only because of the machine. Each number is that of the first attempt in which it is VALID, so no later attempt
takes it away. The samples are those of the attempt that the trial's main number is from: GST, or JCT where there are
no iterations. ``docs/decisions/measured-again.md`` says how little this can bend a median.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from copy import deepcopy
from typing import Any

from testbed import fidelity
from testbed.analysis.jobs import JOBS
from testbed.analysis.verdicts import INVALID, VALID, joint_verdict
from testbed.base.check import GST, ITERATIONS, JCT, THROUGHPUT, WAITING

WANTED = (GST, JCT, THROUGHPUT)
"""Numbers for which a trial is measured again, where nobody asks for fewer: those of the table that a run ends with."""
IN_A_ROW = 3
"""Trials that failed for one cause of the machine, after which nothing is measured again."""
_METRICS = {
    JCT: ("jct_s", "compute_s", "sync_s"),
    THROUGHPUT: ("throughput_sps",),
    ITERATIONS: ("iteration_median_s", "iteration_p99_s"),
    WAITING: ("straggler_wait_s",),
}
"""The metrics that are a number, and come with it if it is from another attempt than the samples. GST never is."""


def disturbed(record: Mapping[str, Any], wanted: Collection[str] = WANTED) -> bool:
    """Whether a number that is wanted is INVALID only because of the machine: measuring it again may help, and selects
    nothing else."""
    return bool(causes(record, wanted))


def causes(record: Mapping[str, Any], wanted: Collection[str] = WANTED) -> frozenset[str]:
    """The checks of the machine that alone make a wanted number INVALID."""
    if record["status"] != "done":
        return frozenset()
    judged = record["fidelity"]
    if "numbers" not in judged or record.get(JOBS):  # one verdict for the whole
        failed = fidelity.failed(judged) if fidelity.only_the_machine(judged) else ()
        return frozenset(check["name"] for check in failed)
    of_machine = {check["name"]: check.get("machine", False) for check in judged["checks"] if not check["ok"]}
    numbers = [number for name, number in judged["numbers"].items() if name in wanted and number["verdict"] == INVALID]
    alone = [number["spoilt_by"] for number in numbers if all(of_machine.get(name) for name in number["spoilt_by"])]
    return frozenset(name for names in alone for name in names)


def joined(before: Mapping[str, Any] | None, now: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    """The record of a trial that had one ``before`` and was measured again, and whether the samples are the new ones.

    An attempt that failed fails the trial: a scheme that crashes at times must not seem to run. Jobs that share a
    network are measured together: the last attempt of all of them counts.
    """
    if before is None or before["status"] != "done":
        return now | {"attempts": list((before or {}).get("attempts") or ())}, True
    earlier = list(before.get("attempts") or ())
    if now["status"] != "done" or now.get(JOBS) or "numbers" not in before["fidelity"]:
        return now | {"attempts": [*earlier, _told(before)]}, True
    main = GST if GST in now["fidelity"]["numbers"] else JCT
    is_new = not _is_valid(before, main)
    record, other = deepcopy((dict(now), dict(before)) if is_new else (dict(before), dict(now)))
    taken = [name for name in _METRICS if _is_valid(other, name) and (is_new or not _is_valid(record, name))]
    for name in taken:  # the earlier one counts if both are VALID
        _take(record, other, name)
    for name, with_it in ((JCT, THROUGHPUT), (THROUGHPUT, JCT)):  # samples a second and JCT of one row agree
        if with_it in taken and not _is_valid(record, name) and name in other["fidelity"]["numbers"]:
            _take(record, other, name)
    verdicts = {number["verdict"] for number in record["fidelity"]["numbers"].values()}
    record["fidelity"]["verdict"] = joint_verdict(verdicts)
    record["attempts"] = [*earlier, _told(before if is_new else now)]
    return record, is_new


def _is_valid(record: Mapping[str, Any], name: str) -> bool:
    number = record["fidelity"]["numbers"].get(name)
    return number is not None and number["verdict"] == VALID


def _take(record: dict[str, Any], other: Mapping[str, Any], name: str) -> None:
    """Put a number and its metrics in place of the record's own."""
    record["fidelity"]["numbers"][name] = {**other["fidelity"]["numbers"][name], "from": other["started"]}
    record["metrics"] |= {key: other["metrics"][key] for key in _METRICS[name] if key in other["metrics"]}


def _told(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is kept of an attempt besides the numbers that count: its own numbers and why, but none of its
    samples."""
    judged = record["fidelity"]
    return {
        "started": record["started"],
        "duration_s": record["duration_s"],
        "verdict": judged["verdict"],
        "numbers": {name: number["verdict"] for name, number in judged.get("numbers", {}).items()},
        "reasons": [f"{check['name']}: {check['detail']}" for check in judged["checks"] if not check["ok"]],
        "metrics": record["metrics"],
        "waited": record.get("waited"),
    }


class Patience:
    """Ends when trial after trial fails for one cause of the machine, for measuring again would not help then."""

    def __init__(self) -> None:
        self._causes: dict[str, frozenset[str]] = {}
        self.lost_by = ""
        """The cause; empty as long as there is patience."""

    def note(self, trial: str, found: frozenset[str]) -> None:
        """A trial was measured; ``found`` are the :func:`causes` that spoil what is wanted of it."""
        others = [(name, of) for name, of in self._causes.items() if name != trial]
        self._causes = dict([*others[1 - IN_A_ROW :], (trial, found)]) if found else {}
        common = frozenset.intersection(*self._causes.values()) if len(self._causes) == IN_A_ROW else frozenset()
        self.lost_by = self.lost_by or min(common, default="")
