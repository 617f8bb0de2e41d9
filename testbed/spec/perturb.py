"""What a spec may do to a trial while it runs: the kinds of ``perturb`` and their keys.

Compute: ``straggle``, ``slow``, ``jitter``, ``trace``, ``hog``. Network: ``rates``, ``rate``, ``background``,
``queue``, ``impair``, ``down``, ``circuits``. Both: ``freeze``, ``kill``. Settings of published experiments have names
(:data:`NAMED`), which stand in the list in place of a group.

Times count from the moment at which the first worker starts its first iteration.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, get_args

from pydantic import BeforeValidator, Discriminator, Field, model_validator

from testbed.base import units
from testbed.base.errors import SpecError
from testbed.lab.base import Impairment
from testbed.spec.base import Group, Line, Number, Rate, Share, Size, Time, Whole, kind_of, listed, refuse, tag, tagged

Names = Annotated[list[Annotated[str, Field(strict=True)]], BeforeValidator(listed), Field(min_length=1)]


def _tuples(value: object) -> object:
    """Lists as the expressions of topologies have them."""
    return tuple(map(_tuples, value)) if isinstance(value, list | tuple) else value


Tuples = Annotated[tuple[Any, ...], BeforeValidator(_tuples)]


def _flip(value: object) -> object:
    """``all``, or names."""
    if value is None or value == "all":
        return value
    names = listed(value)
    if not names or not all(isinstance(name, str) for name in names):
        raise refuse(f"{value!r} names no servers", "write flip: all, or flip: [h0, h3]")
    return names


_ITERATION = re.compile(r"\s*iteration\s+(\d{1,9})\s*")


class Moment(Group):
    """A time after the start of training, or the moment at which rank 0 has finished so many iterations."""

    time_s: float | None = None
    iteration: int | None = None

    def __str__(self) -> str:
        return f"iteration {self.iteration}" if self.time_s is None else units.time_text(self.time_s)


def _moment(value: object) -> object:
    """``3 s`` or ``iteration 10``."""
    if isinstance(value, Moment):  # a default
        return value
    if isinstance(value, str) and (match := _ITERATION.fullmatch(value)):
        return {"iteration": int(match[1])}
    try:
        return {"time_s": units.time_s(value)}
    except SpecError as error:
        raise refuse(error.problem, f"{error.fix}; or write iteration 10") from None


When = Annotated[Moment, BeforeValidator(_moment)]
START = Moment(time_s=0.0)


class _Perturbation(Group):
    name: Line = Field("", max_length=40)
    """How the report calls it."""

    @property
    def title(self) -> str:
        """The name, or what it is."""
        return self.name or str(getattr(self, "kind", ""))


class _OfWorkers(_Perturbation):
    workers: Names | None = Field(None, examples=["[h0, h3]"])
    """Hosts whose workers it happens to; None for all."""


class Straggle(_OfWorkers):
    """In each iteration each worker has a chance of computing ``slowdown`` times as long."""

    kind: Literal["straggle"]
    probability: Share = Field(examples=["10 %"])
    slowdown: Number = Field(gt=1, le=1000, examples=["2"])


class Slow(_OfWorkers):
    """Some workers always compute ``slowdown`` times as long."""

    kind: Literal["slow"]
    workers: Names = Field(examples=["[h0]"])
    slowdown: Number = Field(gt=1, le=1000, examples=["2"])


class Jitter(_OfWorkers):
    """A normal distribution's positive half is added to the time of each iteration's computing, or of each step of a
    synchronisation (Rina equation 3): nothing becomes faster."""

    kind: Literal["jitter"]
    sigma_s: Time = Field(alias="sigma", gt=0, examples=["20 ms"])
    of: Literal["iteration", "step"] = "iteration"


class Trace(_Perturbation):
    """Slowdowns from a CSV file with the columns ``worker``, ``iteration`` and ``slowdown``."""

    kind: Literal["trace"]
    file: str = Field(examples=["stragglers.csv"])


class _Timed(_Perturbation):
    at: When = Field(START, examples=["3 s"])
    until: When | None = Field(None, examples=["9 s"])
    """None: to the end of the trial."""

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.until is None:
            return self
        pairs = ((self.at.time_s, self.until.time_s), (self.at.iteration, self.until.iteration))
        if any(begin is not None and end is not None and end <= begin for begin, end in pairs):
            raise refuse(f"it ends at {self.until} and begins at {self.at}", "let it end after it begins")
        return self


class Hog(_Timed):
    """Processes on a host that take CPU time from everything on this machine."""

    kind: Literal["hog"]
    hosts: Names = Field(examples=["[h0]"])
    cores: Whole = Field(1, ge=1, le=256)
    """So many on each host, each of which would fill a core."""


class _OfLinks(_Perturbation):
    links: Names | None = Field(None, examples=["[h0]"])
    """``h0`` (each link of that node), ``h0:eth1`` (one NIC's) or ``h0-s0`` (those between two); None for every NIC of
    every host."""
    direction: Literal["both", "out", "in"] = "both"
    """``out`` is away from the node that is named, or named first; without names, away from the host."""


class Rates(_OfLinks):
    """Every so often each link and direction gets another rate, by chance."""

    kind: Literal["rates"]
    every_s: Time = Field(5.0, alias="every", gt=0)
    shares: dict[Share, Number] = Field(min_length=1, max_length=100, examples=["{10 %: 0.5, 100 %: 0.5}"])
    """The probability of each share of the link's own rate."""

    @model_validator(mode="after")
    def _sum_is_1(self) -> Self:
        total = sum(self.shares.values())
        if abs(total - 1) > 1e-6 or min(self.shares.values()) < 0:
            raise refuse(f"the probabilities add up to {total:g}", "make them add up to 1, none below 0")
        if min(self.shares) <= 0:
            raise refuse("a rate of 0", "give shares above 0, or use kind: down")
        return self


class Step(_Timed, _OfLinks):
    """Links have another rate for a while (PLink's node 0 with 2 in place of 5 Gbit/s)."""

    kind: Literal["rate"]
    rate_bps: Rate | None = Field(None, alias="rate", examples=["2 Gbit/s"])
    """In the world of the paper: the workload's scale divides it, as it does the links' rates."""
    share: Share | None = Field(None, gt=0, examples=["40 %"])
    """Or as a share of each link's own rate."""

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.rate_bps is None) == (self.share is None):
            raise refuse("a change of rate takes one of rate and share", "write rate: 2 Gbit/s, or share: 40 %")
        return self


