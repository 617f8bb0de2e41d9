"""Time for which a quota of CPU time kept processes from cores that were free."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from testbed.base.check import WHOLE_JOB, About, Check, not_watched
from testbed.fidelity.seen import Seen
from testbed.machine.monitor import CpuLog

REMEDY = "raise the quota of CPU time (--cpus of a container, CPUQuota= of systemd), or ask less of this machine"
MISSES = (
    "quotas of groups above the root of a container in which testbed itself runs, which the kernel hides; the limits "
    "that the spec asks for hosts that are containers; which process used the quota up"
)
ABOUT = About(
    "CPU quota",
    sees="a quota of CPU time (of a container, a service or a CI job) that was used up at any time of the job, so that "
    "processes stood still though cores were free: the kernel's count of throttled time, of every control group above "
    "a trial's processes that has a quota",
    misses=MISSES,
    threatens=WHOLE_JOB,
    machine=True,
    remedy=REMEDY,
)
WIRE = About(
    "CPU quota while synchronising",
    sees="the same while gradients were on the wire",
    misses=MISSES,
    machine=True,
    remedy=REMEDY,
)
THROTTLED = 0.03
"""Most seconds for which cores were withheld, of all cores together, in each second that a number covers: what a
certified number may be too long. Without a quota it is 0. With half a core in place of two free ones it was 0.55 to 1.2
over whole trainings, scripts and commands that compute in real time, and 0.08 to 0.67 while they synchronised; with a
quarter, 1.1 to 1.5, and 0.43 to 1.3 (benchmarks/fidelity.py)."""
UNIT = "of the time"
LONGEST_PERIOD_S = 1.0
"""Seconds of a quota's longest period: the kernel takes no longer one, and throttles for no longer at a time."""


def checks(seen: Seen) -> Iterator[Check]:
    when = "while the command ran" if seen.samples is None else "in the whole job"
    yield judge([seen.window], seen.cpu, when, ABOUT)
    if seen.samples is not None:
        windows, when = seen.job.kind.own_samples.measures.on_the_wire(
            seen.counted, overlapped=seen.job.work.overlap != "none"
        )
        yield judge(windows, seen.cpu, when, WIRE)


def judge(windows: Sequence[tuple[float, float]], log: CpuLog, when: str, about: About) -> Check:
    """Judge the time for which cores were withheld inside ``windows``, (start, end) in seconds on the log's clock."""
    if np.isnan(log.throttled_s).any() or len(log.at_s) < 2 or not windows:
        return not_watched(about, THROTTLED, UNIT, f"nobody could read the quotas of control groups {when}")
    held_s = sum(_inside(start_s, end_s, log) for start_s, end_s in windows)
    share = held_s / sum(end_s - start_s for start_s, end_s in windows)
    withheld = f"a quota withheld cores for {held_s:.2f} s, {share:.1%} of the time {when}"
    detail = withheld if held_s else f"no quota withheld cores {when}"
    ok = share <= THROTTLED
    return Check(about.name, share, THROTTLED, UNIT, ok, detail, threatens=about.threatens, machine=True)


def _inside(start_s: float, end_s: float, log: CpuLog) -> float:
    """Throttled time inside a window (s). The kernel adds a throttling to its count when it ends, so what the count has
    grown by at a reading was spread over as long a time before it."""
    at_s, grown_s = np.asarray(log.at_s), np.diff(log.throttled_s)
    lasted_s = np.maximum(np.diff(at_s), np.minimum(grown_s, LONGEST_PERIOD_S))
    ended_s = at_s[1:]
    overlap_s = np.minimum(ended_s, end_s) - np.maximum(ended_s - lasted_s, start_s)
    return float((grown_s * np.maximum(overlap_s, 0.0) / lasted_s).sum())
