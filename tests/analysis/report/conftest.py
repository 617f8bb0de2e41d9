"""The made-up run, read."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.load import load
from analysis.recorded import Run
from analysis.report.points import apart


@pytest.fixture
def run(run_dir: Path) -> Run:
    return load(run_dir)


@pytest.fixture
def sweep(swept: Path) -> Run:
    return apart(load(swept))
