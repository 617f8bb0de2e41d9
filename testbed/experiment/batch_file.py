"""A batch that stands in a file: read, and put into the terms of MLfabric's scheduler."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from testbed.base.errors import SpecError
from testbed.base.units import rate_text
from testbed.experiment.own_links import with_own
from testbed.perturb import targets
from testbed.spec.batch import LARGEST_BYTES, BatchFile, LinkRates, UpdateEntry
from testbed.spec.explain import explain, together
from testbed.spec.yaml import parse, read_text
from testbed.topologies.build import build
from testbed.topologies.model import Topology
from testbed.workloads.kinds.fabric.scheduling.model import Batch, Rates, Replication, Update


@dataclass(frozen=True)
class Asked:
    """A batch, and the network that it waits for.

    Attributes:
        rates: what is left of directed links; the others are free.
    """

    topology: Topology
    rates: Rates
    batch: Batch


def load(path: Path) -> Asked:
    """Read a batch's file.

    Raises:
        SpecError: the file cannot be read, or makes no sense; every mistake is listed.
    """
    text = read_text(path, LARGEST_BYTES, "give a batch; docs/guides/mlfabric.md has an example")
    found = _checked(text, path.name)
    try:
        return _asked(found)
    except SpecError as error:
        raise type(error)(f"{path.name}: {error.problem}", fix=error.fix) from None


def _checked(text: str, name: str) -> BatchFile:
    try:
        return BatchFile.model_validate(parse(text, name))
    except ValidationError as error:
        raise together(explain(error, name, root=BatchFile)) from None


def _asked(file: BatchFile) -> Asked:
    links = file.links
    topology = with_own(build(file.topology, rate_bps=links.rate_bps, delay_s=links.delay_s), links)
    rates = {
        link: steps for name, one in file.rates.items() for link, steps in _left(topology, name, one)
    }  # a NIC's name is as narrow as its host's is wide: the later one of the file decides
    servers = tuple(_host(topology, "server", name) for name in file.servers)
    behind = tuple(_update(topology, file, f"behind.{i}", one, i) for i, one in enumerate(file.behind))
    batch = Batch(
        updates=tuple(
            _update(topology, file, f"updates.{i}", one, len(behind) + i) for i, one in enumerate(file.updates)
        ),
        servers=servers,
        aggregators=_hosts(topology, "aggregators", file.aggregators),
        version=file.version,
        delay_bound=file.delay_bound,
        momentum=file.momentum,
        replication=_replication(topology, file, behind),
    )
    return Asked(topology, rates, batch)


def _left(topology: Topology, name: str, rates: LinkRates) -> Iterable[tuple[int, tuple[tuple[float, float], ...]]]:
    """Yield what is left of each link that a name stands for.

    Raises:
        SpecError: it stands for none, or a rate is above the link's.
    """
    try:
        away = targets.named(topology, name).away
    except SpecError as error:
        raise SpecError(f"rates.{name}: {error.problem}", fix=error.fix) from None
    for key, steps, turned in (("out", rates.out or {}, 0), ("in", rates.into or {}, 1)):
        for link in away if steps else ():
            yield link ^ turned, _steps(f"rates.{name}.{key}", steps, float(targets.rate_bps(topology, link)))


def _steps(key: str, steps: Mapping[float, int], whole_bps: float) -> tuple[tuple[float, float], ...]:
    """
    Raises:
        SpecError: a rate is above the link's.
    """
    most_bps = max(steps.values())
    if most_bps > whole_bps:
        raise SpecError(
            f"{key}: {rate_text(most_bps)} is above the link's {rate_text(whole_bps)}",
            fix=f"give at most {rate_text(whole_bps)}, or the link a higher rate",
        )
    begin = () if 0 in steps else ((0.0, whole_bps),)
    return (*begin, *((at_s, float(bps)) for at_s, bps in steps.items()))


def _update(topology: Topology, file: BatchFile, key: str, entry: UpdateEntry, number: int) -> Update:
    sizes = entry.sizes_bytes
    servers = len(file.servers)
    return Update(
        id=number,
        worker=_host(topology, f"{key}.worker", entry.worker),
        sizes_bytes=tuple(map(float, sizes)) if len(sizes) == servers else (sizes[0] / servers,) * servers,
        version=file.version if entry.version is None else entry.version,
        ready_s=entry.ready_s,
        norm=entry.norm or 0.0,
    )


def _replication(topology: Topology, file: BatchFile, behind: tuple[Update, ...]) -> Replication | None:
    if file.replica is None:
        return None
    return Replication(
        replica=_host(topology, "replica", file.replica),
        aggregators=_hosts(topology, "replica_aggregators", file.replica_aggregators),
        behind=behind,
        most=file.most,
        most_updates=file.most_updates,
        history=file.history,
    )


def _hosts(topology: Topology, key: str, names: Sequence[str]) -> tuple[int, ...]:
    return tuple(_host(topology, key, name) for name in names)


def _host(topology: Topology, key: str, name: str) -> int:
    """
    Raises:
        SpecError: there is no such node, or it is a switch.
    """
    try:
        found = targets.node(topology, name)
    except SpecError as error:
        raise SpecError(f"{key}: {error.problem}", fix=error.fix) from None
    if found not in topology.hosts:
        raise SpecError(f"{key}: {name} is a switch", fix="name a host, such as h0")
    return found
