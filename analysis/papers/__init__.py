"""Claims of papers, one module a paper, named ``PAPER.CLAIM``.

``TABLES`` are theory alone: a function for each claim, whose table holds the paper's figures and those of our forests
and topologies (``testbed theory``). ``PAPERS`` are claims with what measures and decides them (``testbed reproduce``).
"""

from __future__ import annotations

from collections.abc import Callable

from testbed.analysis.papers import (
    bml,
    bml_theory,
    collectives,
    collectives_theory,
    phub,
    plink,
    plink_theory,
    rina,
    rina_theory,
)
from testbed.analysis.papers.claim import Paper, Table
from testbed.analysis.papers.mlfabric import learning
from testbed.analysis.papers.mlfabric import paper as mlfabric
from testbed.analysis.papers.topoopt import paper as topoopt

TABLES: dict[str, Callable[[], Table]] = {
    **bml_theory.TABLES,
    **rina_theory.TABLES,
    **plink_theory.TABLES,
    **collectives_theory.TABLES,
    **learning.TABLES,
    **phub.TABLES,
}
"""Functions that make a claim's table, by the claim's name."""
PAPERS: dict[str, Paper] = {
    paper.name: paper
    for paper in (bml.PAPER, rina.PAPER, plink.PAPER, collectives.PAPER, mlfabric.PAPER, topoopt.PAPER, phub.PAPER)
}
"""Papers by name."""
