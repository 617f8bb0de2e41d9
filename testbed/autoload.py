"""The function that ``import torch`` calls where testbed is installed (entry point of the group ``torch.backends``).

Every program of the environment that imports PyTorch runs it. Outside of a trial it returns at once, and imports
nothing else of ours.
"""

from __future__ import annotations

import os


def autoload() -> None:
    """In a rank of a script under a scheme, make our backend the one that the script gets."""
    if "TESTBED_RANK" in os.environ:  # testbed.workloads.rank_job.VARIABLE, whose module takes 20 ms to import
        from testbed.workloads import kinds
        from testbed.workloads.rank_job import RankJob

        if job := RankJob.of_environment():
            scripts = kinds.named(job.kind).scripts
            assert scripts is not None  # only ranks of a script have such a job
            scripts.wrap()
