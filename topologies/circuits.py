"""The notation of circuits, and the panel that each is on.

``rings=[1,5]`` are TopoOpt's permutations (section 3.3, TotientPerms): ring p joins server s to server s + p (mod n);
``rings=[[0,2,1,3]]`` is one in an order of its own, which may leave servers out; two servers are one circuit. A ring
that is given twice is parallel circuits. ``circuits=[[0-3,1-4,2-5]]`` are matchings, one a panel, such as
TopologyFinder's step 3 finds for MP transfers.

A circuit is full duplex. So a ring takes two ports of each server (the paper's example has three rings for six NICs),
serves both of its directions, and p and n - p are one ring.

A panel has one port of each server, so its circuits are a matching: those of a ring go to two panels by turns, and if
its servers are odd in number, the last one has to go to a third. Rings over all servers fill the first panels, two
each. All else shares the panels after those: first given matchings, a panel each, then what finds its ports free on the
lowest panel: the last circuits of odd rings, and rings that leave servers out.

Matchings of ports that a layout left dark, given to the same rings, do not move those: what each ring took is still
free when its turn comes, and nothing else has become so.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from itertools import count, islice, product

from testbed.base.errors import TopologyError
from testbed.base.listing import shortened
from testbed.topologies.call import as_text
from testbed.topologies.panels import Matching, Routes, Ways

_NUMBERS = re.compile(r"\d{1,9}(-\d{1,9})+")
_WAY = re.compile(r"(?P<path>\d{1,9}(-\d{1,9})+)@(?P<nic>\d{1,9})")
_RINGS, _CIRCUITS, _PATHS = "[1,5] or [[0,2,1,3]]", "[[0-1,2-3],[1-2,3-0]], a list for each panel", "[0-1-2,2-1-0]"


def matchings(servers: int, degree: int, rings: object = (), circuits: object = ()) -> tuple[Matching, ...]:
    """Return the circuits of each panel that the module's text says; other ports are dark.

    Raises:
        TopologyError: something is no ring or no matching of the servers, or the servers have too few ports.
    """
    orders = _orders(servers, rings)
    given = [_matching(servers, n, panel) for n, panel in enumerate(_items("circuits", circuits, _CIRCUITS))]
    laid = lay(servers, orders, given)
    if len(laid) > degree:
        smaller = [order for order in orders if len(order) < servers]
        parts = [f"rings take {len(lay(servers, orders))}"] * bool(orders) + [f"circuits take {len(given)}"] * bool(
            given
        )
        raise TopologyError(
            f"patch_panel: of the {degree} port{'s' * (degree > 1)} that degree={degree} gives each server, "
            f"{' and '.join(parts)}",
            fix=f"give degree={len(laid)}, or fewer rings: each takes two ports"
            + (", and all together one more where the number of servers is odd" if servers % 2 else "")
            + (
                ", or three panels if it has an odd number of servers" if any(len(ring) % 2 for ring in smaller) else ""
            ),
        )
    return (*laid, *(() for _ in range(degree - len(laid))))


def paths(servers: int, routes: object) -> Routes:
    """Read paths: ``[0-1-2]`` means that traffic from server 0 to server 2 goes through server 1.

    Raises:
        TopologyError: one is no path of servers.
    """
    return tuple(_path(servers, word) for word in _items("routes", routes, _PATHS))


def paths_and_ways(servers: int, degree: int, routes: object) -> tuple[Routes, Ways]:
    """Read paths, and those that end at an interface: ``0-1-2@3`` is a way to the NIC on panel 3 of server 2.

    Raises:
        TopologyError: one is no path of servers, or ends at no interface.
    """
    plain: list[object] = []
    ways = []
    for word in _items("routes", routes, _PATHS):
        found = _WAY.fullmatch(word) if isinstance(word, str) else None
        if found is None:
            plain.append(word)
            continue
        nic = int(found["nic"])
        if nic >= degree:
            raise TopologyError(
                f"patch_panel: route {word} ends at interface {nic}, and there is no such one",
                fix=f"name interfaces 0 to {degree - 1}",
            )
        ways.append((_path(servers, found["path"]), nic))
    return paths(servers, tuple(plain)), tuple(ways)


def _path(servers: int, word: object) -> tuple[int, ...]:
    path = _numbers(servers, "routes", word, _PATHS)
    if len(set(path)) < len(path):
        raise TopologyError(f"patch_panel: route {word} passes a server twice", fix="name each server once")
    return path


def _orders(servers: int, rings: object) -> list[Sequence[int]]:
    """Return the servers of each ring, as it passes them."""
    orders: list[Sequence[int]] = []
    strides: dict[int, int] = {}
    for ring in _items("rings", rings, _RINGS):
        if isinstance(ring, tuple):
            order = [server for server in ring if type(server) is int and 0 <= server < servers]
            if len(set(order)) < len(ring) or len(order) < 2:
                raise TopologyError(
                    f"patch_panel: ring {as_text(ring)} does not name two or more of the {servers} servers once each",
                    fix=f"order servers of 0 to {servers - 1}; a ring may leave some out",
                )
            orders.append(order)
            continue
        if type(ring) is not int or math.gcd(ring, servers) != 1:
            raise TopologyError(
                f"patch_panel: rings holds {as_text(ring)}; a ring of that stride misses some of the {servers} servers",
                fix=f"take strides that are coprime to {servers}: {_coprime(servers)}",
            )
        same = min(ring % servers, -ring % servers)
        if strides.setdefault(same, ring) != ring:
            raise TopologyError(
                f"patch_panel: rings holds {strides[same]} and {ring}, which are the same circuits",
                fix=f"leave {ring} out: circuits are full duplex, and carry the ring in both directions; or write "
                f"{strides[same]} twice for parallel circuits",
            )
        orders.append([step * ring % servers for step in range(servers)])
    return orders


def _coprime(servers: int) -> str:
    """Return the strides up to half of the servers: the others are the same rings the other way round."""
    strides = [str(p) for p in range(1, max(2, servers // 2 + 1)) if math.gcd(p, servers) == 1]
    return shortened(strides, 8)


def _matching(servers: int, number: int, panel: object) -> Pairs:
    pairs: Pairs = []
    used: set[int] = set()
    for word in _items("circuits", panel, _CIRCUITS):
        ends = _numbers(servers, "circuits", word, _CIRCUITS)
        if len(ends) != 2 or ends[0] == ends[1]:
            raise TopologyError(f"patch_panel: circuit {word} does not join two servers", fix="write it as 0-1")
        for server in ends:
            if server in used:
                raise TopologyError(
                    f"patch_panel: the port of server {server} is used twice in panel {number} of circuits",
                    fix=f"move circuit {word} to another panel: a server has one port at each",
                )
            used.add(server)
        pairs.append((min(ends), max(ends)))
    return pairs


def _items(name: str, value: object, example: str) -> tuple[object, ...]:
    if not isinstance(value, tuple):
        raise TopologyError(f"patch_panel: {name} is {as_text(value)}", fix=f"write it as {name}={example}")
    return value


def _numbers(servers: int, name: str, word: object, example: str) -> tuple[int, ...]:
    if not isinstance(word, str) or not _NUMBERS.fullmatch(word):
        raise TopologyError(f"patch_panel: {name} holds {as_text(word)}", fix=f"write it as {name}={example}")
    numbers = tuple(map(int, word.split("-")))
    if max(numbers) >= servers:
        raise TopologyError(
            f"patch_panel: {name} holds {word}, and there is no server {max(numbers)}",
            fix=f"name servers 0 to {servers - 1}",
        )
    return numbers


Pairs = list[tuple[int, int]]


def lay(servers: int, rings: Sequence[Sequence[int]], given: Sequence[Pairs] = ()) -> tuple[Matching, ...]:
    """Lay the circuits of rings, each the servers that it passes, and of given matchings; return those of each panel.
    Dark panels at the end are left out."""
    whole = [ring for ring in rings if len(ring) == servers]
    layout = _Layout(first_shared=2 * len(whole))
    for panel, pairs in enumerate(given, layout.first_shared):
        layout.add(panel, pairs)
    for number, ring in enumerate(whole):
        layout.add_whole(_closed(ring), 2 * number)
    for ring in rings:
        if len(ring) < servers:
            layout.add_smaller(_closed(ring) if len(ring) > 2 else [(min(ring), max(ring))])
    return layout.panels()


def _closed(ring: Sequence[int]) -> Pairs:
    return [(min(pair), max(pair)) for pair in zip(ring, (*ring[1:], ring[0]), strict=True)]


def _turns(pairs: Pairs, place: int) -> tuple[Pairs, Pairs, Pairs]:
    """Split an odd ring into the circuit at a place, and the others by turns."""
    rest = pairs[place + 1 :] + pairs[:place]
    return [pairs[place]], rest[::2], rest[1::2]


class _Layout:
    def __init__(self, first_shared: int) -> None:
        self.first_shared = first_shared
        self._pairs: dict[int, Pairs] = {}
        self._taken: dict[int, set[int]] = {}
        """Servers whose ports are taken, by panel."""

    def add(self, panel: int, pairs: Pairs) -> None:
        self._pairs.setdefault(panel, []).extend(pairs)
        self._taken.setdefault(panel, set()).update(*pairs)

    def add_whole(self, pairs: Pairs, panel: int) -> None:
        """Add a ring over all servers, on this panel, the next, and, if it is odd, the lowest where a circuit fits."""
        if len(pairs) % 2:
            shared = next(p for p in count(self.first_shared) if any(self._fits(p, [pair]) for pair in pairs))
            place = next(i for i, pair in enumerate(pairs) if self._fits(shared, [pair]))
            last, one, other = _turns(pairs, place)
            self.add(shared, last)
        else:
            one, other = pairs[::2], pairs[1::2]
        self.add(panel, one)
        self.add(panel + 1, other)

    def add_smaller(self, pairs: Pairs) -> None:
        """Add a ring that leaves servers out, or a single circuit, in the way whose highest panel is lowest: taking
        ports that it leaves dark makes none better."""
        ways: list[tuple[Pairs, ...]]
        if len(pairs) == 1:
            ways = [(pairs,)]
        elif len(pairs) % 2:
            ways = [_turns(pairs, place) for place in range(len(pairs))]
        else:
            ways = [(pairs[::2], pairs[1::2])]
        _, way, panels = min(self._best(number, parts) for number, parts in enumerate(ways))
        for panel, part in zip(panels, ways[way], strict=True):
            self.add(panel, part)

    def _best(self, way: int, parts: tuple[Pairs, ...]) -> tuple[int, int, tuple[int, ...]]:
        """Return the highest panel of a way, its number, and the panels of its parts, each another."""
        free = [
            list(islice((p for p in count(self.first_shared) if self._fits(p, part)), len(parts))) for part in parts
        ]
        return min((max(panels), way, panels) for panels in product(*free) if len(set(panels)) == len(parts))

    def _fits(self, panel: int, pairs: Pairs) -> bool:
        taken = self._taken.get(panel, set())
        return all(taken.isdisjoint(pair) for pair in pairs)

    def panels(self) -> tuple[Matching, ...]:
        last = max(self._pairs, default=-1)
        return tuple(tuple(sorted(self._pairs.get(panel, ()))) for panel in range(last + 1))
