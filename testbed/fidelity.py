"""Whether a trial's numbers can be believed: what the network and the machine did against what they were asked for.

Every function here judges data; nothing is measured. A trial is VALID when each check is within its limit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd

from testbed.monitor import CpuLog

VALID, INVALID = "VALID", "INVALID"


@dataclass(frozen=True)
class Limits:
    """What each check allows.

    Set from runs of BML on BCube(3,2) with LeNet-5's gradient on two cores, nothing else running: at 18 x 200 Mbit/s
    65 to 75 % of CPU time was idle while gradients were on the wire, a worker waited for a core during 5 to 6 % of a
    synchronisation, every NIC reached 99.7 % of its goodput or more, and GST was 1.02 of theory. At 18 x 1 Gbit/s
    4 to 6 % was idle, a worker waited during 72 to 79 %, the slowest NIC reached 72 to 79 %, GST was 1.14 to 1.37 of
    theory. With others using both cores beside it, 200 Mbit/s looked like that too: 9 to 18 % idle, GST 1.05 to 1.2.
    The kernel's count of bytes was 0.13 to 0.31 % above the forest's (acknowledgements, chunk headers) in all of them.
    """

    link_rate: float = 0.95
    """Least share of the goodput at the shaped rate that the burst reaches at every NIC."""
    idle: float = 0.15
    """Least share of CPU time left idle while gradients are on the wire."""
    steal: float = 0.05
    """Most of the CPU time that a hypervisor took away meanwhile."""
    overrun: float = 0.02
    """Most by which computing exceeds the pace, as a share of the paced time."""
    wire: float = 0.03
    """Most by which the kernel's count of bytes differs from the forest's."""
    run_queue: float = 0.25
    """Most of the synchronisation for which a worker, able to run, waited for a core."""
    polled: float = 1.05
    """Most of GST over its bound at which the links, and not the cores, must have set the time."""
    aggregator: float = 0.9
    """Most of a core that a node which only adds for others takes while gradients are on the wire: one thread."""
    faster: float = 0.03
    """Most by which a synchronisation is faster than the links' rates allow, or a NIC above its goodput; more means
    that links are not as asked."""


LIMITS = Limits()


@dataclass(frozen=True)
class Check:
    """One condition: ``value`` against ``limit`` in ``unit``, and what was looked at."""

    name: str
    value: float | None
    limit: float
    unit: str
    ok: bool
    detail: str


def verdict(checks: Sequence[Check]) -> dict[str, Any]:
    """VALID when every check is ok, and the checks, as the trial's JSON holds them."""
    return {
        "verdict": VALID if all(check.ok for check in checks) else INVALID,
        "checks": [asdict(check) for check in checks],
    }


def reasons(fidelity: Mapping[str, Any]) -> str:
    """Why a trial is INVALID, in one line; empty for a VALID one."""
    return "; ".join(f"{c['name']}: {c['detail']}" for c in fidelity.get("checks", ()) if not c["ok"])


def link_rate(probes: Iterable[Mapping[str, Any]], expected: int, goodput: float, limits: Limits = LIMITS) -> Check:
    """The slowest NIC's rate in the burst over the goodput at the rate asked for; ``expected`` NICs must report.

    A NIC that is faster than its rate allows is not shaped as asked, and decides if there is one.
    """
    shares = {
        f"{probe['name']} {probe['port_address']}": probe["rate_bps"] / (probe["asked_bps"] * goodput)
        for probe in probes
    }
    if not shares or len(shares) < expected:
        detail = f"{len(shares)} of {expected} NICs were measured"
        return Check("link rate", None, limits.link_rate, "of goodput", False, detail)
    which, worst = "slowest", min(shares, key=shares.__getitem__)
    if max(shares.values()) > 1 + limits.faster:
        which, worst = "fastest", max(shares, key=shares.__getitem__)
    ok = limits.link_rate <= shares[worst] <= 1 + limits.faster
    detail = f"{which} of {len(shares)} NICs is {worst}, at {shares[worst]:.1%} of what its rate allows"
    return Check("link rate", shares[worst], limits.link_rate, "of goodput", ok, detail)


def cpu(
    windows: Sequence[tuple[float, float]],
    log: CpuLog,
    when: str = "during synchronisation",
    limits: Limits = LIMITS,
) -> list[Check]:
    """Idle and stolen shares of the cores' time inside ``windows``, (start, end) in seconds on the log's clock."""
    total, idle, steal = (_inside(windows, log.at_s, counts) for counts in (log.total_s, log.idle_s, log.steal_s))
    if total <= 0:
        missing = f"the CPUs were not observed {when}"
        return [Check("CPU headroom", None, limits.idle, "idle", False, missing)]
    free, stolen = idle / total, steal / total
    return [
        Check("CPU headroom", free, limits.idle, "idle", free >= limits.idle, f"{free:.0%} idle {when}"),
        Check("CPU steal", stolen, limits.steal, "stolen", stolen <= limits.steal, f"{stolen:.1%} taken by the host"),
    ]


