"""Whether there were cores enough while gradients were on the wire, and whether the host took some away."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from testbed.base.check import About, Check
from testbed.fidelity.seen import Seen
from testbed.machine.calm import STOLEN
from testbed.machine.monitor import CpuLog

ABOUT = About(
    "CPU headroom",
    sees="whether cores were free while gradients were on the wire, from the kernel's count of idle time",
    misses="which process took them; cores that are free and that a quota withholds (see CPU quota)",
    machine=True,
)
STEAL = About(
    "CPU steal",
    sees="CPU time that a hypervisor took away while gradients were on the wire",
    misses="what a hypervisor does not report",
    machine=True,
    remedy="wait until the host gives back the cores, or take another host",
)
IDLE = 0.15
"""Least share of CPU time left idle while gradients are on the wire. BML on BCube(3,2) with LeNet-5's gradient on two
cores, nothing else running: at 18 x 200 Mbit/s 65 to 75 % was idle, and GST was 1.02 of theory; at 18 x 1 Gbit/s 4 to
6 %, and 1.14 to 1.37. With others using both cores beside it, 200 Mbit/s looked like that, too: 9 to 18 %, and 1.05 to
1.2."""
POLLED = 1.05
"""Largest ratio of GST to its bound at which the links, and not the cores, must have set the time."""


def checks(seen: Seen) -> Iterator[Check]:
    if seen.samples is None:
        yield from judge([seen.window], seen.cpu, "while the command ran")
        return
    kind = seen.job.kind
    if polling := seen.job.kind.software.polling(seen.job.plan):
        yield polled(polling, float(kind.own_samples.measures.gst_s(seen.counted).median()), seen.job.gst_theory_s)
        return
    windows, when = kind.own_samples.measures.on_the_wire(seen.counted, overlapped=seen.job.work.overlap != "none")
    yield from judge(windows, seen.cpu, when)


def judge(windows: Sequence[tuple[float, float]], log: CpuLog, when: str = "during synchronisation") -> list[Check]:
    """Judge the idle and stolen shares of the cores' time inside ``windows``, (start, end) in seconds on the log's
    clock."""
    total, idle, steal = (_inside(windows, log.at_s, counts) for counts in (log.total_s, log.idle_s, log.steal_s))
    if total <= 0:
        missing = f"the CPUs were not observed {when}"
        return [Check(ABOUT.name, None, IDLE, "idle", False, missing, machine=True)]
    free, stolen = idle / total, steal / total
    return [
        Check(ABOUT.name, free, IDLE, "idle", free >= IDLE, f"{free:.0%} idle {when}", machine=True),
        Check(STEAL.name, stolen, STOLEN, "stolen", stolen <= STOLEN, f"{stolen:.1%} taken by the host", machine=True),
    ]


def polled(library: str, gst_s: float, theory_s: float) -> Check:
    """Judge, in place of :func:`judge` and the run queue, a library that keeps its cores busy while it waits.

    Whether cores were short cannot be told, unless GST is as short as the links allow: then they were not.
    """
    ratio = gst_s / theory_s if theory_s else 1.0
    ok = ratio <= POLLED
    detail = f"{library} polls while it waits, so idle time does not tell; " + (
        f"GST at {ratio:.3f} of the least that the links allow does"
        if ok
        else f"with GST at {ratio:.2f} of the least that the links allow, whether cores were short is not known"
    )
    # Not about the machine: it is decided by the outcome, and to measure again until that is short would bend medians.
    return Check(ABOUT.name, ratio if ok else None, POLLED, "of theory", ok, detail)


def _inside(windows: Sequence[tuple[float, float]], at_s: Sequence[float], counted: Sequence[float]) -> float:
    """Growth of a counter inside the windows; between two readings it grows evenly."""
    if len(at_s) < 2 or not windows:
        return 0.0
    edges = np.interp(np.asarray(windows), at_s, counted)
    return float((edges[:, 1] - edges[:, 0]).sum())
