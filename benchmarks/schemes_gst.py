"""GST of every synchronous scheme with trees at 100, 200 and 400 Mbit/s, over the least that its forest allows.

    python benchmarks/schemes_gst.py [SCHEME ...] [--rate "400 Mbit/s"]

Every scheme of the registry runs: as ``ARMS`` says, else with its defaults on the first of ``NETWORKS`` that takes it,
so a new scheme joins by itself. LeNet-5's gradient (12.5 MiB) is synchronised. A short pace lets workers start nearly
together, as theory assumes, and there are enough iterations to tell whether they stay so or drift apart. Reached when
the trial is VALID and GST is at most 1.05 of the bound, or 1.10 where the sum takes more than 16 hops.

The bound is that of links alone and knows no hops: it counts the bytes on the busiest link, not the time until the
first of them arrives there. With d hops a way and chunks of c bytes a scheme of one tree takes about 2(d - 1) c longer.
Chunks have the size that a workload takes by itself, which is smaller there (:mod:`testbed.workloads.sync.chunk_size`).
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from testbed.base.columns import columns
from testbed.base.errors import SchemeError
from testbed.experiment.progress import Lines
from testbed.experiment.run import Experiment
from testbed.experiment.runner import Here
from testbed.lab.netns import NetnsLab
from testbed.spec import read
from testbed.topologies.build import build as build_topology
from testbed.workloads.sync.cost import cost
from testbed.workloads.sync.forest import Forest
from testbed.workloads.sync.schemes import build, build_plan, schemes

RATES = ("100 Mbit/s", "200 Mbit/s", "400 Mbit/s")
RETRIES = 2
"""Enough for a machine that others use now and then, too few to hide one that cannot keep up."""
LIMIT, LONG_LIMIT, LONG_HOPS = 1.05, 1.10, 16
STAR, RACKS = "star(hosts=8)", "spine_leaf(racks=2,hosts_per_rack=4,spines=1)"
ADDING = "spine_leaf(racks=2,hosts_per_rack=4,spines=1,ina=all)"
NETWORKS = (STAR, RACKS, "fat_tree(k=4)", "bcube(n=3,k=2)", ADDING)
ARMS = {
    "ps": [("ps", STAR), ("ps(servers=1)", STAR), ("ps(colocated=false)", "star(hosts=9,server_nics=4)")],
    "multi_ring": [("multi_ring(strides=[1,3])", STAR)],
    "hierarchical_ps": [("hierarchical_ps", RACKS), ("hierarchical_ps(across=ring)", RACKS)],
    "two_level": [("two_level", RACKS)],
    "h_ar": [("h_ar", RACKS)],
    "switchml": [("switchml", ADDING)],
    "atp": [("atp", ADDING)],
    "rina": [("rina", ADDING)],
}
"""Where the defaults on a star would be something else: a single rack makes ``two_level`` PS and ``h_ar`` a ring, and
without switches that add ``atp`` is PS and ``rina`` a ring."""
SPEC = """
name: schemes-gst
links: {{rate: 100 Mbit/s}}
workload:
  {{model: lenet5, dataset: digits, batch: 2, iterations: 12,
    compute: {{mode: paced, pace: {{2: 0.5 s}}}}}}
arms:
{arms}
"""


def arms(names: Sequence[str]) -> list[tuple[str, str]]:
    """(scheme, topology) of each arm; every registered scheme that our engine runs unless some are named."""
    known = schemes()
    for name in names:
        if name not in known:
            raise SystemExit(f"there is no scheme {name!r}; name some of {', '.join(known)}")
    found = [arm for name in names or known for arm in ARMS.get(name) or [(name, _network(name))]]
    return found if names else [arm for arm in found if _is_ours(*arm)]


def _is_ours(scheme: str, network: str) -> bool:
    """Libraries have benchmarks of their own, beside which ours stands; GST is another where nobody waits for a sum."""
    plan = build_plan(scheme, build_topology(network, rate_bps=10**8), [1000])
    return isinstance(plan, Forest) and plan.run_by is None


def _network(scheme: str) -> str:
    """The first network on which a scheme can be built."""
    refusals = []
    for network in NETWORKS:
        try:
            build_plan(scheme, build_topology(network, rate_bps=10**8), [1000])
            return network
        except SchemeError as refusal:
            refusals.append(str(refusal))
    raise SystemExit("\n".join([f"add {scheme} to ARMS, with a network that it can use:", *refusals]))


def measure(chosen: Sequence[tuple[str, str]], rate: str) -> list[dict[str, Any]]:
    """The record of a trial for each arm; one that comes out INVALID says nothing, and is run again."""
    records = dict(zip(chosen, _run(chosen, rate), strict=True))
    for _ in range(RETRIES):
        again = [arm for arm, record in records.items() if (record["fidelity"] or {}).get("verdict") == "INVALID"]
        records.update(zip(again, _run(again, rate) if again else [], strict=True))
    return list(records.values())


def _run(chosen: Sequence[tuple[str, str]], rate: str) -> Sequence[dict[str, Any]]:
    arms = "\n".join(f'  - {{scheme: "{scheme}", topology: "{network}"}}' for scheme, network in chosen)
    text = SPEC.format(arms=arms)
    with tempfile.TemporaryDirectory() as folder:
        source = read(text, "schemes-gst", Path(), [f"links.rate={rate}"])
        with Experiment.new(source, Path(folder) / "run", partial(Here, NetnsLab)) as experiment:
            return experiment.go(lambda trials: Lines(trials, Console(stderr=True))).records


def row(rate: str, record: Mapping[str, Any]) -> list[str]:
    """A trial's cells; the last says whether it reached its target."""
    scheme, network = record["scheme"], record["topology"]
    net = build_topology(network, rate_bps=10**8)
    hops = cost(build(scheme, net, [1000]), net, 1.0).rounds
    limit = LONG_LIMIT if hops > LONG_HOPS else LIMIT
    cells = [scheme, network, rate, str(hops)]
    if record["status"] == "failed":
        return [*cells, "-", "-", "-", f"{limit:.2f}", "FAILED", "NOT REACHED"]
    found, verdict = record["metrics"], record["fidelity"]["verdict"]
    cells += [f"{found['gst_median_s']:.3f} s", f"{found['gst_theory_s']:.3f} s", f"{found['gst_ratio']:.3f}"]
    said = "reached" if verdict == "VALID" and found["gst_ratio"] <= limit else "NOT REACHED"
    return [*cells, f"{limit:.2f}", verdict, said]


def main() -> int:
    """Print the table; 0 when every target is reached."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("schemes", nargs="*", metavar="SCHEME")
    parser.add_argument("--rate", choices=RATES, action="append")
    asked = parser.parse_args()
    chosen = arms(asked.schemes)
    rows = [row(rate, record) for rate in asked.rate or RATES for record in measure(chosen, rate)]
    print(
        columns(("scheme", "network", "rate", "hops", "GST", "bound", "ratio", "target", "verdict", ""), rows, left=2)
    )
    return 0 if all(cells[-1] == "reached" for cells in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
