"""TCP flows that compete with a trial's: a process that sends, and one that receives."""

from __future__ import annotations

from testbed.perturb.events import Helper
from testbed.perturb.kinds.base import MOST, Context

PORT = 7_000
"""Port of the first sink of the first perturbation; those of the n-th listen at this plus n, and steps of
:data:`STEP`."""
STEP = 2 * MOST
"""The most perturbations of a trial: those of the experiment, and those of the arm."""
MOST_FLOWS = 20
"""The most sinks of a perturbation: ports end below those of bursts, at 9,000."""
MODULE = "testbed.workloads.perturbing.background"


def flow(context: Context, ends: tuple[int, int], *, count: int = 1, rate_bps: int = 0, place: int = 0) -> list[Helper]:
    """Make the sink and the source of ``count`` connections from one host to another, each of that rate (bit/s), or as
    fast as TCP lets it if that is 0. ``place`` numbers those of one perturbation."""
    source, sink = ends
    number = f"{context.number}" + (f"-{place}" if place else "")
    where = (context.addresses.flow(source, sink)[1], str(PORT + context.number + STEP * place), str(count))
    return [
        Helper(f"sink{number}", sink, MODULE, ("sink", *where)),
        Helper(f"source{number}", source, MODULE, ("source", *where, str(rate_bps)), sink, count, rate_bps),
    ]
