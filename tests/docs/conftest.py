"""Fixtures of several tests of the documentation."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from testbed.experiment import fit
from tests import own
from tests.docs.markdown import ROOT

GRADIENT_S = 0.03
"""The processor time of a gradient, where a spec asks for a pace that fits."""


@pytest.fixture
def without_measuring(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have specs planned in this process alone, as on a machine on which a gradient takes :data:`GRADIENT_S`."""
    own.in_this_process(monkeypatch)
    monkeypatch.setattr(fit.cache, "gradient_times_s", dict)
    monkeypatch.setattr(fit.cache, "keep_gradient_times_s", lambda times: times)
    monkeypatch.setattr(fit, "gradient_times_s", lambda trainings, _own: [GRADIENT_S] * len(trainings))


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files that the specs name."""
    folder = tmp_path_factory.mktemp("specs")
    for file in [*(ROOT / "experiments").rglob("*.py"), *(ROOT / "docs" / "extend").rglob("*.py")]:
        shutil.copy(file, folder)
    return folder
