"""Autotune of PLink (PHub thesis, section 4.2.3): it reads samples of iterations, decides when and how masters
move (:mod:`testbed.workloads.locality.tuning`), and tells the new plan (:mod:`testbed.control.plans`).

The rate of a connection is its bytes over the time for which it had something to send. The kernel's delivery rate is
that of the last packets alone, which in an aggregation wait for other hosts.

A plan that makes no sums is not told, and a plan that workers leave out changes nothing. Both are events, as is each
plan that is told.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from statistics import median
from types import TracebackType
from typing import Any, Protocol, cast

import numpy as np

from testbed.base.errors import SchemeError
from testbed.control.feed import Feed, Line
from testbed.control.plans import Plans
from testbed.control.registry import Context
from testbed.control.worker_lines import check_said
from testbed.perturb.events import Event
from testbed.perturb.moments import NOW
from testbed.trial.job import Job
from testbed.trial.phases import Cause
from testbed.workloads.locality.masters import Pairs, of_trees
from testbed.workloads.locality.tuning import Iteration, Step, Steps
from testbed.workloads.sync.neighbours import BUSY, RTT, SENT, of_node

KIND = "autotune"
"""Name of the controller, by which kinds of trial declare it, and of its events."""
LOOK_S = 0.02
"""Seconds between looks: a fraction of the shortest iterations that are worth tuning."""


class Autotune:
    """Controller that tunes each job whose workers are told plans."""

    is_urgent = False

    def __init__(self, context: Context) -> None:
        jobs = [job for job in context.trial.jobs if KIND in job.kind.control.controllers]
        self._tuned = [TunedJob(context, job) for job in jobs]

    def __enter__(self) -> Autotune:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            for job in self._tuned:
                job.plans.close()

    def look(self, feed: Feed) -> float:
        for job in self._tuned:
            for line in job.plans.look(feed):
                job.hear(line, feed)
        return LOOK_S


class Grouped(Protocol):
    """Mark of a plan whose masters stay in groups of hosts, which are numbered by rank."""

    @property
    def groups(self) -> Sequence[Sequence[int]]: ...


class TunedJob:
    """A job that is tuned: its steps, and the samples of iterations that not all workers have done yet.

    Attributes:
        plans: its plans, those told and the one followed.
    """

    def __init__(self, context: Context, job: Job) -> None:
        self._context, self._job, self._hosts = context, job, range(job.world)
        self.plans = Plans(context, job)
        forest = self.plans.forest
        self._ranks = {process: rank for rank, process in enumerate(job.workers)}
        self._names = [forest.nodes[worker] for worker in forest.workers]
        masters = of_trees(cast(Grouped, forest.run_by).groups, forest.reduce[:, list(forest.workers)])
        self._steps = Steps(masters, job.gradient_bytes / forest.classes)
        self._samples: dict[int, dict[int, Mapping[str, Any]]] = defaultdict(dict)
        self._ended_s: Mapping[int, float] = {}

    def hear(self, line: Line, feed: Feed) -> None:
        """Take a line of a process. One that makes no sense is passed over: the trial fails when it is read again."""
        process, said = line
        if process not in self._ranks or said["kind"] != "iteration":
            return
        with suppress(ValueError):
            check_said(said, self._job.kind)
            self._samples[said["i"]][self._ranks[process]] = said
            if len(self._samples[said["i"]]) == len(self._hosts):
                self._done(said["i"], self._samples.pop(said["i"]), feed)

    def _done(self, i: int, samples: Mapping[int, Mapping[str, Any]], feed: Feed) -> None:
        """Add an iteration that all workers have done. The first only gives the time at which the next one begins."""
        before, self._ended_s = self._ended_s, {host: samples[host]["end"] for host in self._hosts}
        if not before:
            return
        took_s = median(end_s - before[host] for host, end_s in self._ended_s.items())
        sent_bytes, busy_s, rtt_s = (self._pairs(samples, field) for field in (SENT, BUSY, RTT))
        with np.errstate(divide="ignore", invalid="ignore"):
            rate_bps = np.where((sent_bytes > 0) & (busy_s > 0), 8 * sent_bytes / busy_s, np.nan)
        seen = Iteration(i, samples[0].get("plan", -1), took_s, sent_bytes, rate_bps, rtt_s)
        if (step := self._steps.add(seen)) is not None:
            self._take(step, feed)

    def _pairs(self, samples: Mapping[int, Mapping[str, Any]], field: str) -> Pairs:
        names = [of_node(field, node) for node in self._job.plan.workers]
        values = [[samples[host].get(name) for name in names] for host in self._hosts]
        return np.array(values, dtype=np.float64)  # NaN in place of None

    def _take(self, step: Step, feed: Feed) -> None:
        """Tell the plan of a step, and record the step."""
        said = f"{step.how} after {step.after} iterations, the last ones of {step.took_s:.3g} s"
        if step.plan is not None:
            counts = zip(self._names, step.masters.globals.tolist(), strict=True)
            told = "classes by global master: " + ", ".join(f"{name} {count}" for name, count in counts)
            try:
                self.plans.tell(step.masters.parents, Cause("measurement", said))
            except SchemeError as error:
                self._steps.withdraw()
                told = f"left out: {error.problem}"
            self._context.act(Event(NOW, KIND, f"{said}: plan {step.plan}, {told}"), feed)
        self._context.tuning.setdefault(self._job.name, []).append(self._record(step))

    def _record(self, step: Step) -> dict[str, Any]:
        """Return a step as the trial's record has it."""
        sent_bytes, counts = step.masters.sent_bytes(1.0), (step.masters.globals.tolist(), step.masters.locals.tolist())
        return {
            "after": step.after,
            "how": step.how,
            "plan": step.plan,
            "iteration_s": round(step.took_s, 6),
            "predicted_s": round(step.predicted_s, 6),
            "load_ratio": round(float(sent_bytes.max() / sent_bytes.min()), 6),
            "global_masters": dict(zip(self._names, counts[0], strict=True)),
            "local_masters": dict(zip(self._names, counts[1], strict=True)),
        }
