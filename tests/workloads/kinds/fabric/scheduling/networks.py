"""Networks and updates for tests of the scheduler: 100 Mbit over 100 Mbit/s take a second."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace

from hypothesis import strategies as st

from testbed.topologies.build import build
from testbed.workloads.kinds.fabric.scheduling.model import Batch, Update
from testbed.workloads.kinds.fabric.scheduling.network import Network

MBIT = 10**6
SIZE_BYTES = 100 * MBIT / 8


def star(hosts: int, out: Mapping[int, float] | None = None, into: Mapping[int, float] | None = None) -> Network:
    """Hosts around a switch with 100 Mbit/s a link; ``out`` and ``into`` have other rates of hosts, in Mbit/s."""
    rates = {2 * host: [(0.0, rate * MBIT)] for host, rate in (out or {}).items()}
    rates |= {2 * host + 1: [(0.0, rate * MBIT)] for host, rate in (into or {}).items()}
    return Network(build(f"star(hosts={hosts})", rate_bps=100 * MBIT), rates)


def updates(count: int, sizes_mbit: Sequence[float] | None = None) -> tuple[Update, ...]:
    """One of each of the first hosts, of 100 Mbit or the given sizes; the update of host h has id h + 1."""
    sizes = sizes_mbit or [100.0] * count
    return tuple(Update(host + 1, host, (sizes[host] * MBIT / 8,), version=0) for host in range(count))


def large(count: int, seed: int, servers: int = 1) -> tuple[Batch, Network]:
    """A batch of as many updates as hosts, with random sizes, deadlines and rates; a fifth of the hosts aggregate."""
    chance = random.Random(seed)
    shares = {host: chance.choice([10.0, 25.0, 33.0, 50.0, 100.0, 100.0]) for host in range(count)}
    others = {host: chance.choice([10.0, 50.0, 100.0, 100.0, 100.0]) for host in range(count)}
    waiting = [
        Update(
            host,
            host,
            tuple(chance.uniform(1e6, 1e7) for _ in range(servers)),
            chance.randint(1, 2 * count),
            chance.choice([0.0, 0.0, 0.02]),
        )
        for host in range(count)
    ]
    helpers = tuple(chance.sample(range(count), count // 5))
    serving = tuple(range(count, count + servers))
    batch = Batch(tuple(waiting), serving, helpers, version=2 * count, delay_bound=2 * count)
    return batch, star(count + servers, out=shares, into=others)


def racks(count: int, last_bps: float) -> Network:
    """Racks of three hosts; the link of the last one has another rate."""
    topology = build(f"spine_leaf(racks={count},hosts_per_rack=3,spines=1)", rate_bps=100 * MBIT)
    *links, last = topology.links
    return Network(replace(topology, links=(*links, replace(last, rate_bps=round(last_bps)))))


@st.composite
def batches(draw: st.DrawFn) -> tuple[Batch, Network]:
    """Batches of up to 8 updates of five hosts, some of which aggregate; the last one or two are servers."""
    servers = draw(st.sampled_from([(4,), (4,), (3, 4)]))
    sizes = st.sampled_from([1e6, 1e6, 2e6, 1e6 / 3, 5e6])
    waiting = draw(
        st.lists(
            st.builds(
                Update,
                st.just(0),
                st.integers(0, 4),
                st.tuples(*[sizes] * len(servers)),
                st.integers(0, 8),
                st.sampled_from([0.0, 0.0, 0.1, 0.5]),
            ),
            max_size=8,
        )
    )
    waiting = [replace(update, id=number) for number, update in enumerate(draw(st.permutations(waiting)))]
    batch = Batch(
        tuple(waiting),
        servers,
        tuple(draw(st.lists(st.integers(0, min(servers) - 1), unique=True, max_size=3))),
        version=5,
        delay_bound=draw(st.sampled_from([None, 3, 5])),
        momentum=draw(st.sampled_from([0.0, 0.9])),
        placed=tuple(range(draw(st.integers(0, min(2, len(waiting)))))),
    )
    return batch, draw(networks())


@st.composite
def networks(draw: st.DrawFn) -> Network:
    """Five hosts around a switch, or in two racks; some links have rates that change, or none at some time."""
    rates = st.sampled_from([0.0, 10e6, 30e6, 50e6, 100e6, 100e6 / 3])
    steps = st.lists(st.tuples(st.sampled_from([0.0, 0.2, 1.0]), rates), min_size=1, max_size=2)
    changed = draw(st.dictionaries(st.integers(0, 9), steps, max_size=6))
    asked = draw(st.sampled_from(["star(hosts=5)", "star(hosts=5)", "spine_leaf(racks=3,hosts_per_rack=2,spines=1)"]))
    return Network(build(asked, rate_bps=100 * MBIT), changed)
