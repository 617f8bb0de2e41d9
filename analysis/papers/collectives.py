"""PLink Collectives (chapter 5 of the PHub thesis): its claims, and what measures and decides them here."""

from __future__ import annotations

from testbed.analysis.papers import collectives_programs
from testbed.analysis.papers.claim import Paper

PAPER = Paper(
    "collectives",
    "PLink Collectives: orders of ranks that cost little, found by probes (PHub thesis, chapter 5)",
    (*collectives_programs.CLAIMS,),
    prefix="coll",
)
