"""MLfabric (Viswanathan, Akella, 2019): how stale the updates of a stale synchronous scheme can be."""

from __future__ import annotations

from testbed.analysis.papers.claim import Table
from testbed.workloads.kinds.asynchronous.ledger import Ledger, most_stale, staleness

PAPERS_BOUND = 2
"""K in the example of section 6."""
WORKERS = (2, 4, 8, 30)


def stale_synchronous() -> Table:
    """The largest staleness that stale synchronous SGD allows: the paper's, derived, and reached in a ledger."""
    rows = []
    for bound in (0, 1, PAPERS_BOUND, 3):
        for world in WORKERS:
            paper = str(bound * world) if bound == PAPERS_BOUND else "-"
            rows.append((str(bound), str(world), paper, str(most_stale(world, bound)), str(reached(world, bound))))
    return Table(
        "MLfabric section 6: the most updates of others that one can miss when workers may be K iterations ahead",
        ("K", "workers N", "paper: 2 N for K = 2", "(2K+1)(N-1)", "reached"),
        tuple(rows),
        (
            "The paper does not derive its 2 N. While a worker computes, each other may go from K iterations behind it "
            "to K+1 ahead, which is 2K+1 updates; 'reached' is the staleness of an update in a schedule that the "
            "server of scheme ssp allows: one worker runs ahead as far as it may, and then all others do.",
        ),
        left=0,
    )


def reached(world: int, bound: int) -> int:
    """Staleness of the first worker's update if it runs ahead, gets weights, and then waits for all it may miss."""
    others = range(1, world)
    ledger = Ledger(world, world * 10 * (bound + 2), bound)

    def work(rank: int) -> bool:
        if rank not in ledger.computing:
            return False
        ledger.apply(rank, ledger.given[rank], goes_on=True)
        ledger.release()
        return True

    while work(0):  # until it is held back
        pass
    for rank in others:  # catch up by one iteration, so that it gets weights
        work(rank)
    for _ in range(2 * bound + 1):
        for rank in others:
            work(rank)
    ledger.apply(0, ledger.given[0], goes_on=True)
    return staleness(ledger.order)[-1]


TABLES = {"mlfabric.staleness": stale_synchronous}
