"""The schema of a batch: updates that wait to be sent, and the network that they wait for (``testbed schedule``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import BeforeValidator, Field, ValidatorFunctionWrapHandler, WrapValidator, model_validator

from testbed.base.groups import Group, Line, Number, Rate, Size, Time, Whole, listed, refuse
from testbed.spec.links import Links

MOST_UPDATES = 5_000
"""The most updates of a batch. Ordering compares all that wait with each other, so time grows with the square of their
number."""
LARGEST_BYTES = 1 << 20
"""The most bytes of a file: a batch of :data:`MOST_UPDATES` has a third of it."""


def _not_too_many(value: object) -> object:
    """Refuse too long a list before its updates are looked at one by one."""
    if isinstance(value, list) and len(value) > MOST_UPDATES:
        raise refuse(f"a batch of {len(value):,} updates", f"give at most {MOST_UPDATES:,}")
    return value


def _in_order(value: object, read: ValidatorFunctionWrapHandler) -> dict[float, int]:
    """Sort rates by moment."""
    found: dict[float, int] = read(value)
    if isinstance(value, dict) and len(found) < len(value):
        raise refuse("two rates from the same moment on", "keep one of them")
    return dict(sorted(found.items()))


Steps = Annotated[dict[Time, Rate], Field(min_length=1), WrapValidator(_in_order)]
"""Rates, by the moment from which on they hold."""
Hosts = Annotated[list[Line], BeforeValidator(listed)]
"""Names of hosts; a single one stands for a list of it."""


class LinkRates(Group):
    """Rates that the network leaves of some links, by direction."""

    out: Steps | None = Field(None, examples=["{0 s: 10 Mbit/s}"])
    """Rates away from the host. Each rate holds from its moment on. Before the first of them the link has its whole
    rate."""
    into: Steps | None = Field(None, alias="in", examples=["{0 s: 10 Mbit/s}"])
    """Rates towards the host."""


class UpdateEntry(Group):
    """An update."""

    worker: Line = Field(examples=["h0"])
    """The host that has it."""
    sizes_bytes: Annotated[list[Size], BeforeValidator(listed), Field(min_length=1)] = Field(
        alias="size", examples=["12.5 MB"]
    )
    """Bytes of the update. With several servers, one size is divided evenly; a list says the bytes for each of them."""
    version: Whole | None = Field(None, examples=["6"])
    """The version of the weights that it was computed on. The default is that of the batch."""
    norm: Number | None = Field(None, ge=0, examples=["2"])
    """Euclidean norm of the update. A ``divergence_bound`` that is a number needs it."""
    ready_s: Time = Field(0.0, alias="ready")
    """Time at which it can be sent."""


LONGEST_NUMBER = 9
"""The most digits of a number of updates."""


def _bound(value: object) -> object:
    """Read a bound: ``9``, or ``20 updates``."""
    words = value.split() if isinstance(value, str) else []
    if words[1:] == ["updates"] and words[0].isdecimal() and len(words[0]) <= LONGEST_NUMBER:
        return InUpdates(updates=int(words[0]))
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
        raise refuse(f"{value!r} is not a bound", "write a distance of 0 or more, such as 9, or 20 updates")
    return float(value)


class InUpdates(Group):
    """A bound in numbers of updates."""

    updates: Whole = Field(ge=1)
    """Number of updates."""


class BatchFile(Group):
    """A batch as a file has it."""

    topology: Line = Field(examples=["star(hosts=6)"])
    """The network."""
    links: Links = Field(examples=["{rate: 100 Mbit/s}"])
    """The rates of its links. Other settings of links do not change a schedule, and are refused."""
    rates: dict[Line, LinkRates] = Field({}, examples=["{h0: {out: {0 s: 10 Mbit/s}}}"])
    """Rates that are left of some links, by host or NIC (``h0``, ``h0:eth1``)."""
    servers: Hosts = Field(alias="server", min_length=1, examples=["h5"])
    """The host that has the model, or a list of those that have a shard of it each."""
    aggregators: Hosts = Field([], examples=["[h4]"])
    """Hosts that may sum updates on their way to the servers, in the order in which groups take them."""
    replica: Line | None = Field(None, examples=["h3"])
    """The host that has a copy of the model. The default is none."""
    replica_aggregators: Hosts = Field([], examples=["[h2]"])
    """Hosts that may sum updates on their way to the replica, and for nobody else."""
    delay_bound: Whole | None = Field(None, ge=1, examples=["5"])
    """The largest delay of an update, as eq. 9 counts it. By default there is none."""
    version: Whole = Field(0, ge=0)
    """Number of updates that are committed before this batch."""
    momentum: Number = Field(0.0, ge=0, lt=1)
    """The momentum of the optimiser. With momentum, a sum of updates has twice their bytes."""
    history: Number = Field(0.0, ge=0)
    """The norm of the last change of the replica's weights."""
    divergence_bound: Annotated[float | InUpdates | None, BeforeValidator(_bound)] = Field(None, examples=["9"])
    """The largest distance of the replica's weights, or how many updates it may lack: ``20 updates``. By default the
    replica gets what arrives until the last update is committed, and no update waits for it."""
    behind: Annotated[list[UpdateEntry], BeforeValidator(_not_too_many)] = Field(
        [], examples=["[{worker: h1, size: 1 MB}]"]
    )
    """Updates of earlier batches that the servers have and the replica lacks, in their order."""
    updates: Annotated[list[UpdateEntry], BeforeValidator(_not_too_many)] = Field(
        min_length=1, examples=["[{worker: h0, size: 12.5 MB}]"]
    )
    """Updates that wait, in any order. A worker has one at most."""

    @property
    def most_updates(self) -> int | None:
        """The bound in numbers of updates, None where it is a distance or where there is none."""
        return self.divergence_bound.updates if isinstance(self.divergence_bound, InUpdates) else None

    @property
    def most(self) -> float | None:
        """The bound as a distance, None where it is in numbers of updates or where there is none."""
        return None if isinstance(self.divergence_bound, InUpdates) else self.divergence_bound

    @model_validator(mode="after")
    def _links_have_rates_alone(self) -> BatchFile:
        others = [name for name in self.links.model_fields_set if name in Links.model_fields and name != "rate_bps"]
        delayed = [name for name, one in self.links.own.items() if one.delay_s is not None]
        if others or delayed:
            key = f"{delayed[0]}.delay" if delayed else Links.model_fields[others[0]].alias or others[0]
            raise refuse(f"links.{key} does not change a schedule", "remove it; links have rates alone here")
        return self

    @model_validator(mode="after")
    def _each_host_has_one_part(self) -> BatchFile:
        parts: Mapping[str, list[str]] = {
            "server": self.servers,
            "replica": [self.replica] if self.replica else [],
            "aggregators": self.aggregators,
            "replica_aggregators": self.replica_aggregators,
        }
        seen: dict[str, str] = {}
        for part, names in parts.items():
            for name in names:
                if name in seen:
                    twice = "twice" if seen[name] == part else f"and in {seen[name]}"
                    raise refuse(f"{name} is in {part} {twice}", "give each of them a host of its own")
                seen[name] = part
        return self

    @model_validator(mode="after")
    def _each_worker_has_one_update(self) -> BatchFile:
        seen: dict[str, int] = {}
        for i, one in enumerate(self.updates):
            first = seen.setdefault(one.worker, i)
            if first != i:
                raise refuse(
                    f"updates.{first} and updates.{i} are both of worker {one.worker}",
                    "keep one: a worker waits until its update is committed or dropped",
                )
            if one.worker in (*self.servers, self.replica):
                part = "replica" if one.worker == self.replica else "server"
                raise refuse(f"updates.{i}: {one.worker} is a {part}", "give an update of another host")
        return self

    @model_validator(mode="after")
    def _aggregators_have_work(self) -> BatchFile:
        for key, names in (("aggregators", self.aggregators), ("replica_aggregators", self.replica_aggregators)):
            most = len(self.updates) + (len(self.behind) if names is self.replica_aggregators else 0)
            if len(names) > most:
                raise refuse(
                    f"{key}: {len(names)} hosts for {most} update{'s' * (most > 1)}",
                    "name as many hosts as there are updates, or fewer",
                )
        return self

    @model_validator(mode="after")
    def _replica_where_needed(self) -> BatchFile:
        if self.replica:
            return self
        for key in ("divergence_bound", "replica_aggregators", "behind"):
            if getattr(self, key) not in (None, []):
                raise refuse(
                    f"{key} without a replica", "name the host of the replica, such as replica: h3, or remove it"
                )
        return self

    @model_validator(mode="after")
    def _updates_are_whole(self) -> BatchFile:
        for key, entries in (("behind", self.behind), ("updates", self.updates)):
            for i, one in enumerate(entries):
                _check(f"{key}.{i}", one, self)
        return self


def _check(name: str, one: UpdateEntry, batch: BatchFile) -> None:
    """
    Raises:
        PydanticCustomError: an update does not fit its batch.
    """
    if len(one.sizes_bytes) not in (1, len(batch.servers)):
        raise refuse(
            f"{name}.size: {len(one.sizes_bytes)} sizes, and the number of servers is {len(batch.servers)}",
            "give one for each server, or one for the whole update",
        )
    if one.version is not None and one.version > batch.version:
        raise refuse(
            f"{name}.version: version {one.version} is not there yet, the batch begins at {batch.version}",
            f"give at most {batch.version}, or the batch a later version",
        )
    if batch.most is not None and one.norm is None:
        raise refuse(f"{name} has no norm, and divergence_bound is a distance", "add it, such as norm: 2")
