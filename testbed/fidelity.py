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

    Per link, as a share of the busiest link's bytes: at most 1.7 % in all but one of 109 VALID trials of 14 schemes on
    stars, leaf-spines, fat-trees and BCubes, below 0.5 % in all long ones, up to 3.0 % in short ones (the burst did not
    count as part of the busiest link's bytes then, as it does now), 1.3 % over ECMP on a fat-tree; a detour of one flow
    of eight is 11 % or more. Round trips of an idle lab took 0.03 to 0.13 ms. The median of sleeps was 0.09 to 0.14 ms
    late in trials whose cores were free, up to 0.4 ms with run-queue waits of a third, 0.2 to 3 ms where two trials
    fought for the cores, 30 ms with a timer slack of 30 ms; the largest was 4 to 32 ms in any of them, and is not
    judged. TCP sent 0 to 0.1 % of segments again (late acknowledgements), 2.5 % after a link was cut for 0.2 s. Events
    were 0.5 to 2 ms late.
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
    """Most by which the kernel's count of bytes on a link differs from the forest's, as a share of the busiest
    link's."""
    run_queue: float = 0.25
    """Most of the synchronisation for which a worker, able to run, waited for a core."""
    polled: float = 1.05
    """Most of GST over its bound at which the links, and not the cores, must have set the time."""
    aggregator: float = 0.9
    """Most of a core that a node which only adds for others takes while gradients are on the wire: one thread."""
    faster: float = 0.03
    """Most by which a synchronisation is faster than the links' rates allow, or a link above its goodput; more means
    that links are not as asked."""
    early_bytes: int = 65_536
    """Of the largest packet that the kernel hands down before it is cut (GSO): a bucket with anything in it lets all of
    it pass. A lone update of 310 kB took 0.91 of its time at 100 Mbit/s."""
    early_s: float = 0.001
    """For how long a bucket saves up at its rate."""
    delay_s: float = 0.0005
    delay: float = 0.05
    """Most by which a round trip's median is off: so much, or this share of it where that is more."""
    late_s: float = 0.002
    """Most by which the median of a process's sleeps overruns while it trains."""
    resent: float = 0.002
    """Most of a host's TCP segments that were sent again."""
    event_s: float = 0.02
    """Most by which an injected event is late."""


LIMITS = Limits()


@dataclass(frozen=True)
class Check:
    """One condition: ``value`` against ``limit`` in ``unit``, and what was looked at.

    ``asked`` says that the trial was to be like that, so it is told and not judged.
    """

    name: str
    value: float | None
    limit: float
    unit: str
    ok: bool
    detail: str
    asked: bool = False


def verdict(checks: Sequence[Check]) -> dict[str, Any]:
    """VALID when every check is ok, and the checks, as the trial's JSON holds them."""
    return {
        "verdict": VALID if all(check.ok for check in checks) else INVALID,
        "checks": [asdict(check) for check in checks],
    }


def reasons(fidelity: Mapping[str, Any]) -> str:
    """Why a trial is INVALID, in one line; empty for a VALID one."""
    return "; ".join(f"{c['name']}: {c['detail']}" for c in fidelity.get("checks", ()) if not c["ok"])


def link_rate(probes: Sequence[Mapping[str, Any]], expected: int, goodput: float, limits: Limits = LIMITS) -> Check:
    """The slowest burst's rate over the goodput at the rate asked for; ``expected`` ports must report.

    Bursts into NICs run all at once, those over links between switches a few at a time. A port that is faster than its
    rate allows is not shaped as asked, and decides if there is one. A way between racks, which has no port's address,
    explains the NICs beyond it: if it is off, it is what is named.
    """
    shares = [
        (probe["rate_bps"] / (probe["asked_bps"] * goodput), f"{probe['name']} {probe['port_address']}".strip())
        for probe in probes
    ]
    if not shares or len(shares) < expected:
        detail = f"{len(shares)} of {expected} ports were measured"
        return Check("link rate", None, limits.link_rate, "of goodput", False, detail)
    ways = [one for one, probe in zip(shares, probes, strict=True) if not probe["port_address"]]
    off = [(share, name) for share, name in ways if not limits.link_rate <= share <= 1 + limits.faster]
    (least, slowest), (most, fastest) = min(off or shares), max(off or shares)
    which, share, name = ("fastest", most, fastest) if most > 1 + limits.faster else ("slowest", least, slowest)
    ok = limits.link_rate <= share <= 1 + limits.faster
    detail = f"{which} of {len(shares)} ports is {name}, at {share:.1%} of what its rate allows"
    return Check("link rate", share, limits.link_rate, "of goodput", ok, detail)


def delay(trips: Sequence[Mapping[str, Any]], limits: Limits = LIMITS) -> Check:
    """The round trip whose median is furthest from the delays of its way there and back, over what is allowed.

    Each has ``least_s`` and ``most_s``, the delays of its fastest and slowest path, and its median, ``None`` where most
    packets were lost.
    """
    lost = [trip for trip in trips if trip["median_s"] is None]
    if lost or not trips:
        where = (
            f"most packets from {lost[0]['from']} to {lost[0]['to']} and back were lost" if lost else "nobody looked"
        )
        return Check("delay", None, 1.0, "of allowed", False, where)

    def off(trip: Mapping[str, Any]) -> float:
        missed_s = max(trip["least_s"] - trip["median_s"], trip["median_s"] - trip["most_s"], 0.0)
        return float(missed_s / max(limits.delay_s, limits.delay * trip["most_s"]))

    worst = max(trips, key=off)
    detail = (
        f"from {worst['from']} to {worst['to']} and back takes {1e3 * worst['median_s']:.2f} ms, "
        f"delays are {1e3 * worst['most_s']:g} ms"
    )
    return Check("delay", off(worst), 1.0, "of allowed", off(worst) <= 1, detail)


def shaping(differs: str | None) -> Check:
    """Whether the kernel still had, after the trial, what was asked for; ``differs`` says what it did not."""
    detail = differs or "rates, buckets, queues, delays and routes were the same after the trial as before"
    return Check("read back", float(differs is not None), 0.0, "differences", differs is None, detail)


def timers(late_s: Mapping[str, float | None], limits: Limits = LIMITS) -> Check:
    """The process whose sleeps come back latest; by name, the median of by how much."""
    known = {name: value for name, value in late_s.items() if value is not None}
    if not known:
        return Check("timers", None, 1e3 * limits.late_s, "ms late", True, "not watched, or too short")
    name = max(known, key=known.__getitem__)
    detail = f"the sleeps of {name} came back {1e3 * known[name]:.2f} ms late in the median"
    return Check("timers", 1e3 * known[name], 1e3 * limits.late_s, "ms late", known[name] <= limits.late_s, detail)


def resent(segments: Mapping[str, tuple[int, int]], asked: bool = False, limits: Limits = LIMITS) -> Check:
    """The host that sent the largest share of its TCP segments again; by name, (sent, sent again).

    ``asked`` says that links were changed on purpose so that TCP has to; then it is told and not judged.
    """
    if not segments:
        return Check("retransmissions", None, limits.resent, "of segments", True, "not watched")
    shares = {name: again / max(1, sent + again) for name, (sent, again) in segments.items()}
    name = max(shares, key=shares.__getitem__)
    again = segments[name][1]
    detail = f"{name} sent {shares[name]:.2%} of its segments again ({again:,}), the most of all"
    ok = asked or shares[name] <= limits.resent
    return Check("retransmissions", shares[name], limits.resent, "of segments", ok, detail, asked)


def events(done: Sequence[Mapping[str, Any]], limits: Limits = LIMITS) -> Check:
    """Injected events against their schedule: each was carried out, when, and for how long the furthest off was off.

    An event is due at its planned moment, or when it could begin (``free_s``) where another had to end before; it is
    done as long after that as it is meant to take (``takes_s``: circuits that move are dark meanwhile). When it began,
    how long it took and when it was done are each held against that.
    """
    failed = [event for event in done if event["error"] or event["done_s"] is None]
    if failed:
        first = failed[0]
        why = first["error"] or "it was not carried out"
        detail = f"{len(failed)} of {len(done)} failed, first {first['kind']} ({first['what']}): {why}"
        return Check("events", None, 1e3 * limits.event_s, "ms late", False, detail)
    worst = max(done, key=lambda event: abs(_late_s(event)))
    late_s, ms = _late_s(worst), 1e3 * limits.event_s
    detail = f"of {len(done)} events, {worst['kind']} ({worst['what']}) was furthest off, by {1e3 * late_s:.1f} ms"
    if worst["takes_s"]:
        took_s = worst["done_s"] - worst["begun_s"]
        detail += f": it took {took_s:.3f} s of {worst['takes_s']:g} s"
    return Check("events", 1e3 * late_s, ms, "ms late", abs(late_s) <= limits.event_s, detail)


def _late_s(event: Mapping[str, Any]) -> float:
    """By how much an event's begin, its length or its end was off, whichever was most."""
    due_s = event["planned_s"] if event["free_s"] is None else max(event["planned_s"], event["free_s"])
    begin_s = event["begun_s"] - due_s
    longer_s = event["done_s"] - event["begun_s"] - event["takes_s"]
    return float(max((begin_s, longer_s, begin_s + longer_s), key=abs))


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


def run_queue_of_updates(samples: pd.DataFrame, limits: Limits = LIMITS) -> Check:
    """The same where workers do not synchronise together: of the worst worker, the median over its updates."""
    if samples["wait_s"].isna().any():
        return run_queue(samples, limits)
    shares = samples["wait_s"] / (samples["sum_s"] - samples["ready_s"])
    share = float(shares.groupby(samples["rank"]).median().max())
    detail = f"a worker waited for a core during {share:.0%} of an update"
    return Check("run queue", share, limits.run_queue, "of GST", share <= limits.run_queue, detail)


def staleness(most: int, limit: int, updates: int) -> Check:
    """The most stale of all updates against what the scheme allows, and what is not known of them all."""
    detail = (
        f"of {updates:,} updates the most stale missed {most} others; the scheme allows {limit}. Weights and sums are "
        "held against the server's order of updates; what order there would be on other machines is not judged"
    )
    return Check("staleness", float(most), float(limit), "updates", most <= limit, detail)


def aggregators(
    cpu_s: Mapping[str, float], window_s: float, when: str = "during synchronisation", limits: Limits = LIMITS
) -> Check:
    """The busiest of the nodes that only add and pass on: its CPU time over ``window_s``, that of all synchronisations
    unless ``when`` says otherwise."""
    name = max(cpu_s, key=cpu_s.__getitem__)
    share = cpu_s[name] / window_s
    detail = f"the busiest of {len(cpu_s)} that only add is {name}, at {share:.0%} of a core {when}"
    return Check("aggregators", share, limits.aggregator, "of a core", share <= limits.aggregator, detail)


def wire(
    links: Sequence[Mapping[str, Any]], groups: Iterable[Sequence[int]], spoilt_bytes: float, limits: Limits = LIMITS
) -> Check:
    """The kernel's bytes on each link against the forest's, headers included in both, as a share of what the busiest
    link carried, its burst included: the burst's headers and acknowledgements are not known to the byte.

    ``groups`` holds positions in ``links``: those among which traffic is shared by chance are compared together. A link
    may carry its ``extra_bytes`` more, what TCP has added by its own count (what was sent again is judged by
    :func:`resent`), and any link ``spoilt_bytes``: what iterations had sent that were broken off when a node died, and
    what a library's connections, which are not ours to count, sent again.
    """
    busiest_s = max(8 * (link["theory_bytes"] + link["other_bytes"]) / link["rate_bps"] for link in links)
    excess = {}
    for group in groups:
        if any(links[i]["bytes"] is None for i in group):
            continue
        beyond = sum(links[i]["bytes"] - links[i]["theory_bytes"] for i in group)
        allowed = spoilt_bytes + sum(links[i]["extra_bytes"] for i in group)
        beyond = beyond if beyond < 0 else max(0.0, beyond - allowed)
        excess[tuple(group)] = 8 * beyond / sum(links[i]["rate_bps"] for i in group) / busiest_s
    worst = max(excess, key=lambda group: abs(excess[group]))
    name = f"{links[worst[0]]['from']} to {links[worst[0]]['to']}" + (
        f" and {len(worst) - 1} that share with it" if len(worst) > 1 else ""
    )
    share = excess[worst]
    than = "more" if share >= 0 else "fewer"
    detail = f"{name}, furthest off, carried {abs(share):.2%} of the busiest link's bytes {than} than the forest says"
    return Check("bytes on the wire", share, limits.wire, "of busiest link", abs(share) <= limits.wire, detail)


def wire_unknown(library: str, algorithm: str, limits: Limits = LIMITS) -> Check:
    """In place of :func:`wire` where the forest is not what a library does."""
    detail = f"not known: which bytes {library} moves in its algorithm {algorithm} is not ours to say"
    return Check("bytes on the wire", None, limits.wire, "of busiest link", True, detail)


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


def drops(links: Iterable[Mapping[str, Any]], asked: bool = False) -> Check:
    """Packets dropped at any egress: a queue was too short for what it was given, which may have been ``asked`` for."""
    dropped = {f"{link['from']} to {link['to']}": link["drops"] for link in links if link["drops"]}
    worst = max(dropped, key=dropped.__getitem__) if dropped else ""
    detail = f"{sum(dropped.values())} packets dropped" + (f", most at {worst}" if worst else "")
    return Check("drops", float(sum(dropped.values())), 0.0, "packets", asked or not dropped, detail, asked)


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


def bound_of_updates(
    samples: pd.DataFrame, alone_s: float, gradient_bytes: int, busiest_link_s: float, limits: Limits = LIMITS
) -> Check:
    """The same where workers do not synchronise together: an update takes as long as its bytes take there and back
    when nobody else sends, ``alone_s``, and all take as long as the busiest link is busy with them.

    Each way the end of a lone update may come early: what a bucket has saved up, and the last packet that TCP hands
    down whole, leave at once.
    """
    own_s = samples["sum_s"] - samples["ready_s"] - samples["held_s"]
    least_s = alone_s * (1 - limits.early_bytes / gradient_bytes) - 2 * limits.early_s
    each = float(own_s.median()) / least_s if least_s > 0 else float("inf")
    together = float(samples["sum_s"].max() - samples["ready_s"].min()) / busiest_link_s
    ratio = min(each, together)
    what = "an update takes" if each <= together else "all updates together take"
    detail = f"from gradients to newer weights {what} {ratio:.3f} of the least that the links allow"
    return Check("lower bound", ratio, 1 - limits.faster, "of theory", ratio >= 1 - limits.faster, detail)


def _inside(windows: Sequence[tuple[float, float]], at_s: Sequence[float], counted: Sequence[float]) -> float:
    """How much a counter grew inside the windows; between two readings it grows evenly."""
    if len(at_s) < 2 or not windows:
        return 0.0
    edges = np.interp(np.asarray(windows), at_s, counted)
    return float((edges[:, 1] - edges[:, 0]).sum())
