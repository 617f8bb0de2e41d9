"""Links that are not like all others: from the names in a spec to the links of a topology."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from pydantic import ValidationError

from testbed.base.errors import SpecError
from testbed.base.units import rate_text, time_text
from testbed.perturb.targets import Rank, Target, named
from testbed.spec.explain import explain, together
from testbed.spec.links import Links, OwnLinks
from testbed.spec.yaml import parse_value
from testbed.topologies.model import Topology

_NAME = "--links"
_V = TypeVar("_V", int, float)


def with_own(topology: Topology, links: Links, scale: float = 1.0) -> Topology:
    """``topology`` with the links that ``links`` names as it says; rates are divided by ``scale``.

    Raises:
        SpecError: a name stands for nothing, or two of the same rank do not agree on a link.
    """
    targets = {name: _named(topology, name) for name in links.own}
    rates_bps = _decided(topology, targets, {name: one.rate_bps for name, one in links.own.items()})
    delays_s = _decided(topology, targets, {name: one.delay_s for name, one in links.own.items()})
    changed = [
        replace(
            link,
            rate_bps=round(rates_bps[i] / scale) if i in rates_bps else link.rate_bps,
            delay_s=delays_s.get(i, link.delay_s),
        )
        for i, link in enumerate(topology.links)
    ]
    return replace(topology, links=tuple(changed)) if targets else topology


def read(links: Mapping[str, object] | str, rate: str) -> Links:
    """A spec's ``links`` that stand elsewhere than in a spec, as a mapping or as YAML; all others have ``rate``.

    Raises:
        SpecError: they make no sense; every mistake is listed.
    """
    written = parse_value(links, _NAME) if isinstance(links, str) else dict(links)
    if not isinstance(written, dict):
        raise SpecError(f"{_NAME} {links}: not keys and values", fix="write it as '{h0: {rate: 100 Mbit/s}}'")
    try:
        return Links.model_validate({"rate": rate, **written})
    except ValidationError as error:
        raise together(explain(error, _NAME, at=("links",))) from None


def own_text(own: Mapping[str, OwnLinks], scale: float = 1.0) -> str:
    """``h0: 100 Mbit/s; h0-s0: 5 ms``, in the lab."""
    return "; ".join(f"{name}: {', '.join(_values(one, scale))}" for name, one in own.items())


def _values(one: OwnLinks, scale: float) -> list[str]:
    rate = [] if one.rate_bps is None else [rate_text(round(one.rate_bps / scale))]
    return rate if one.delay_s is None else [*rate, f"delay {time_text(one.delay_s)}"]


def _named(topology: Topology, name: str) -> Target:
    try:
        return named(topology, name)
    except SpecError as error:
        raise SpecError(f"links.{name}: {error.problem}", fix=error.fix) from None


def _decided(topology: Topology, targets: Mapping[str, Target], asked: Mapping[str, _V | None]) -> dict[int, _V]:
    """Return, for each link, the value that the narrowest name asks for.

    Raises:
        SpecError: two names of the same rank ask for different ones.
    """
    found: dict[int, tuple[str, _V]] = {}
    for name in sorted(targets, key=lambda one: -targets[one].rank):
        value = asked[name]
        if value is None:
            continue
        for directed in targets[name].away:
            first, before = found.setdefault(directed // 2, (name, value))
            if before != value and targets[first].rank == targets[name].rank:
                raise _disagreement(topology, directed, (first, name), targets[name].rank)
    return {link: value for link, (_, value) in found.items()}


def _disagreement(topology: Topology, directed: int, names: tuple[str, str], rank: Rank) -> SpecError:
    link = topology.links[directed // 2]
    ends = f"{topology.nodes[link.a].name}-{topology.nodes[link.b].name}"
    return SpecError(
        f"links.{names[0]} and links.{names[1]} do not agree on the link {ends} of {topology.expression}",
        fix="remove one of them" if rank is Rank.LINK else f"say it of the link itself: {ends}: {{...}}",
    )
