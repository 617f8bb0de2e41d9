"""Assignment of an inventory's racks to a topology's: hosts under one switch (a ToR) are a rack."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from testbed.base.errors import SpecError
from testbed.base.listing import counted
from testbed.lab.baremetal.preparing.inventory import Host, Inventory
from testbed.topologies.model import Topology


def under(topology: Topology) -> dict[int, list[int]]:
    """Hosts by the switch that their (first) link leads to, in their order."""
    found: dict[int, list[int]] = defaultdict(list)
    for host in topology.hosts:
        found[topology.head(topology.ports[host][0])].append(host)
    return dict(found)


def assigned(topology: Topology, inventory: Inventory) -> tuple[Host, ...]:
    """Choose a machine for each host of the topology, such that hosts under one switch are of one rack, and those under
    another of another. Each takes the first rack of the inventory's order that leaves large enough ones for the rest.
    Machines without racks are taken as they come.

    Raises:
        SpecError: some machines have a rack and some none, or the racks are too few or too small.
    """
    within = {host.name: host.rack for host in inventory.hosts}
    without = [name for name, rack in within.items() if rack is None]
    if len(without) == len(within):
        return inventory.hosts[: topology.host_count]
    if without:
        has = next(name for name, rack in within.items() if rack is not None)
        raise SpecError(
            f"{inventory.path}: {has} has a rack, and {without[0]} has none",
            fix="give all hosts their rack, or none",
        )
    free: dict[str, list[Host]] = defaultdict(list)
    for host in inventory.hosts:
        free[str(host.rack)].append(host)
    wanted = under(topology)
    needs, has_room = [len(hosts) for hosts in wanted.values()], {rack: len(hosts) for rack, hosts in free.items()}
    found: dict[int, Host] = {}
    for number, hosts in enumerate(wanted.values()):
        rack = next((one for one in free if _fit(needs[number:], one, free)), None)
        if rack is None:
            sizes = ", ".join(f"{rack} has {count}" for rack, count in has_room.items())
            raise SpecError(
                f"{topology.expression} has {_racks(needs)}, and they are to be different racks of "
                f"{inventory.path}, of which {sizes}",
                fix="take a topology whose racks fit, or correct rack in the inventory",
            )
        found |= dict(zip(hosts, free.pop(rack), strict=False))
    return tuple(found[host] for host in topology.hosts)


def _fit(needs: Sequence[int], rack: str, free: dict[str, list[Host]]) -> bool:
    """Whether the first group of hosts can be in that rack, and the other groups in the rest."""
    others = sorted((len(hosts) for one, hosts in free.items() if one != rack), reverse=True)
    rest = sorted(needs[1:], reverse=True)
    enough = len(others) >= len(rest) and all(has >= need for need, has in zip(rest, others, strict=False))
    return len(free[rack]) >= needs[0] and enough


def _racks(needs: Sequence[int]) -> str:
    sizes = sorted(set(needs))
    each = counted(sizes[0], "host") if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]} hosts"
    return f"{len(needs)} racks of {each}"
