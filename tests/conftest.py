"""What every test may use."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("testbed", deadline=None)  # examples take longer while others use the machine
settings.load_profile("testbed")

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell has what it starts in the background ignore it

ROOT = Path(__file__).parents[1]


@pytest.fixture
def root() -> Path:
    """The repository's root, where experiments/ is."""
    return ROOT
