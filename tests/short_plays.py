"""MLfabric's trials on an ideal network, played for a few rounds, and PLink's simulated probes of one seed: what comes
of them is shown beside what is measured."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from testbed.analysis.papers import plink
from testbed.analysis.papers.mlfabric import ideals, learning, replication, speed, sync

ROUNDS = 4


@contextmanager
def short_plays() -> Iterator[None]:
    """Meanwhile, what is played of a whole trial has :data:`ROUNDS`; what is remembered without them is forgotten."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (learning, replication, speed):
            patch.setattr(module, "IDEAL", replace(module.IDEAL, rounds=ROUNDS))
        for module in (ideals, speed, sync):
            patch.setattr(module, "PAPERS", replace(module.PAPERS, rounds=ROUNDS))
        patch.setattr(plink, "SEEDS", 1)
        _forget()
        yield
    _forget()


def _forget() -> None:
    speed.ideal_drops.cache_clear()
    replication._played.cache_clear()
