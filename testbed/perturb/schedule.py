"""From perturbations to events: what is to be changed in the lab, and when. Pure data; nothing is touched here.

Where two perturbations change the same property of a link, the later event wins; one that ends puts back what the
link was built with.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Literal

import numpy as np

from testbed.base.errors import SpecError
from testbed.base.listing import shortened
from testbed.base.units import rate_text, size_text
from testbed.lab.base import Impairment, LinkChange, LinkSettings, check_rate
from testbed.perturb import circuits, targets
from testbed.spec.base import Group
from testbed.spec.perturb import Background, Circuits, Down, Freeze, Hog, Impair, Kill, Moment, Queue, Rates, Step
from topologies.addressing import Addresses, plan
from topologies.model import Topology


@dataclass(frozen=True)
class Helper:
    """A process that waits beside the workers until a perturbation wants it: ``python -m MODULE ARGUMENTS...``.

    A source says at its end how many bytes it sent.
    """

    kind: Literal["hog", "sink", "source"]
    name: str
    node: int
    module: str
    arguments: tuple[str, ...] = ()


@dataclass(frozen=True)
class Signals:
    """A signal to a node (everything on it) or a process, or to one helper; each by its name."""

    number: signal.Signals
    target: str | None = None
    helper: str | None = None


@dataclass(frozen=True)
class Event:
    """Changes that belong together, at one moment; ``what`` says it to a reader."""

    at: Moment
    kind: str
    what: str
    links: tuple[LinkChange, ...] = ()
    impairments: Mapping[int, Impairment] = field(default_factory=dict)
    """By directed link."""
    signals: tuple[Signals, ...] = ()
    circuits: Circuits | None = None
    kills: tuple[str, ...] = ()
    """Nodes and processes that do not live on."""
    halts: str = ""
    """What stands still from then on, and lets the others wait: ``h2 frozen``."""
    resumes: str = ""
    """What of that goes on again."""
    optional: bool = False
    """Nothing is missed if the trial ends first."""


@dataclass(frozen=True)
class Schedule:
    """Everything that is to happen: streams of events, each in the order of time, perhaps without end, and the
    processes that must wait for them."""

    streams: tuple[Iterator[Event], ...] = ()
    helpers: tuple[Helper, ...] = ()


START_SIGNAL, STOP_SIGNAL = signal.SIGUSR1, signal.SIGUSR2
"""What a helper begins and ends its work at, again and again."""
BACKGROUND_PORT = 8_000
"""The n-th background perturbation's sink listens at this plus n."""


def schedule(
    perturbations: Sequence[Group],
    topology: Topology,
    seed: int,
    scale: float,
    settings: LinkSettings,
    processes: Mapping[str, int],
) -> Schedule:
    """What is to happen to a trial.

    Args:
        perturbations: the spec's and the arm's; those of computing are :mod:`testbed.perturb.stragglers`'.
        seed: of all that happens by chance; each perturbation has numbers of its own.
        scale: the workload's, which divides rates.
        settings: what links are beyond their rate and delay, for an event that ends to put back.
        processes: the node of each process of the trial, by the process's name.

    Raises:
        SpecError: something is named that there is not, or a rate is above the link's own.
    """
    streams: list[Iterator[Event]] = []
    helpers: list[Helper] = []
    addresses = plan(topology)
    for number, one in enumerate(perturbations):
        match one:
            case Rates():
                _check_rates(one, topology)
                streams.append(_rates(one, topology, np.random.default_rng([seed, number])))
            case Step():
                streams.append(iter(_step(one, topology, scale)))
            case Queue():
                streams.append(iter(_queue(one, topology, settings)))
            case Impair():
                streams.append(iter(_impair(one, topology, settings)))
            case Down():
                streams.append(iter(_down(one, topology)))
            case Freeze():
                streams.append(iter(_freeze(one, topology, processes)))
            case Kill():
                streams.append(iter(_kill(one, topology, processes)))
            case Circuits():
                circuits.panels_of(topology)
                streams.append(iter([Event(one.at, one.kind, circuits.words(one), circuits=one)]))
            case Hog():
                made = _hogs(one, topology, number)
                helpers += made
                streams.append(iter(_helped(one, f"{one.cores} busy on {', '.join(one.hosts)}", made)))
            case Background():
                made = _flows(one, topology, number, scale, addresses)
                helpers += made
                what = f"{one.flows} from {one.source} to {one.sink}"
                streams.append(iter(_helped(one, what, [made[1]])))
    return Schedule(tuple(streams), tuple(helpers))


