"""The made-up run, read once: no test changes what was read."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.analysis.load import load
from testbed.analysis.recorded import Run
from testbed.analysis.report.points import apart


@pytest.fixture(scope="session")
def run(quickstart: Path) -> Run:
    return load(quickstart)


@pytest.fixture(scope="session")
def sweep(whole_sweep: Path) -> Run:
    return apart(load(whole_sweep))
