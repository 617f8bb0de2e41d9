"""Rates that workers' samples tell of, by host: TCP's delivery rate, and bytes over busy time, which Autotune takes.

    python -m benchmarks.tuned_rates

8 hosts with flat aggregation, of which host 0 has 40 of 100 Mbit/s from iteration 10 on. Rates of a host are those to
all others together, each the median of the iterations, over what its link carries. A rate that tells which host is slow
is the same share for all. The machine should have nothing else to do.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import pandas as pd

from testbed.base.columns import columns
from testbed.evidence.referee import Referee
from tests.testbed.bench import Bench

HOSTS, LIMITED = 8, 10
SPEC = f"""
name: rates
links: {{rate: 5 Gbit/s}}
workload:
  kind: profile
  model: resnet50
  batch: 32
  scale: 50
  chunk: 8 KiB
  iterations: 16
  compute: {{mode: paced, pace: {{32: 0.16 s}}}}
perturb: [{{kind: rate, links: h0, rate: 2 Gbit/s, at: iteration {LIMITED}}}]
arms: [{{topology: star(hosts={HOSTS}), scheme: "two_level(groups=[[0,1,2,3,4,5,6,7]],classes=56,tune=true)"}}]
"""
FULL_BPS, LIMITED_BPS = 100e6, 40e6


def main() -> None:
    with Referee() as referee, tempfile.TemporaryDirectory() as folder:
        bench = Bench(referee)
        try:
            (outcome,) = bench.run(SPEC, Path(folder))
        finally:
            bench.close()
    assert outcome.samples is not None, outcome.record["error"]
    rows = []
    for name, first, stop, slow_bps in (
        ("all links alike", 2, LIMITED, FULL_BPS),
        ("host 0 limited", LIMITED + 1, LIMITED + 5, LIMITED_BPS),
    ):
        seen = outcome.samples[outcome.samples["iteration"].between(first, stop - 1)]
        for way in ("delivery rate", "bytes over busy time"):
            shares = [rate_bps(seen, host, way) / (slow_bps if host == 0 else FULL_BPS) for host in range(HOSTS)]
            others = shares[1:]
            rows.append((name, way, *(f"{share:.2f}" for share in (shares[0], min(others), max(others)))))
    print(columns(("", "", "host 0", "least of others", "most of others"), rows, left=2))


def rate_bps(seen: pd.DataFrame, host: int, way: str) -> float:
    """Add up the median rates of a host to all others."""
    own, others = seen[seen["node"] == host], [node for node in range(1, HOSTS + 1) if node != host + 1]
    if way == "delivery rate":
        return float(sum(own[f"rate_bps_{node}"].median() for node in others if f"rate_bps_{node}" in own))
    return float(sum((8 * own[f"sent_bytes_{node}"] / own[f"busy_s_{node}"]).median() for node in others))


if __name__ == "__main__":
    main()