def background_pairs(perturbations: Sequence[Group], topology: Topology) -> list[tuple[int, int]]:
    """(source, sink) of every background flow: what the lab needs routes for.

    Raises:
        SpecError: there is no such host, or a host is to send to itself.
    """
    found = []
    for one in perturbations:
        if isinstance(one, Background):
            source, sink = targets.hosts(topology, [one.source, one.sink])
            if source == sink:
                raise SpecError(f"background traffic from {one.source} to itself", fix="name two hosts")
            found.append((source, sink))
    return found


def _check_rates(one: Rates, topology: Topology) -> None:
    for link in targets.links(topology, one.links, one.direction):
        check_rate(_rate_bps(topology, link) * min(one.shares))


def _rates(one: Rates, topology: Topology, random: np.random.Generator) -> Iterator[Event]:
    """One event every ``every_s``, without end, that draws a rate for every link and direction."""
    links = targets.links(topology, one.links, one.direction)
    shares, chances = list(one.shares), np.array(list(one.shares.values()))
    for period in count():
        drawn = random.choice(len(shares), len(links), p=chances / chances.sum())
        changes = tuple(
            LinkChange(link, rate_bps=round(_rate_bps(topology, link) * shares[i]))
            for link, i in zip(links, drawn.tolist(), strict=True)
        )
        tally = {f"{share:.0%}": int(np.count_nonzero(drawn == i)) for i, share in enumerate(shares)}
        what = ", ".join(f"{number} at {share}" for share, number in tally.items() if number)
        yield Event(
            Moment(time_s=period * one.every_s), one.kind, f"{what} of their rate", changes, optional=period > 0
        )


def _step(one: Step, topology: Topology, scale: float) -> list[Event]:
    links = targets.links(topology, one.links, one.direction)
    wanted = {
        link: round(one.rate_bps / scale if one.rate_bps else (one.share or 1) * _rate_bps(topology, link))
        for link in links
    }
    for link, rate_bps in wanted.items():
        check_rate(rate_bps)
        if rate_bps > _rate_bps(topology, link):
            raise SpecError(
                f"{targets.label(topology, link)} has {rate_text(_rate_bps(topology, link))} and cannot rise to "
                f"{rate_text(rate_bps)}",
                fix="give the topology the highest rate, and lower it where the trial begins",
            )
    what = f"{_all(topology, links)} at {' or '.join(sorted({rate_text(rate) for rate in wanted.values()}))}"
    changes = [LinkChange(link, rate_bps=rate) for link, rate in wanted.items()]
    return _window(one, what, changes, [LinkChange(link, rate_bps=_rate_bps(topology, link)) for link in links])


def _queue(one: Queue, topology: Topology, settings: LinkSettings) -> list[Event]:
    links = targets.links(topology, one.links, one.direction)
    return _window(
        one,
        f"{_all(topology, links)} with a queue of {size_text(one.size_bytes)}",
        [LinkChange(link, queue_bytes=one.size_bytes) for link in links],
        [LinkChange(link, queue_bytes=settings.queue_bytes) for link in links],
    )


