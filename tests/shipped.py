"""The files in ``experiments/`` that come with us."""

from __future__ import annotations

from pathlib import Path

EXPERIMENTS = Path(__file__).parents[1] / "experiments"
BATCHES = sorted((EXPERIMENTS / "mlfabric" / "batches").glob("*.yaml"))
"""For ``testbed schedule``."""
SPECS = sorted(set(EXPERIMENTS.rglob("*.yaml")).difference(BATCHES))
"""For all other commands."""
