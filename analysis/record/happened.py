"""What happened to a trial: perturbations, deaths and what was done about them, waiting, earlier attempts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from testbed.analysis.record.fields import SHARE, NotNegative, Part, Text, needed, own_fields, told, unread
from testbed.analysis.record.metrics import Metrics

_MEANINGS = {field.key: field.meaning for field in own_fields(Metrics)}


@dataclass(frozen=True)
class Event(Part):
    """Something that was done to a trial; None where that did not come."""

    kind: Text = needed("kind of perturbation")
    what: Text = needed("what was done, in words")
    planned_s: float | None = told("when it was to happen, from the trial's start")
    begun_s: float | None = told("when it began")
    done_s: float | None = told("when it was in effect")
    error: Text | None = told("why it failed")
    takes_s: float = told("how long it was meant to take", default=0.0)
    free_s: float | None = told("from when on it could begin, if that was later")
    rates_bps: Mapping[int, NotNegative] = told(
        "by directed link, the rate that it was given", key="links.rate_bps", default={}
    )
    blocked: Mapping[int, bool] = told("by directed link, whether it was blocked", key="links.blocked", default={})


@dataclass(frozen=True)
class Death(Part):
    """A process that a trial lost, and had to go on without."""

    name = unread(str, "process that died")
    how = unread(Text, "how it died")
    at_s = unread(float, "when it died, from the trial's start")


@dataclass(frozen=True)
class Loss(Part):
    """A node without whose processes the others went on by themselves; None where a time is not known."""

    node: str = needed("node without whose processes the others went on by themselves")
    processes = unread(list[str], "processes that ended there")
    how: Text = told("how they ended", default="")
    roles: Sequence[str] = told("what those of them were for that were lost first, such as `server`", default=())
    hit_s: float | None = told("when something was done to it, from the trial's start; else when it ended")
    noticed_s: float | None = told("when the others noticed")
    recovered_s: float | None = told("from then to the next change of the weights")
    lost_updates: Sequence[Sequence[int]] = told(
        "updates that were lost with a server, whether it was started again or its replica took over: rank, iteration",
        default=(),
    )


@dataclass(frozen=True)
class Recovery(Part):
    """What a trial did when nodes had died: others went on."""

    without: list[str] = needed("processes that had died")
    first: int = needed("iteration with which the others went on")
    world: int = needed("how many went on", "workers")
    scheme: str = needed("by which scheme")
    behind = unread(list[str], "nodes that took over the weights of others")
    called_s: float = needed("when the deaths were noticed, from the trial's start")
    sent_on_s = unread(float, "when the others were told to go on")
    recovered_s: float | None = told("from the first death to the end of the next iteration")


@dataclass(frozen=True)
class Phase(Part):
    """The iterations between two deaths."""

    first = unread(int, "first iteration between two deaths")
    stop = unread(int, "iteration after the last one")
    world = unread(int, "how many there were", "workers")
    scheme = unread(str, "by which scheme they synchronised")
    gst_median_s = unread(float, _MEANINGS["gst_median_s"])
    gst_theory_s = unread(float, _MEANINGS["gst_theory_s"])
    throughput_sps = unread(float, _MEANINGS["throughput_sps"])


@dataclass(frozen=True)
class Failover(Part):
    """Deaths of processes, and how the others went on."""

    deaths = unread(list[Death])
    losses: tuple[Loss, ...] = told(default=())
    recoveries: tuple[Recovery, ...] = told(default=())
    phases = unread(list[Phase])


@dataclass(frozen=True)
class Waited(Part):
    """How a trial waited for a calm machine."""

    waited_s = unread(float, "how long the trial waited for other programs to leave the cores")
    calm = unread(bool, "whether they did")
    busy = unread(float, "of the cores' time, what others took at worst", SHARE)
    stolen = unread(float, "of the cores' time, what the host took at worst", SHARE)


@dataclass(frozen=True)
class Attempt(Part):
    """A measurement of a trial that does not count, since it was INVALID only because of the machine."""

    verdict: str = needed("what came of it")
    reasons: tuple[Text, ...] = needed("which of its checks failed")
    started: str = needed("when an earlier attempt began", "ISO 8601")
    metrics: Metrics = needed()
    duration_s = unread(float, "how long it took")
    numbers = unread(Mapping[str, str], "the verdict of each of its numbers")
    waited = unread(Waited)


@dataclass(frozen=True)
class Checkpoints(Part):
    """What processes wrote as checkpoints."""

    processes: int = told("how many processes wrote checkpoints", default=0)
    count: int = told("how many each of them wrote", default=0)
    bytes: int = told("what they wrote in all", default=0)
    longest_s: NotNegative = told("for how long the one that took longest wrote in all", default=0.0)
