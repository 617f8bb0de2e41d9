"""Base of all kinds of perturbations: their common keys in a spec, and what they say about themselves.

A kind says nothing of what it does not do: everything here is "no" or "nothing" until a kind says otherwise. This
module must not import :mod:`testbed.spec`, which imports every kind.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Self

import numpy as np
from pydantic import BeforeValidator, Field, model_validator

from testbed.base.groups import Group, Line, Number, kind_of, listed, refuse
from testbed.lab.base import Impairment, LinkChange, LinkSettings
from testbed.lab.limits import Limits
from testbed.perturb import targets
from testbed.perturb.events import Event, Helper, Reconfiguration
from testbed.perturb.moments import START, Moment, When
from testbed.topologies.addressing import Addresses, plan
from testbed.topologies.model import Topology

if TYPE_CHECKING:
    from testbed.perturb.stragglers import Stragglers, Workers


def _names(value: object) -> list[object]:
    """Convert one name or several to a list, with ranges such as ``h0..h29`` written out."""
    return [name for one in listed(value) for name in (_from_to(one) if isinstance(one, str) else [one])]


def _from_to(text: str) -> list[str]:
    if ".." not in text:
        return [text]
    found = _NAME_RANGE.fullmatch(text)
    if found is None:
        raise refuse(f"{text!r} is no range of names", "write both ends, with the same letters: h0..h29")
    first, last = int(found["first"]), int(found["last"])
    if last < first:
        raise refuse(f"{text!r} ends before it begins", f"write it as {found['kind']}{last}..{found['kind']}{first}")
    if last - first >= MOST_NAMES:
        raise refuse(f"{text!r} has {last - first + 1:,} names; at most {MOST_NAMES:,} are allowed", "name fewer")
    return [f"{found['kind']}{number}" for number in range(first, last + 1)]


MOST_NAMES = 4096
"""The most names of one range: more nodes than any lab has."""
_NAME_RANGE = re.compile(r"(?P<kind>[A-Za-z]+)(?P<first>0|[1-9]\d{0,8})\.\.(?P=kind)(?P<last>0|[1-9]\d{0,8})")
Names = Annotated[list[Annotated[str, Field(strict=True)]], BeforeValidator(_names), Field(min_length=1)]
"""Names of nodes, processes or links."""
Slowdown = Annotated[Number, Field(gt=1, le=1000, examples=["2"])]

MOST = 50
"""The most perturbations of an experiment, and of an arm; trials have both. Each is checked before the first runs."""
COMPUTING = "computing"
"""An effect: workers compute for longer."""
STEPS = "steps"
"""An effect: steps of a synchronisation are held up."""
CIRCUITS = "circuits"
"""An effect: circuits move."""
UNSENT = "unsent"
"""An effect: circuits move by what processes have still to send, which they have to tell, and hold meanwhile."""


@dataclass(frozen=True)
class Context:
    """Trial to which a perturbation happens.

    Attributes:
        scale: the workload's, which divides rates.
        links: what links are beyond their rate and delay, for an event that ends to put back.
        limits: of the lab, for the rates that it can have.
        seed: of all that happens by chance; each perturbation has numbers of its own.
        processes: the node of each process of the trial, by the process's name.
        number: of the perturbation in its trial.
    """

    topology: Topology
    scale: float
    links: LinkSettings
    limits: Limits
    seed: int
    processes: Mapping[str, int]
    number: int = 0

    @cached_property
    def addresses(self) -> Addresses:
        """Addresses of the topology's ports."""
        return plan(self.topology)

    def random(self) -> np.random.Generator:
        """Make random numbers of this perturbation's own, so that adding another one leaves them as they were."""
        return np.random.default_rng([self.seed, self.number])


