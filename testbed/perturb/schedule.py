"""From perturbations to events: what is to be changed in the lab, and when. Pure data; nothing is touched here.

Where two perturbations change the same property of a link, the later event wins; one that ends puts back what the
link was built with.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from testbed.lab.base import LinkSettings
from testbed.perturb.events import Event, Helper
from testbed.perturb.kinds.base import Context, Perturbation
from topologies.addressing import plan
from topologies.model import Topology


@dataclass(frozen=True)
class Schedule:
    """Everything that is to happen: streams of events, each in the order of time, perhaps without end, and the
    processes that must wait for them."""

    streams: tuple[Iterator[Event], ...] = ()
    helpers: tuple[Helper, ...] = ()


def schedule(
    perturbations: Sequence[Perturbation],
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
        context = Context(topology, addresses, scale, settings, seed, number, processes)
        helpers += one.helpers(context)
        events = one.events(context)
        if events != ():  # something happens in the lab
            streams.append(iter(events))
    return Schedule(tuple(streams), tuple(helpers))


def background_pairs(perturbations: Sequence[Perturbation], topology: Topology) -> list[tuple[int, int]]:
    """(source, sink) of every background flow: what the lab needs routes for.

    Raises:
        SpecError: there is no such host, or a host is to send to itself.
    """
    return [pair for one in perturbations for pair in one.pairs(topology)]
