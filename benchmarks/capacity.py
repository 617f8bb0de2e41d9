"""What ``testbed doctor --capacity`` predicts, beside what happens, on 20 pairs of a network and a rate.

    python benchmarks/capacity.py            # about two minutes

First this machine's capacity is measured, as the command does it, and not kept. Then come ten networks, other
topologies, schemes, sizes and chunks than the ladder's, each at two rates: ``BELOW`` and ``ABOVE`` times the one up to
which it is predicted to be carried. A prediction is right if GST's verdict is the predicted one. Where it is not, the
trial runs once more, for somebody else may have been busy, and that counts. Reached with 18 of 20.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from testbed.capacity.cache import machine
from testbed.capacity.ladder import Rung, climb, recorded, trial_of
from testbed.capacity.load import load_of
from testbed.capacity.model import Capacity, certified, fitted
from testbed.columns import columns
from testbed.lab.netns import NetnsLab
from testbed.referee import Referee
from testbed.units import rate_text

BELOW, ABOVE = 0.65, 1.5
REACH = 18
UNSEEN = (
    Rung("star(hosts=9)", "ps", "32 KiB"),
    Rung("star(hosts=16)", "ring", "64 KiB"),
    Rung("star(hosts=8)", "halving_doubling", "64 KiB"),
    Rung("bcube(n=4,k=2)", "bml", "32 KiB"),
    Rung("bcube(n=2,k=3)", "bml", "32 KiB"),
    Rung("star(hosts=2)", "ring", "128 KiB"),
    Rung("spine_leaf(racks=2,hosts_per_rack=4,spines=1,oversubscription=4)", "h_ar", "32 KiB"),
    Rung("fat_tree(k=4)", "hierarchical", "32 KiB"),
    Rung("star(hosts=12)", "ps(servers=3)", "64 KiB"),
    Rung("star(hosts=6)", "ring", "16 KiB"),
)


def verdict(record: Mapping[str, Any]) -> str:
    """GST's."""
    numbers = record["fidelity"].get("numbers")
    if numbers is not None:
        return str(numbers["gst"]["verdict"])
    return "VALID" if certified(record) else str(record["fidelity"]["verdict"])


def pair(rung: Rung, share: float, capacity: Capacity, lab: NetnsLab, referee: Referee, folder: Path) -> list[str]:
    """A row: what was predicted of a network at this share of the rate that it is predicted to be carried at."""
    known = load_of(trial_of(rung, 1e9))
    assert known is not None
    trial = trial_of(rung, share * 1e9 * capacity.room(known))
    load = load_of(trial)
    assert load is not None
    predicted = "VALID" if capacity.room(load) >= 1 else "INVALID"
    record = recorded(trial, lab, referee, folder)
    tries = 1
    if verdict(record) != predicted:
        record, tries = recorded(trial, lab, referee, folder), 2
    found = verdict(record)
    ratio = f"{record['metrics']['gst_ratio']:.3f}"
    asked = [rate_text(load.rate_bps), rate_text(load.in_all_bps)]
    return [rung.name, *asked, predicted, found, ratio, str(tries), "right" if found == predicted else "WRONG"]


def main() -> int:
    """Print the table; 0 where enough predictions are right."""
    capacity = fitted(
        climb(lambda step: print(f"{step.network} {step.ratio:.3f}", file=sys.stderr)), machine()["cores"]
    )
    prices = ", ".join(f"{price:.3g}" for price in capacity.prices)
    print(
        f"cores a Gbit/s sent, a Gbit/s on links, a thousand chunks/s, a process: {prices}; limit {capacity.limit:.2f}"
    )
    rows = []
    with tempfile.TemporaryDirectory() as folder, NetnsLab() as lab, Referee() as referee:
        for share in (BELOW, ABOVE):
            for rung in UNSEEN:
                rows.append(pair(rung, share, capacity, lab, referee, Path(folder)))
                print(*rows[-1], file=sys.stderr)
    print(columns(("network", "rate", "in all", "predicted", "GST is", "of theory", "tries", ""), rows))
    right = sum(row[-1] == "right" for row in rows)
    print(f"{right} of {len(rows)} right: {'reached' if right >= REACH else 'NOT REACHED'} ({REACH})")
    return 0 if right >= REACH else 1


if __name__ == "__main__":
    sys.exit(main())
