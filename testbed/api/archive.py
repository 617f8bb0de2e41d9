"""A run in one file for somebody else."""

from __future__ import annotations

from testbed.comparison.archive import Archived, archive

__all__ = ["Archived", "archive"]
