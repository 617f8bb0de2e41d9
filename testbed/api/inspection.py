"""Numbers of a plan on a network: what ``testbed forest`` shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from testbed.base.columns import Layout, columns
from testbed.base.errors import SchemeError
from testbed.base.units import rate_text, size_text, time_text
from testbed.lab.base import LinkSettings
from testbed.topologies.model import Topology
from testbed.trial.network import shaper
from testbed.workloads import kinds
from testbed.workloads.plan import Plan
from testbed.workloads.sync.cost import Cost, goodput

SHOWN_LINKS = 12


def inspect(plan: Plan, topology: Topology, gradient_bytes: int, mtu: int) -> dict[str, Any]:
    """Describe a plan: classes, rounds, bytes, load per link and the bound; where the forest is wrong, ``problem`` says
    why, ``fix`` what to do, and no cost is given.

    Raises:
        SchemeError: there is nothing to show, for the plan does not fit the topology.
    """
    kinds.of(plan).check_form(plan, topology)
    try:
        kinds.verify(plan, topology)
    except SchemeError as error:
        return {
            **_described(plan, topology, gradient_bytes),
            "verified": False,
            "problem": error.problem,
            "fix": error.fix,
        }
    return of_verified(plan, topology, gradient_bytes, mtu)


def of_verified(plan: Plan, topology: Topology, gradient_bytes: int, mtu: int) -> dict[str, Any]:
    """Describe, as :func:`inspect`, a plan that has passed :func:`testbed.workloads.kinds.verify`."""
    found = _described(plan, topology, gradient_bytes)
    return {**found, "cost": _cost(kinds.cost(plan, topology, gradient_bytes), topology, mtu)}


def _described(plan: Plan, topology: Topology, gradient_bytes: int) -> dict[str, Any]:
    return {
        "scheme": plan.scheme,
        "topology": topology.expression,
        "gradient_bytes": gradient_bytes,
        "verified": True,
        "problem": None,
        "cost": None,
        "forest": kinds.of(plan).to_json(plan),
    }


def _cost(one: Cost, topology: Topology, mtu: int) -> dict[str, Any]:
    factor = goodput(mtu)
    return {
        "rounds": one.rounds,
        "wire_bytes": one.wire_bytes,
        "cross_rack_bytes": one.cross_rack_bytes if any(node.rack is not None for node in topology.nodes) else None,
        "goodput": factor,
        "bound_s": one.bound_s(shaper(LinkSettings(mtu=mtu), topology)),
        "round_s": one.round_s() / factor,
        "busiest_links": one.busiest(),
        "links": [
            {
                "link": link,
                "from": topology.nodes[topology.tail(link)].name,
                "to": topology.nodes[topology.head(link)].name,
                "rate_bps": topology.links[link // 2].rate_bps,
                "bytes": float(count),
            }
            for link, count in enumerate(one.link_bytes)
        ],
    }


def text(found: Mapping[str, Any], plan: Plan, lay_out: Layout = columns) -> str:
    """Write what was ``found`` of a plan for people; the most loaded links only."""
    forest, one = found["forest"], found["cost"]
    lines = [
        f"{found['scheme']} on {found['topology']}, gradient of {size_text(found['gradient_bytes'])}",
        f"  workers      {len(forest['workers'])}",
        *(f"  classes      {len(trees)}" for trees in [forest.get("classes")] if trees is not None),
        *_added_as(forest.get("fixed")),
        *(f"  {name:<12} {told}" for name, told in kinds.of(plan).describe(plan)),
        f"  verified     {'yes' if found['verified'] else 'no: ' + found['problem']}",
    ]
    if one is None:
        return "\n".join([*lines, f"  fix          {found['fix']}"])
    bound, whole = (time_text(one[name], measured=True) for name in ("bound_s", "round_s"))
    least = kinds.of(plan).wording.least_gst(bound, whole)
    crossing = one["cross_rack_bytes"]  # not known where racks are not
    between = "" if crossing is None else f", of which {size_text(crossing)} between racks"
    lines += [
        f"  rounds       {one['rounds']}",
        f"  wire bytes   {size_text(one['wire_bytes'])}{between}",
        f"  least GST    {least}, set by {len(one['busiest_links'])} of {len(one['links'])} directed links; "
        f"{one['goodput']:.1%} of their rate is payload, and a burst passes before it counts",
        "",
        lay_out(("link", "rate", "bytes", "busy"), _rows(one), 1),
    ]
    return "\n".join(lines)


def _added_as(fixed: Mapping[str, Any] | None) -> list[str]:
    """Line for a scheme that switches take part in: what they add, and how much of it they hold."""
    if fixed is None:
        return []
    steps = f"{fixed['scale']:,g} steps to 1.0" if fixed["scale"] else "scaled by each chunk's largest element"
    return [f"  added as     32-bit integers, {steps}; a switch holds {fixed['slots']} chunks"]


def _rows(one: Mapping[str, Any]) -> Sequence[Sequence[str]]:
    def busy_s(link: Mapping[str, Any]) -> float:
        return float(link["bytes"] * 8 / link["rate_bps"] / one["goodput"])

    most = sorted(one["links"], key=busy_s, reverse=True)
    rows = [
        (
            f"{link['from']} -> {link['to']}",
            rate_text(link["rate_bps"]),
            size_text(link["bytes"]),
            time_text(busy_s(link), measured=True),
        )
        for link in most[:SHOWN_LINKS]
    ]
    return rows + [(f"and {len(most) - SHOWN_LINKS} more", "", "", "")] * (len(most) > SHOWN_LINKS)
