"""Seconds in which 16 hosts probe each other in the lab netns, and how right the distances and the groups are.

    python benchmarks/probing.py [REPEATS]

Hosts of a cloud of one row, four racks and four hosts in each, at an oversubscription of 4, with links of 100 Mbit/s,
probe each other by latency and by bandwidth. PAIA is the share of comparable triplets of hosts whose distances are in
the right order (PHub thesis, section 6.2.5, which gives no seconds).
"""

from __future__ import annotations

import sys
import tempfile
import time
from itertools import permutations
from pathlib import Path

import numpy as np

from testbed.base.columns import columns
from testbed.execution.probing import PROBES, Means
from testbed.experiment.expand import trials
from testbed.lab.base import LinkSettings
from testbed.lab.netns import NetnsLab
from testbed.spec import read
from testbed.topologies.cloud import places
from testbed.trial.files import Files
from testbed.workloads.locality.distances import paia
from testbed.workloads.locality.probe_embed import decide

SPEC = """
name: probing
links: {rate: 100 Mbit/s}
workload: {kind: profile, model: lenet5, batch: 16, iterations: 2, compute: none}
arms: [{topology: "cloud(rows=1,racks=4,hosts_per_rack=4,oversubscription=4)", scheme: two_level(groups=probed)}]
"""
MOST_S, LEAST_PAIA = 30.0, 0.99


def main(repeats: int) -> int:
    (trial,) = trials(read(SPEC, "spec.yaml", Path()))
    topology = trial.topology
    hidden = places(topology)
    racks = {frozenset(topology.nodes[host].name for host in rack) for rack in hidden.groups}
    rows, missed = [], False
    for probe in repeats * ("latency", "bandwidth"):
        with NetnsLab() as lab, tempfile.TemporaryDirectory() as folder:
            files = Files(Path(folder) / "work", Path(folder) / "logs")
            files.work.mkdir()
            files.logs.mkdir()
            files.make(topology)
            lab.share(files.work, [])
            lab.up(topology, LinkSettings(congestion_control="reno"), permutations(topology.hosts, 2))
            begun_s = time.monotonic()
            measured = PROBES[probe](Means(trial, lab, files, "reno", []))
            took_s = time.monotonic() - begun_s
        distances = np.array([[np.nan if d is None else d for d in row] for row in measured.values()])
        groups = decide([*measured], distances, {}, trial.spec.seed)["groups"]
        is_right = {frozenset(group) for group in groups} == racks  # type: ignore[union-attr, arg-type]
        told = paia([*zip(hidden.rows, hidden.racks, strict=True)], distances)
        missed |= took_s > MOST_S or (probe == "latency" and (told < LEAST_PAIA or not is_right))
        rows.append((probe, f"{took_s:.1f}", f"{told:.3f}", "yes" if is_right else "no"))
    print(f"asked: {MOST_S:g} s at most; by latency a PAIA of {LEAST_PAIA} at least, and groups that are the racks\n")
    print(columns(("probe", "seconds", "PAIA", "groups = racks"), rows, left=1))
    return missed


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 3))