class Perturbation(Group):
    """A change that a spec makes to a trial while it runs. A kind adds the key ``kind`` and keys of its own."""

    name: Line = Field("", max_length=40)
    """The name in the report. The default is the kind."""

    multiplies_computing: ClassVar[bool] = False
    """Whether it multiplies the time of computing, so that must take some."""
    drops_packets: ClassVar[bool] = False
    """Whether links drop packets after it has begun."""
    disturbs_tcp: ClassVar[bool] = False
    """Whether it changes links or fills them: TCP then has to send again, as it would on such a network."""
    while_probed: ClassVar[bool] = False
    """Whether it is there also while hosts probe each other, before the trial's own processes start."""
    moves_circuits: ClassVar[bool] = False
    asked_in_band: ClassVar[bool] = False
    """Whether processes of a trial may ask for it while they run. It is then a :class:`testbed.perturb.events.Move`."""

    @property
    def title(self) -> str:
        """The name, or what it is."""
        return self.name or kind_of(type(self))

    @property
    def effects(self) -> frozenset[str]:
        """Effects that a kind of trial may not be able to have: of :data:`COMPUTING`, :data:`STEPS`, :data:`CIRCUITS`
        and :data:`UNSENT`."""
        return frozenset({CIRCUITS}) if self.moves_circuits else frozenset()

    @property
    def moments(self) -> Sequence[Moment]:
        """Moments at which it begins and ends, as far as the spec says."""
        return ()

    @property
    def inputs(self) -> Sequence[str]:
        """Files that it reads, by their names from the spec's directory."""
        return ()

    @property
    def most_slowdown(self) -> float:
        """The largest factor by which it multiplies the time of an iteration's computing, as far as the spec says."""
        return 1.0

    @property
    def stops(self) -> Sequence[str]:
        """Nodes and processes that it lets stand still."""
        return ()

    @property
    def kills(self) -> Sequence[str]:
        """Nodes whose processes it kills, and processes."""
        return ()

    @property
    def impairment(self) -> Impairment | None:
        """Treatment of packets by links while it lasts; the lab must be able to have that."""
        return None

    @property
    def reconfiguration(self) -> Reconfiguration | None:
        """Way in which it moves circuits again and again by what processes have still to send, and hold meanwhile; None
        if it does not. Set :attr:`moves_circuits`, too."""
        return None

    def step_sigma_s(self, topology: Topology) -> Mapping[int, float]:
        """Standard deviation (s) of what is added to each step of a synchronisation, by host.

        Raises:
            SpecError: there is no such host.
        """
        del topology
        return {}

    def lengthen(self, drawn: Stragglers, workers: Workers, random: np.random.Generator) -> None:
        """Let workers compute for longer, in place; asked of those with the effect :data:`COMPUTING`.

        Raises:
            SpecError: there is no such worker, or a file cannot be read.
        """

    def may_lengthen(self, workers: Workers) -> Sequence[int]:
        """Ranks of workers that may compute for longer; asked of those with the effect :data:`COMPUTING`.

        Raises:
            SpecError: there is no such worker.
        """
        return workers.chosen(None)

    def changes_by_chance(self, context: Context, until_s: float) -> tuple[int, int] | None:
        """Count its draws for links until so long after the trial's beginning: how many draws change something, and how
        many there are. None if it draws nothing."""
        del context, until_s
        return None

    def moved(self, topology: Topology) -> Topology:
        """The network once circuits have moved.

        Raises:
            SpecError: they cannot.
        """
        return topology

    def helpers(self, context: Context) -> Sequence[Helper]:
        """Processes that wait beside the workers until its events want them.

        Raises:
            SpecError: there is no such host.
        """
        del context
        return ()

    def events(self, context: Context) -> Iterable[Event]:
        """Make the changes of the lab, in the order of time; an iterator if that has no end.

        Raises:
            SpecError: something is named that there is not, or cannot be.
        """
        del context
        return ()


class OfWorkers(Perturbation):
    """A perturbation of workers."""

    workers: Names | None = Field(None, examples=["[h0, h3]"])
    """The hosts of the affected workers. The default is all hosts."""

    def may_lengthen(self, workers: Workers) -> Sequence[int]:
        return workers.chosen(self.workers)


class Slowing(OfWorkers):
    """A perturbation of workers, which then compute ``slowdown`` times as long. A kind declares that key itself, after
    its other keys."""

    if TYPE_CHECKING:
        slowdown: Slowdown

    multiplies_computing: ClassVar[bool] = True

    @property
    def effects(self) -> frozenset[str]:
        return frozenset({COMPUTING})

    @property
    def most_slowdown(self) -> float:
        return self.slowdown


class Timed(Perturbation):
    """A perturbation that begins at a moment and may end at another."""

    at: When = Field(START, examples=["3 s"])
    """The moment at which it begins."""
    until: When | None = Field(None, examples=["9 s"])
    """The moment at which it ends. By default it lasts to the end of the trial."""

    @property
    def moments(self) -> Sequence[Moment]:
        return (self.at,) if self.until is None else (self.at, self.until)

    def window(self, what: str, changes: Sequence[LinkChange] = (), back: Sequence[LinkChange] = ()) -> list[Event]:
        """Make an event at the beginning and, where there is an end, one there that puts links ``back``."""
        kind = kind_of(type(self))
        begin = Event(self.at, kind, what, tuple(changes))
        if self.until is None:
            return [begin]
        return [begin, Event(self.until, kind, f"no longer: {what}", tuple(back), optional=True)]

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.until is None:
            return self
        pairs = ((self.at.time_s, self.until.time_s), (self.at.iteration, self.until.iteration))
        if any(begin is not None and end is not None and end <= begin for begin, end in pairs):
            raise refuse(f"it ends at {self.until} and begins at {self.at}", "let it end after it begins")
        return self


class OfLinks(Perturbation):
    """A perturbation of links."""

    links: Names | None = Field(None, examples=["[h0]"])
    """The affected links: all links of a node (``h0``), the link of one NIC (``h0:eth1``), those between two nodes
    (``h0-s0``), those of a rack's hosts (``rack 0``), or those up to the switches of a level (``level 1``). The default
    is every NIC of every host."""
    direction: Literal["both", "out", "in"] = "both"
    """``out``: away from the node that ``links`` names, or names first; of a rack away from its hosts; of a level
    upwards. ``in``: the other way. Without names, away from each host, or towards it."""

    def directed(self, topology: Topology) -> list[int]:
        """The directed links, each once, in order.

        Raises:
            SpecError: there is no such link.
        """
        return targets.links(topology, self.links, self.direction)
