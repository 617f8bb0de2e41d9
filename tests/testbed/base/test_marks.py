"""What a script tells of itself."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping

import pytest

import testbed
from testbed.base import marks


class _Kept:
    def __init__(self) -> None:
        self.told: list[Mapping[str, float] | None] = []

    def mark(self) -> None:
        self.told.append(None)

    def log(self, values: Mapping[str, float]) -> None:
        self.told.append(values)


def test_outside_of_a_trial_nothing_is_even_looked_at() -> None:
    testbed.mark()
    testbed.log(loss="no number")  # type: ignore[arg-type]


def test_in_a_trial_marks_and_numbers_reach_who_writes_them_down(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = _Kept()
    monkeypatch.setattr(marks, "sink", kept)
    testbed.mark()
    testbed.log(loss=1.5, samples=16)
    assert kept.told == [None, {"loss": 1.5, "samples": 16.0}]
    with pytest.raises(ValueError, match="could not convert"):
        testbed.log(loss="no number")  # type: ignore[arg-type]


def test_a_script_that_tells_does_not_import_the_rest() -> None:
    look = (
        "import sys, testbed; testbed.mark(); print(sorted({'numpy', 'pydantic', 'torch', 'pandas'} & {*sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