def overrun(samples: pd.DataFrame, pace_s: float, limits: Limits = LIMITS) -> Check:
    """By how much the slowest worker's computing exceeds the pace, as a share of it, on average over iterations."""
    late = samples.groupby("iteration")["overrun_s"].max()
    share = float(late.mean()) / pace_s if pace_s else float(late.max() > 0)
    detail = f"{int((late > 0).sum())} of {len(late)} iterations computed longer than the pace, by {share:.1%} of it"
    return Check("pacing", share, limits.overrun, "of pace", share <= limits.overrun, detail)


def run_queue(samples: pd.DataFrame, limits: Limits = LIMITS) -> Check:
    """For how much of the synchronisation the worst worker waited for a core; median over iterations."""
    by = samples.groupby("iteration")
    if samples["wait_s"].isna().any():
        return Check("run queue", None, limits.run_queue, "of GST", True, "this kernel does not count run-queue waits")
    window = by["sum_s"].max() - by["ready_s"].max()
    share = float((by["wait_s"].max() / window).median())
    detail = f"a worker waited for a core during {share:.0%} of a synchronisation"
    return Check("run queue", share, limits.run_queue, "of GST", share <= limits.run_queue, detail)


def aggregators(cpu_s: Mapping[str, float], window_s: float, limits: Limits = LIMITS) -> Check:
    """The busiest of the nodes that only add and pass on: its CPU time over that of all synchronisations."""
    name = max(cpu_s, key=cpu_s.__getitem__)
    share = cpu_s[name] / window_s
    detail = f"the busiest of {len(cpu_s)} that only add is {name}, at {share:.0%} of a core during synchronisation"
    return Check("aggregators", share, limits.aggregator, "of a core", share <= limits.aggregator, detail)


def wire(counted: float, theory: float, spoilt: float = 0.0, limits: Limits = LIMITS) -> Check:
    """The kernel's bytes on all links against the forest's, headers included in both.

    Up to ``spoilt`` may be of iterations that were broken off, of which it is not known how far they had got.
    """
    nearest = min(max(counted, theory), theory + spoilt)
    excess = counted / nearest - 1 if nearest else float(counted > 0)
    detail = f"the kernel counted {excess:+.2%} against the forest's bytes"
    if spoilt:
        detail += f" and the {(nearest - theory) / theory:.1%} that iterations which were broken off can have added"
    return Check("bytes on the wire", excess, limits.wire, "of theory", abs(excess) <= limits.wire, detail)


def wire_unknown(library: str, algorithm: str, limits: Limits = LIMITS) -> Check:
    """In place of :func:`wire` where the forest is not what a library does."""
    detail = f"not known: which bytes {library} moves in its algorithm {algorithm} is not ours to say"
    return Check("bytes on the wire", None, limits.wire, "of theory", True, detail)


def polled(library: str, gst_s: float, theory_s: float, limits: Limits = LIMITS) -> Check:
    """In place of :func:`cpu` and :func:`run_queue` where a library keeps its cores busy while it waits.

    Whether cores were short cannot be told, unless GST is as short as the links allow: then they were not.
    """
    ratio = gst_s / theory_s if theory_s else 1.0
    ok = ratio <= limits.polled
    detail = f"{library} polls while it waits, so idle time does not tell; " + (
        f"GST at {ratio:.3f} of the least that the links allow does"
        if ok
        else f"with GST at {ratio:.2f} of the least that the links allow, whether cores were short is not known"
    )
    return Check("CPU headroom", ratio if ok else None, limits.polled, "of theory", ok, detail)


def drops(links: Iterable[Mapping[str, Any]]) -> Check:
    """Packets dropped at any egress: a queue was too short for what it was given."""
    dropped = {f"{link['from']} to {link['to']}": link["drops"] for link in links if link["drops"]}
    worst = max(dropped, key=dropped.__getitem__) if dropped else ""
    detail = f"{sum(dropped.values())} packets dropped" + (f", most at {worst}" if worst else "")
    return Check("drops", float(sum(dropped.values())), 0.0, "packets", not dropped, detail)


def workers(told: str, unasked: int) -> Check:
    """Nodes have died, and the others went on; ``unasked`` is how many of them the spec did not kill."""
    return Check("nodes", float(unasked), 0.0, "nodes lost unasked", not unasked, told)


def bound(samples: pd.DataFrame, theory_s: float | pd.Series[float], limits: Limits = LIMITS) -> Check:
    """From the first worker's gradient to the last worker's sum cannot be less than the links' rates allow, unless the
    links are not what was asked for. (GST, from the last worker's gradient, can: the others may have sent before.)

    ``theory_s`` is one for all iterations, or by iteration.
    """
    by = samples.groupby("iteration")
    ratio = float(((by["sum_s"].max() - by["ready_s"].min()) / theory_s).median()) if np.any(theory_s) else 1.0
    detail = f"from the first gradient to the last sum it takes {ratio:.3f} of the least that the links allow"
    return Check("lower bound", ratio, 1 - limits.faster, "of theory", ratio >= 1 - limits.faster, detail)


def _inside(windows: Sequence[tuple[float, float]], at_s: Sequence[float], counted: Sequence[float]) -> float:
    """How much a counter grew inside the windows; between two readings it grows evenly."""
    if len(at_s) < 2 or not windows:
        return 0.0
    edges = np.interp(np.asarray(windows), at_s, counted)
    return float((edges[:, 1] - edges[:, 0]).sum())
