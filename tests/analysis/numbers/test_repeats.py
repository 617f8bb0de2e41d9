"""Which repeats of a cell a number is from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from testbed.analysis.numbers.repeats import compared, counted, values
from testbed.analysis.verdicts import INVALID, VALID, Number

CALM = Number(VALID)
CERTIFIED = Number(VALID, certified=True, excused=("CPU steal",))
REFUSED = Number(INVALID, spoilt_by=("CPU steal",))


@dataclass(frozen=True)
class Trial:
    repeat: int
    gst: Number | None
    done: bool = True
    worlds: tuple[int | None, ...] = field(default=(4,))
    work: tuple[int, int] | None = None

    @property
    def numbers(self) -> Mapping[str, Number]:
        return {"gst": self.gst} if self.gst else {}

    def metric(self, name: str) -> float | None:
        return float(self.repeat) if name == "gst_median_s" else None


@pytest.mark.parametrize(
    ("judged", "members"),
    [
        ([CALM, CALM, CALM], [0, 1, 2]),
        ([CALM, CERTIFIED, CALM], [0, 1, 2]),  # none was refused, so the certificate has selected nothing
        ([CALM, CERTIFIED, REFUSED], [0]),
        ([CERTIFIED, CERTIFIED, REFUSED], [0, 1]),
        ([REFUSED, REFUSED], [0, 1]),
        ([CALM, REFUSED, None], [0]),
    ],
)
def test_certified_numbers_count_unless_others_were_refused_and_some_need_no_certificate(
    judged: list[Number | None], members: list[int]
) -> None:
    trials = [Trial(repeat, number, done=number is not None) for repeat, number in enumerate(judged)]
    assert [trial.repeat for trial in counted(trials, "gst")] == members
    assert values(trials, "gst_median_s") == members
    valid = [trial.repeat for trial in compared(trials) if trial.of["gst"][0]]
    assert valid == [member for member in members if judged[member] is not REFUSED]
