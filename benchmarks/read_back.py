"""How long it takes to read the kernel back: by our decoder, by pyroute2 beside it, and in mid-run.

    python benchmarks/read_back.py [--rounds N]

Networks of up to 128 hosts are brought up; then rounds of readings, each kind in turn. *ours* is the reading of
everything by our decoder, in the sandbox. *pyroute2* is what comes on top after each trial: to fetch the kernel's
messages from the sandbox, have pyroute2 decode them, and compare. Reach: 0.3 s in the median for each network. The
first such reading of a process imports pyroute2 as well, which is printed apart. Its CPU time is what it takes where
nobody else wants the core.

*in mid-run* is one spot check's CPU time in the sandbox and here, and the share of one core that checks take which
follow each other as :mod:`testbed.evidence.spot_checks` has them. Reach: 0.5 % of a core.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import permutations

from testbed.base.columns import columns
from testbed.evidence.spot_checks import mean_s
from testbed.lab.base import LinkSettings
from testbed.lab.netns import NetnsLab
from testbed.lab.netns.sandbox import Sandbox
from testbed.topologies.build import build

ROUNDS = 9
RATE_BPS = 100_000_000
MOST_S_PYROUTE2 = 0.3
MOST_OF_A_CORE = 0.005
SLACK = 1.02
"""Of the share: a reading's cost varies around the median, from which the next interval follows."""
NETWORKS = (
    ("bcube(n=3,k=2)", "all"),
    ("star(hosts=128)", "all"),
    ("bcube(n=11,k=2)", "ring"),
    ("bcube(n=11,k=2)", "all"),
    ("fat_tree(k=8,routing=ecmp)", "ring"),
)
"""Topologies, and which pairs of hosts have routes."""


def pairs(kind: str, hosts: int) -> Iterator[tuple[int, int]]:
    """(source, destination)."""
    return permutations(range(hosts), 2) if kind == "all" else ((one, (one + 1) % hosts) for one in range(hosts))


def timed(what: Callable[[], object]) -> float:
    """Seconds that it takes."""
    before_s = time.perf_counter()
    what()
    return time.perf_counter() - before_s


def measure(expression: str, kind: str, rounds: int) -> list[str]:
    """A row of the table."""
    topology = build(expression, rate_bps=RATE_BPS)
    ours_s, both_s, cpu_s, cost_s, links = [], [], [], [], []
    with NetnsLab() as lab:
        lab.up(topology, LinkSettings(), pairs(kind, topology.host_count))
        for _ in range(rounds):
            ours_s.append(timed(lambda: lab._sandbox.ask(Sandbox.verify())))
            here_s = time.thread_time()
            both_s.append(timed(lab.verify))
            cpu_s.append(time.thread_time() - here_s)
            here_s = time.thread_time()
            found = lab.spot_check()
            cost_s.append(found.cost_s + time.thread_time() - here_s)
            links.append(found.links)
        read = lab.describe()["second_reading"]
    pyroute2_s = statistics.median(both - ours for both, ours in zip(both_s, ours_s, strict=True))
    spot_s = statistics.median(cost_s)
    share = spot_s / mean_s(spot_s)
    reached = pyroute2_s <= MOST_S_PYROUTE2 and share <= SLACK * MOST_OF_A_CORE
    return [
        expression,
        kind,
        f"{read['directed_links']} + {read['routes']}",
        f"{statistics.median(ours_s):.3f} s",
        f"{pyroute2_s:.3f} s",
        f"{statistics.median(cpu_s):.3f} s",
        f"{1e3 * spot_s:.1f} ms",
        f"{statistics.median(links):.0f}",
        f"{100 * share:.2f} %",
        "reached" if reached else "NOT REACHED",
    ]


def main(arguments: Sequence[str]) -> int:
    """Print the table; 0 when every network's readings reach."""
    parser = argparse.ArgumentParser(description="What reading the kernel back takes.")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    rounds = parser.parse_args(arguments).rounds

    def load() -> None:
        import testbed.lab.netns.readings.second_reading  # noqa: F401

    print(f"import of pyroute2: {timed(load):.3f} s")
    rows = [measure(*network, rounds) for network in NETWORKS]
    titles = (
        "topology",
        "routes",
        "links + routes read",
        "ours",
        "pyroute2",
        "CPU",
        "in mid-run",
        "links",
        "of a core",
        "",
    )
    print(columns(titles, rows))
    return 0 if all(row[-1] == "reached" for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