def _impair(one: Impair, topology: Topology, settings: LinkSettings) -> list[Event]:
    links = targets.links(topology, one.links, one.direction)
    before = {
        link: Impairment(topology.links[link // 2].delay_s, settings.jitter_s, settings.loss, settings.reorder)
        for link in links
    }
    begin, *end = _window(one, f"{_all(topology, links)} with {one.impairment}", [], [])
    return [
        replace(begin, impairments=dict.fromkeys(links, one.impairment)),
        *(replace(event, impairments=before) for event in end),
    ]


def _down(one: Down, topology: Topology) -> list[Event]:
    links = targets.links(topology, one.links, one.direction)
    return _halting(_window(one, f"{_all(topology, links)} down", *_blocked(links)))


def _freeze(one: Freeze, topology: Topology, processes: Mapping[str, int]) -> list[Event]:
    """A machine that stands still takes no packet either, so its links are blocked both ways. Where one of its
    processes stands still, the machine does not."""
    for name in one.hosts:
        targets.reached(topology, processes, name)
    hosts = [name for name in one.hosts if name in topology.index]
    targets.hosts(topology, hosts)
    links = targets.links(topology, hosts, "both")
    begin, *end = _halting(_window(one, f"{', '.join(one.hosts)} frozen", *_blocked(links)))
    stop, go = (tuple(Signals(number, name) for name in one.hosts) for number in (signal.SIGSTOP, signal.SIGCONT))
    return [replace(begin, signals=stop), *(replace(event, signals=go) for event in end)]


def _kill(one: Kill, topology: Topology, processes: Mapping[str, int]) -> list[Event]:
    ended = [process for name in one.nodes for process in targets.reached(topology, processes, name)]
    signals = tuple(Signals(signal.SIGKILL, target=name) for name in one.nodes)
    return [Event(one.at, one.kind, f"{', '.join(one.nodes)} killed", signals=signals, kills=tuple(ended))]


def _hogs(one: Hog, topology: Topology, number: int) -> list[Helper]:
    return [
        Helper("hog", f"hog{number}-{topology.nodes[host].name}-{core}", host, "workloads.hog")
        for host in targets.hosts(topology, one.hosts)
        for core in range(one.cores)
    ]


def _flows(one: Background, topology: Topology, number: int, scale: float, addresses: Addresses) -> list[Helper]:
    """The sink, then the source."""
    source, sink = targets.hosts(topology, [one.source, one.sink])
    place = (addresses.flow(source, sink)[1], str(BACKGROUND_PORT + number))
    rate = str(round((one.rate_bps or 0) / scale))
    return [
        Helper("sink", f"sink{number}", sink, "workloads.background", ("sink", *place, str(one.flows))),
        Helper("source", f"source{number}", source, "workloads.background", ("source", *place, str(one.flows), rate)),
    ]


def _helped(one: Hog | Background, what: str, helpers: Sequence[Helper]) -> list[Event]:
    begin, *end = _window(one, what, [], [])
    start, stop = (
        tuple(Signals(number, helper=helper.name) for helper in helpers) for number in (START_SIGNAL, STOP_SIGNAL)
    )
    return [replace(begin, signals=start), *(replace(event, signals=stop) for event in end)]


def _window(
    one: Step | Queue | Impair | Down | Freeze | Hog | Background,
    what: str,
    changes: Sequence[LinkChange],
    back: Sequence[LinkChange],
) -> list[Event]:
    """An event at the beginning and, where there is an end, one there."""
    begin = Event(one.at, one.kind, what, tuple(changes))
    if one.until is None:
        return [begin]
    return [begin, Event(one.until, one.kind, f"no longer: {what}", tuple(back), optional=True)]


def _halting(events: Sequence[Event]) -> list[Event]:
    """The same of which the first makes something stand still, until the second, if there is one."""
    begin, *end = events
    return [replace(begin, halts=begin.what), *(replace(event, resumes=begin.what) for event in end)]


def _blocked(links: Sequence[int]) -> tuple[list[LinkChange], list[LinkChange]]:
    return [LinkChange(link, blocked=True) for link in links], [LinkChange(link, blocked=False) for link in links]


def _rate_bps(topology: Topology, link: int) -> int:
    return topology.links[link // 2].rate_bps


def _all(topology: Topology, links: Sequence[int]) -> str:
    return shortened([targets.label(topology, link) for link in links], 3)
