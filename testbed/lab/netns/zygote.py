"""What workers are forked from: this process, once it has imported PyTorch and used it a little.

Importing costs seconds and hundreds of megabytes; a fork costs milliseconds and shares the memory.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache

from testbed.lab.base import Launch

ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@cache
def worker_body() -> Callable[[Launch], int]:
    """The function that runs a worker from its job file and returns its exit status; the first call imports."""
    for name in ONE_THREAD:  # read at import; threads do not survive a fork, and a worker is given one core's worth
        os.environ[name] = "1"
    from workloads import training, worker

    training.warm_up()
    return lambda launch: worker.main([launch.job])
