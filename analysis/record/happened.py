"""Events of a trial: perturbations, deaths and how the others went on, waiting, earlier attempts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from testbed.analysis.record.fields import NO_UNIT, SHARE, Missing, NotNegative, Part, Text, optional, required, unread
from testbed.analysis.record.metrics import Metrics

_MEANINGS = {field.key: field.meaning for field in Metrics.own_fields}


@dataclass(frozen=True)
class Event(Part):
    """Something that was done or happened to a trial; None where that did not come."""

    kind: Text = required("kind of perturbation, or `interruption`: the network failed, which nobody planned")
    what: Text = required("what was done or happened, in words")
    planned_s: float | None = optional("when it was to happen, from the trial's start")
    begun_s: float | None = optional("when it began")
    done_s: float | None = optional("when it was in effect; of an interruption, when it ended")
    error: Text | None = optional("why it failed")
    takes_s: float = optional("how long it was meant to take", default=0.0)
    free_s: float | None = optional("from when on it could begin, if that was later")
    rates_bps: Mapping[int, NotNegative] = optional(
        "by directed link, the rate that it was given", key="links.rate_bps", default={}
    )
    blocked: Mapping[int, bool] = optional("by directed link, whether it was blocked", key="links.blocked", default={})

    @property
    def is_unplanned(self) -> bool:
        """Whether it happened by itself."""
        return self.planned_s is None and self.begun_s is not None

    @property
    def moment_s(self) -> float | None:
        """Moment from which on it had an effect (s, from the trial's start); None if that did not come."""
        return self.begun_s if self.is_unplanned else self.done_s


class Death(Part):
    """A process that a trial lost, and had to go on without."""

    name = unread(str, "process that died")
    how = unread(Text, "how it died")
    at_s = unread(float, "when it died, from the trial's start")


@dataclass(frozen=True)
class Loss(Part):
    """A node without whose processes the others went on by themselves; None where a time is not known."""

    node: str = required("node without whose processes the others went on by themselves")
    processes = unread(list[str], "processes that ended there")
    how: Text = optional("how they ended", default="")
    roles: Sequence[str] = optional("what those of them were for that were lost first, such as `server`", default=())
    hit_s: float | None = optional("when something was done to it, from the trial's start; else when it ended")
    noticed_s: float | None = optional("when the others noticed")
    recovered_s: float | None = optional("from then to the next change of the weights")
    lost_updates: Sequence[Sequence[int]] = optional(
        "updates that were lost with a server, whether it was started again or its replica took over: rank, iteration",
        default=(),
    )


@dataclass(frozen=True)
class Recovery(Part):
    """How the others went on when nodes had died."""

    without: list[str] = required("processes that had died")
    first: int = required("iteration with which the others went on")
    world: int = required("how many went on", "workers")
    scheme: str = required("by which scheme")
    behind = unread(list[str], "nodes that took over the weights of others")
    called_s: float = required("when the deaths were noticed, from the trial's start")
    sent_on_s = unread(float, "when the others were told to go on")
    recovered_s: float | None = optional("from the first death to the end of the next iteration")


class Phase(Part):
    """Iterations that the same workers did by the same plan."""

    first = unread(int, "first iteration of the phase")
    stop = unread(int, "iteration after the last one")
    world = unread(int, "how many there were", "workers")
    scheme = unread(str, "by which scheme they synchronised")
    cause = unread(str, "what began the phase, such as `beginning`, `death`, `timer`, `measurement`")
    why = unread(Text, "the same in words")
    gst_median_s = unread(float, _MEANINGS["gst_median_s"])
    gst_theory_s = unread(float, _MEANINGS["gst_theory_s"])
    throughput_sps = unread(float, _MEANINGS["throughput_sps"])


@dataclass(frozen=True)
class Tuning(Part):
    """A step of Autotune, which moves masters of two-level aggregation."""

    after: int = required("how many iterations were done")
    how = unread(str, "`quicktune`: all masters anew, or `finetune`: some moved")
    plan: int | None = optional("number of the plan that workers were told; null where masters stayed")
    iteration_s = unread(float, "median of the iterations by which it was decided")
    predicted_s = unread(float, "how long an iteration was to take then")
    load_ratio = unread(float, "most bytes that a host then sends over the least", "ratio")
    global_masters: Mapping[str, int] = optional(
        "by host, of how many classes it then is the global master", "classes", default={}
    )
    local_masters = unread(Mapping[str, int], "by host, of how many classes it then is a local master", "classes")


@dataclass(frozen=True)
class Failover(Part):
    """Deaths of processes, and how the others went on."""

    deaths = unread(list[Death])
    losses: tuple[Loss, ...] = optional(default=())
    recoveries: tuple[Recovery, ...] = optional(default=())
    phases = unread(list[Phase])


@dataclass(frozen=True)
class FoundOrder(Part):
    """An order of ranks that was found, and what is known of others (PHub thesis, chapter 5)."""

    order: list[str] = required("hosts by rank")
    cost_s: float = required("what the order costs by the model of its collective")
    by_number_s: float = required("what the order of numbers costs")
    best_s: float = required("what the best order costs that was found")
    worst_s: float = required("what the worst order costs that was found")
    bound_s: float | None = required("what no order costs less than (more than, for the worst one); null if not known")
    proven: bool = required("whether no order is better (worse, for the worst one)")
    note = unread(str, "why that is not proven")
    took_s = unread(float, "how long the solver took")


@dataclass(frozen=True)
class Found(Part):
    """Settings that hosts found in a trial, in place of what its spec leaves open."""

    job: str = required("job whose settings they are; empty where an arm has one job")
    probe: str = required("what hosts measured for them")
    settings: Mapping[str, Any] = required("settings with which the trial ran, by key of the arm or the job", NO_UNIT)
    measured: Mapping[str, list[Missing]] = required(
        "by host, what was measured; null where it is missing", "as probed"
    )
    took_s: float = required("how long hosts measured, beside bursts")
    search: FoundOrder | None = optional()


class Waited(Part):
    """How a trial waited for a calm machine."""

    waited_s = unread(float, "how long the trial waited for other programs to leave the cores")
    calm = unread(bool, "whether they did")
    busy = unread(float, "of the cores' time, what others took at worst", SHARE)
    stolen = unread(float, "of the cores' time, what the host took at worst", SHARE)
    taken = unread(bool, "whether it waited for a run that had the machine to itself")


@dataclass(frozen=True)
class Attempt(Part):
    """A measurement of a trial that does not count, since it was INVALID only because of the machine."""

    verdict: str = required("what came of it")
    reasons: tuple[Text, ...] = required("which of its checks failed")
    started: str = required("when an earlier attempt began", "ISO 8601")
    metrics: Metrics = required()
    duration_s = unread(float, "how long it took")
    numbers = unread(Mapping[str, str], "the verdict of each of its numbers")
    waited = unread(Waited)


@dataclass(frozen=True)
class Checkpoints(Part):
    """The checkpoints that processes wrote."""

    processes: int = optional("how many processes wrote checkpoints", default=0)
    count: int = optional("how many each of them wrote", default=0)
    bytes: int = optional("what they wrote in all", default=0)
    longest_s: NotNegative = optional("for how long the one that took longest wrote in all", default=0.0)
