"""Claims of PLink Collectives about programs that run unchanged: LightGBM, a PyTorch script, and training of models."""

from __future__ import annotations

from testbed.analysis.papers.claim import Claim

CLAIMS: tuple[Claim, ...] = ()
