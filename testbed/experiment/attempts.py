"""Measured again: which trials are, and what is kept of the attempts before the one that counts.

A trial that is INVALID only because of the machine is measured again at the end of its round, at most ``retries``
times. Its last attempt is the trial; the first that is not INVALID only because of the machine is the last.
``docs/decisions/measured-again.md`` says how little that can bend a median, and when not at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from testbed import fidelity


def made(record: Mapping[str, Any]) -> int:
    """How often a trial was measured, as its record has it."""
    return len(record.get("attempts") or ()) + 1


def disturbed(record: Mapping[str, Any]) -> bool:
    """Whether a trial is INVALID only because of the machine: measuring it again may help, and selects nothing else."""
    return bool(record["status"] == "done" and fidelity.only_the_machine(record["fidelity"]))


def earlier(record: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """The attempts of a trial that is measured now, the first first; ``record`` is the one that it had so far, if any.

    One that failed was no measurement, and is not among them.
    """
    if record is None:
        return []
    return [*(record.get("attempts") or ()), *([_told(record)] if record["status"] == "done" else [])]


def _told(record: Mapping[str, Any]) -> dict[str, Any]:
    """What is kept of an attempt that does not count: its numbers and why, but none of its samples."""
    judged = record["fidelity"]
    return {
        "started": record["started"],
        "duration_s": record["duration_s"],
        "verdict": judged["verdict"],
        "reasons": [f"{one['name']}: {one['detail']}" for one in judged["checks"] if not one["ok"]],
        "metrics": record["metrics"],
        "waited": record.get("waited"),
    }
