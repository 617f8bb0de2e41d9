"""The fastest links on this machine at which GST is still certified: our schemes beside Gloo and Open MPI.

    python benchmarks/frontier.py            # about five minutes; prints the table of docs/frontier.md

For each network and scheme a ladder of rates is climbed as ``testbed doctor --capacity`` does, with finer steps: real
trials, a profile scaled so that the links need a quarter of a second, chunks of the size that a workload takes by
itself. A rate counts if GST is at most 3 % above the least that the links allow. Nothing else should use the machine.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from testbed.base.columns import columns
from testbed.base.units import rate_text
from testbed.capacity.model import certified, in_all_bps
from testbed.evidence.referee import Referee
from testbed.experiment.ladder import GUESS_BPS_PER_CORE, LOST, Rung, frontier_bps, recorded, trial_of
from testbed.lab.netns import NetnsLab
from testbed.trial.network import lab_rate_bps

NETWORKS = {
    "star(hosts=4)": ("ring", "ps", "gloo", "openmpi(algorithm=ring)"),
    "star(hosts=9)": ("ring", "ps", "gloo", "openmpi(algorithm=ring)"),
    "bcube(n=3,k=2)": ("bml",),
    "fat_tree(k=4)": ("ring", "hierarchical", "gloo"),
}
LEAST_BPS = 500e6
"""In all: a scheme that is not certified here is so at no rate, for its own reasons."""
FINER = 2**0.25
"""Between the last rate that was certified and the next one, which was not."""


def main() -> int:
    guess_bps = GUESS_BPS_PER_CORE * len(os.sched_getaffinity(0))
    rows = []
    with tempfile.TemporaryDirectory() as folder, NetnsLab() as lab, Referee() as referee:
        for topology, schemes in NETWORKS.items():
            for scheme in schemes:
                rung = Rung(topology, scheme)
                ratios: dict[float, float] = {}

                def held(bps: float, rung: Rung = rung, ratios: dict[float, float] = ratios) -> bool:
                    trial = trial_of(rung, bps)
                    record = recorded(trial, lab, referee, Path(folder))
                    if not certified(record) and record["metrics"]["gst_ratio"] < LOST:
                        record = recorded(trial, lab, referee, Path(folder))
                    ratios[bps] = record["metrics"]["gst_ratio"]
                    print(f"{rung.name}: {rate_text(bps)} in all, {ratios[bps]:.3f}", file=sys.stderr)
                    return certified(record)

                last_bps = frontier_bps(held, guess_bps, LEAST_BPS)
                if last_bps and held(last_bps * FINER):
                    last_bps *= FINER
                if not last_bps:
                    rows.append([topology, scheme, "-", "-", "-"])
                    continue
                trial = trial_of(rung, last_bps)
                asked = [rate_text(lab_rate_bps(trial.spec)), rate_text(in_all_bps(trial.job.cost))]
                rows.append([topology, scheme, *asked, f"{ratios[last_bps]:.3f}"])
    print(columns(("network", "scheme", "links up to", "in all", "GST there"), rows, left=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
