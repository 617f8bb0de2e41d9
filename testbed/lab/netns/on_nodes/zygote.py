"""Process that workers are forked from: this process, once it has imported what they need and used it a little.

Importing PyTorch costs seconds and hundreds of megabytes; a fork costs milliseconds and shares the memory. Workers that
play a profile back have no use for it.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

from testbed.lab.programs import Launch

ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@cache
def worker_body(*, torch: bool = True) -> Callable[[Launch], int]:
    """Make the function that runs a worker from its job file and returns its exit status; the first call imports."""
    for name in ONE_THREAD:  # read at import; threads do not survive a fork, and a worker is given one core's worth
        os.environ[name] = "1"
    from testbed.workloads import worker

    worker.prepare(torch=torch)
    if not torch:
        gc.freeze()  # so that a child's collector does not write to, and thereby copy, the pages shared with us
    return lambda launch: worker.main([launch.job])


def expect(workers: Sequence[Launch]) -> None:
    """Make once, before these are forked, what each of those that use PyTorch would else make for itself."""
    jobs = [Path(one.job) for one in workers if one.torch and not one.program]
    if jobs:
        worker_body()
        from testbed.workloads import worker

        worker.expect(jobs)