class Queue(_Timed, _OfLinks):
    """Links have a queue of another length for a while; what does not fit is dropped."""

    kind: Literal["queue"]
    size_bytes: Size = Field(alias="size", examples=["64 KiB"])


class Impair(_Timed, _OfLinks):
    """Links delay, lose or reorder packets for a while, in place of what they did before."""

    kind: Literal["impair"]
    delay_s: Time = Field(0.0, alias="delay", examples=["5 ms"])
    """This, ``jitter``, ``loss`` and ``reorder``: as in :class:`testbed.lab.base.Impairment`."""
    jitter_s: Time = Field(0.0, alias="jitter")
    loss: Share = Field(0.0, examples=["1 %"])
    reorder: Share = Field(0.0, examples=["1 %"])

    @property
    def impairment(self) -> Impairment:
        """As the lab takes it."""
        return Impairment(self.delay_s, self.jitter_s, self.loss, self.reorder)

    @model_validator(mode="after")
    def _can_be(self) -> Self:
        try:
            impairment = self.impairment
        except SpecError as error:
            raise refuse(error.problem, error.fix or "") from None
        if not impairment:
            raise refuse("it impairs nothing", "give a delay, jitter, loss or reorder")
        return self


class Down(_Timed, _OfLinks):
    """Links carry nothing for a while, and nobody is told: what is sent is lost."""

    kind: Literal["down"]
    links: Names = Field(examples=["[h0]"])


class Background(_Timed):
    """TCP flows from one host to another that compete with the trial's."""

    kind: Literal["background"]
    source: str = Field(alias="from", examples=["h0"])
    sink: str = Field(alias="to", examples=["h1"])
    flows: Whole = Field(1, ge=1, le=100)
    rate_bps: Rate | None = Field(None, alias="rate", examples=["50 Mbit/s"])
    """Each flow's; None sends as fast as TCP lets it. The workload's scale divides it."""


class Freeze(_Timed):
    """A host stops: its processes stand still, and its links carry nothing. Or one process stands still."""

    kind: Literal["freeze"]
    hosts: Names = Field(examples=["[h0]"])
    """Hosts; or processes such as ``h0.daemon``, whose hosts go on."""


