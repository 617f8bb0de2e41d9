"""The files in ``experiments/`` that come with us, and what tests of them share."""

from __future__ import annotations

from pathlib import Path

EXPERIMENTS = Path(__file__).parents[1] / "experiments"
BATCHES = sorted((EXPERIMENTS / "mlfabric" / "batches").glob("*.yaml"))
"""For ``testbed schedule``."""
SPECS = sorted(set(EXPERIMENTS.rglob("*.yaml")).difference(BATCHES))
"""For all other commands."""
LARGE = {EXPERIMENTS / "bml" / "figure5_1024.yaml", EXPERIMENTS / "topoopt" / "figure14_432.yaml"}
"""Specs that take 20 s to a minute of a core to plan. The suite reads them; ``benchmarks/durations.py`` plans them."""

STEPS_OF_A_GUESS = 20
"""Steps of searches whose strategies nothing will run under: 2 s of a core in place of 16 for all of TopoOpt's
claims."""
GUESSING, MLFABRIC = "guesses at how long claims take", "MLfabric's ideal networks"
"""Tests in one process each, which remembers for all of them what takes it seconds (``pytest.mark.xdist_group``)."""
PLAYED = 4
"""Cells of an experiment that are played to guess how long it takes: with more, all claims take 28 s of a core, and
MLfabric's a tenth longer."""
