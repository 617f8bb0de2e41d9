"""Fixtures of several tests of the documentation."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.docs.markdown import ROOT


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files that the specs name."""
    folder = tmp_path_factory.mktemp("specs")
    for file in [*(ROOT / "experiments").rglob("*.py"), *(ROOT / "docs" / "extend").rglob("*.py")]:
        shutil.copy(file, folder)
    return folder
