"""What papers claim, one module a paper: a function for each claim, whose table holds the paper's figures and ours.

Names of claims are those of ``testbed theory``. What theory says is computed from forests and topologies.
"""

from __future__ import annotations

from collections.abc import Callable

from analysis.papers import bml, plink, rina
from analysis.papers.table import Table

CLAIMS: dict[str, Callable[[], Table]] = {**bml.CLAIMS, **rina.CLAIMS, **plink.CLAIMS}
"""By name, ``PAPER.CLAIM``."""
