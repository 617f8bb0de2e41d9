"""Merge of parts that ran on several machines into one run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from testbed.comparison.merge import Merged, merged
from testbed.experiment.run import write_report


def merge(parts: Sequence[Path], out: Path, run_code: bool = False) -> tuple[Merged, Path]:
    """Make the run directory ``out`` of parts, with its report, and give that report's path.

    Raises:
        TestbedError: as :func:`testbed.comparison.merge.merged`, or the report cannot be written.
    """
    done = merged(parts, out, run_code)
    return done, write_report([done.run.path])