class Kill(_Perturbation):
    """Every process of a node is killed: a worker, a server, or a switch that aggregates. Or one process is."""

    kind: Literal["kill"]
    at: When = Field(examples=["3 s"])
    nodes: Names = Field(examples=["[h0]"])
    """Nodes; or processes such as ``h0.daemon``."""


class Circuits(_Perturbation):
    """Circuits of patch panels move, or 1x2 switches flip to the panels that looked ahead (TopoOpt section 4)."""

    kind: Literal["circuits"]
    at: When = Field(START, examples=["3 s"])
    rings: Tuples = Field((), examples=["[1, 3]"])
    circuits: Tuples = Field((), examples=["[[0-1, 2-3], [1-2, 3-0]]"])
    """With the rings, all circuits there are afterwards, as ``patch_panel`` takes them."""
    routes: Tuples = Field((), examples=["[0-1-2]"])
    look_ahead: bool = Field(False, strict=True)
    """Patch the panels that look ahead; what carries light is not touched."""
    flip: Annotated[Literal["all"] | list[str] | None, BeforeValidator(_flip)] = Field(None, examples=["all"])
    """Turn the 1x2 switches of all servers, or of those that are named, to their other panels."""
    reconfiguration_s: Time | None = Field(None, alias="reconfiguration", examples=["10 ms"])
    """For how long circuits that move are dark; None takes the panels' own time, and of a flip none."""

    @model_validator(mode="after")
    def _moves_or_flips(self) -> Self:
        if bool(self.rings or self.circuits) == (self.flip is not None):
            raise refuse("circuits takes either rings and circuits, or flip", "write rings: [1, 3], or flip: all")
        if self.look_ahead and (self.flip is not None or self.routes):
            raise refuse("panels that look ahead carry no traffic yet", "give routes with flip, in a group of its own")
        return self


_Kinds = (
    Straggle
    | Slow
    | Jitter
    | Trace
    | Hog
    | Rates
    | Step
    | Queue
    | Impair
    | Down
    | Background
    | Freeze
    | Kill
    | Circuits
)
PERTURBATIONS: dict[str, type[Group]] = {kind_of(one): one for one in get_args(_Kinds)}
"""The kinds, by the name that ``kind`` gives."""


def _contention(p1: float, p25: float, p33: float, p5: float, p10: float) -> dict[str, Any]:
    """Shares of 10 Gbit/s for 1, 2.5, 3.3, 5 and 10: with 9, 3, 2, 1 and 0 other flows."""
    drawn = {0.1: p1, 0.25: p25, 0.33: p33, 0.5: p5, 1.0: p10}
    return {"kind": "rates", "every": "5 s", "shares": {share: p for share, p in drawn.items() if p}}


NAMED: dict[str, dict[str, Any]] = {
    "C1": {"kind": "straggle", "probability": 0.1, "slowdown": 2},
    "C2": {"kind": "straggle", "probability": 0.1, "slowdown": 4},
    "C3": {"kind": "straggle", "probability": 0.04, "slowdown": 2},
    "N1": _contention(0, 0, 0, 0.1, 0.9),
    "N2": _contention(0, 0.1, 0.1, 0.1, 0.7),
    "N3": _contention(0.5, 0, 0, 0, 0.5),
}
"""MLfabric's compute settings and network settings ("Background compute and network load" of its evaluation)."""


def _named(value: object) -> object:
    """A group in place of a name."""
    if isinstance(value, dict) and "kind" not in value:
        raise refuse("a group without a kind", f"add kind, one of: {', '.join(PERTURBATIONS)}")
    if not isinstance(value, str):
        return value
    if value not in NAMED:
        fix = "take one of them, or a group such as {kind: straggle, ...}"
        raise refuse(f"{value!r} is not one of: {', '.join(NAMED)}", fix)
    return {"name": value, **NAMED[value]}


def _kind(value: object) -> str:
    return tag(str(value["kind"] if isinstance(value, dict) else getattr(value, "kind", value)))


if TYPE_CHECKING:
    Perturbation = _Kinds
else:
    Perturbation = Annotated[tagged(get_args(_Kinds)), Discriminator(_kind), BeforeValidator(_named)]
MOST = 50
"""Each is checked against every arm before the first runs."""
Perturbations = Annotated[list[Perturbation], BeforeValidator(listed), Field(max_length=MOST)]
