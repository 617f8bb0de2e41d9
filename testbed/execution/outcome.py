"""Outcome of a trial, or of one of its jobs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from testbed.base.errors import TrialError


@dataclass
class Outcome:
    """Record and tables of a trial or a job that has ended.

    Attributes:
        record: the trial's JSON, or the job's entry among its ``jobs``.
        samples: rows of each iteration; None if no process told of any.
        lab: the network as it was read back.
        queues: the queues at the egresses.
        collectives: each collective of each rank of a script.
        transfers: transfers that were made, if its kind plans them.
        jobs: of jobs that share a network, the samples of each, by its name.
        error: the reason why it failed; None if it did not.
    """

    record: dict[str, Any]
    samples: pd.DataFrame | None = None
    lab: dict[str, Any] = field(default_factory=dict)
    queues: pd.DataFrame | None = None
    collectives: pd.DataFrame | None = None
    transfers: pd.DataFrame | None = None
    jobs: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    error: TrialError | None = None
