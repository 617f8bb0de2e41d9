"""What a trial, or one of its jobs, comes to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from testbed.base.errors import TrialError


@dataclass
class Outcome:
    """A trial or a job that has ended.

    Attributes:
        record: the trial's JSON, or what its ``jobs`` have of the job.
        samples: of each iteration; None if nobody told of any.
        lab: the network as it was read back.
        queues: what waited at the egresses.
        transfers: those that were made, if its kind plans them.
        jobs: of jobs that share a network, the samples of each, by its name.
        error: why it failed; None if it did not.
    """

    record: dict[str, Any]
    samples: pd.DataFrame | None = None
    lab: dict[str, Any] = field(default_factory=dict)
    queues: pd.DataFrame | None = None
    transfers: pd.DataFrame | None = None
    jobs: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    error: TrialError | None = None
