"""The judgement of a trial: its checks, and the verdict of each number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from testbed.analysis.record.fields import Part, Text, optional, required, unread
from testbed.analysis.verdicts import Number
from testbed.base.check import NUMBERS


@dataclass(frozen=True)
class RecordedCheck(Part):
    """One reason to believe a trial, or not to: ``value`` against ``limit``."""

    name: str = required("name of the check")
    ok: bool = required("whether it did not fail: see `watched`")
    value: float | None = optional("what was measured", "see `unit`")
    limit: float | None = optional("the most (or least) that passes", "see `unit`")
    unit: str = optional("unit of value and limit", default="")
    detail: Text = optional("the finding in words", default="")
    asked: bool = optional("whether the spec asks for it, so that it is told and not judged", default=False)
    threatens: Sequence[str] = optional("the numbers that it makes INVALID if it fails", default=NUMBERS)
    machine: bool = optional("whether it is about the machine: then a certified number stays VALID", default=False)
    is_needed = unread(
        bool,
        "whether a number that it threatens is UNWATCHED without it, unless certified",
        key="needed",
        is_checked=True,
    )
    watched: bool = optional("false if the check was not made; `detail` then says why", default=True)

    @classmethod
    def current(cls, raw: Mapping[str, Any]) -> Mapping[str, Any]:
        """Complete a record of an earlier version: there, a check that was not made has no value and did not fail."""
        return raw if "watched" in raw else {**raw, "watched": raw.get("value") is not None or not raw.get("ok")}


@dataclass(frozen=True)
class Fidelity(Part):
    """The checks and verdicts of a trial. Its numbers are read by :func:`testbed.analysis.verdicts.numbers_of`."""

    verdict: str | None = optional("`VALID` if all numbers are")
    checks: tuple[RecordedCheck, ...] = optional(default=())
    numbers = unread(Mapping[str, Number])
