"""What every test may use."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture
def root() -> Path:
    """The repository's root, where experiments/ is."""
    return ROOT
