"""Claims of papers beside what forests and topologies say; nothing runs."""

from __future__ import annotations

from testbed.analysis.papers import PAPERS, TABLES
from testbed.analysis.papers.claim import Paper, Table
from testbed.base.errors import UsageError
from testbed.topologies.parameters import did_you_mean


def claims() -> dict[str, str]:
    """A line about each claim that has a table, by the claim's name."""
    return {name: (table.__doc__ or "").strip() for name, table in TABLES.items()}


def tables(claim: str | None = None) -> dict[str, Table]:
    """Compute the tables of a claim (``rina.bom``), of a paper (``rina``), or all.

    Raises:
        UsageError: there is none of that name.
    """
    chosen = [name for name in TABLES if claim is None or claim in (name, *_paper(name).names)]
    if not chosen:
        papers = dict.fromkeys(_paper(name).name for name in TABLES)
        raise UsageError(
            f"there is no claim {claim!r}{did_you_mean(claim or '', [*papers, *TABLES])}",
            fix=f"name a paper ({', '.join(papers)}) or one of {', '.join(TABLES)}",
        )
    return {name: TABLES[name]() for name in chosen}


def _paper(table: str) -> Paper:
    first = table.partition(".")[0]
    return next(paper for paper in PAPERS.values() if first in paper.names)
