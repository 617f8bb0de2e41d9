"""BCube(n,k): n^k servers with k NICs each, k levels of n-port switches (Guo et al., SIGCOMM 2009; BML, section 3.1).

A server is named by k digits in base n, ``v[k-1] ... v[0]``, and its index is their value. Its port l leads to a
switch of level l, which connects the n servers that differ in digit l only. BML counts k levels where Guo et al.
write BCube_(k-1).
"""

from __future__ import annotations

from functools import partial

from testbed.topologies.model import Link, Node, Path, Topology
from testbed.topologies.parameters import at_least, check_size


def bcube(rate_bps: int, delay_s: float, *, n: int, k: int) -> Topology:
    """Server-centric: n^k servers with k NICs, k levels of n-port switches.

    Switch ``s<l>.<i>`` is of level l; i is the value of its servers' digits without digit l, and the server whose
    digit l is d is on its port d. Link ``h * k + l`` leaves port l of host h.

    Raises:
        TopologyError: n is less than 2 or k less than 1.
    """
    at_least("bcube", 2, n=n)
    at_least("bcube", 1, k=k)
    check_size("bcube", k * n ** min(k, 64), n=n, k=k)
    hosts, per_level = n**k, n ** (k - 1)
    nodes = [Node(f"h{h}", "host", 0, rack=h // n) for h in range(hosts)]
    nodes += [
        Node(f"s{level}.{i}", "switch", level + 1, rack=None if level else i)
        for level in range(k)
        for i in range(per_level)
    ]
    links = []
    for h in range(hosts):
        for level in range(k):
            above, digit = divmod(h // n**level, n)
            switch = hosts + level * per_level + above * n**level + h % n**level
            links.append(Link(h, level, switch, digit, rate_bps, delay_s))
    return Topology("bcube", {"n": n, "k": k}, tuple(nodes), tuple(links), partial(_correct_digits, n, k))


def _correct_digits(n: int, k: int, _: Topology, src: int, dst: int) -> tuple[Path, ...]:
    """Return the path of BCubeRouting (Guo et al., figure 3): set the differing digits one after another, the highest
    first.

    The next server depends on the present one and the destination only, so every server can forward by destination.
    """
    links = []
    here = src
    for level in reversed(range(k)):
        weight = n**level
        step = (dst // weight % n - here // weight % n) * weight
        if step:
            links.append(2 * (here * k + level))
            here += step
            links.append(2 * (here * k + level) + 1)
    return (Path(tuple(links)),)
