"""Weights that a finished job has saved, in one file: those of one worker, or what all workers hold together."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from testbed.base.errors import TrialError
from testbed.evidence.referee import read_weights
from testbed.files.foreign import UnfitError
from testbed.trial.files import Files
from testbed.trial.job import Job


def whole(job: Job, files: Files, keeper: str) -> Path:
    """Return the file with all weights: the ``keeper``'s, unless each worker has a part of them only.

    Raises:
        TrialError: a worker's file holds something else than its part, or workers that hold the same part differ.
    """
    if (model := job.kind.model_parallel) is None:
        return files.weights(keeper)
    found = []
    for worker, count in zip(job.workers, model.held(job.plan), strict=True):
        try:
            found.append(read_weights(files.weights(worker), count))
        except UnfitError as error:
            raise TrialError(
                f"the weights of {worker}: {error}", fix=f"see what {files.called(worker)} did to its file"
            ) from error
    path = files.collected(job.name)
    np.save(path, model.collected(job.plan, found))
    return path
