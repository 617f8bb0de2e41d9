"""Predictions of ``testbed doctor --capacity`` beside measurements, for 20 pairs of a network and a rate.

    python benchmarks/capacity.py            # about two minutes
    python benchmarks/capacity.py --prices   # the prices of testbed/capacity/model.py, measured again; nobody else busy

First this machine's capacity is measured, as the command does it, and not kept. Then come ten networks, other
topologies, schemes, sizes and chunks than the ladder's, each at two rates: ``BELOW`` and ``ABOVE`` times the one up to
which it is predicted to be carried. Their GST takes ``GST_S`` at least: with parameter servers, what comes at the
beginning and end of a GST of 0.25 s is 4 % of it, which no certificate allows, at any rate. A prediction is right if
GST's verdict is the predicted one. If a trial is INVALID against the prediction, it runs again, up to ``TRIES`` times:
other programs can spoil a trial, and cannot make a bad one good. If it is VALID against the prediction, it does not run
again. Reached with 18 of 20.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Mapping
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from testbed.base.columns import columns
from testbed.base.units import rate_text
from testbed.capacity.model import PRICES, Capacity, fitted, load_of, units
from testbed.evidence.referee import Referee
from testbed.experiment.ladder import GUESS_BPS_PER_CORE, RUNGS, Rung, climb, recorded, step, trial_of
from testbed.lab.netns import NetnsLab

BELOW, ABOVE = 0.65, 1.5
GST_S = 0.5
TRIES, PATIENCE_S = 3, 20.0
"""How often a trial runs that may have been spoilt, and how long each waits for a calm machine."""
CORES = len(os.sched_getaffinity(0))
SHARES = (0.25, 0.5, 0.75)
"""Of what the ladder begins with, for prices."""
LEAST_IDLE = 0.15
"""With less, what a trial needs is not known: it took what there was."""
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
    return str(record["fidelity"]["numbers"]["gst"]["verdict"])


def pair(rung: Rung, share: float, capacity: Capacity, lab: NetnsLab, referee: Referee, folder: Path) -> list[str]:
    """A row: what was predicted of a network at this share of the rate that it is predicted to be carried at."""
    known = load_of(trial_of(rung, 1e9, GST_S))
    assert known is not None
    trial = trial_of(rung, share * 1e9 * capacity.room(known), GST_S)
    load = load_of(trial)
    assert load is not None
    predicted = "VALID" if capacity.room(load) >= 1 else "INVALID"
    record, tries = recorded(trial, lab, referee, folder, PATIENCE_S), 1
    while predicted == "VALID" != verdict(record) and tries < TRIES:
        record, tries = recorded(trial, lab, referee, folder, PATIENCE_S), tries + 1
    found = verdict(record)
    ratio = f"{record['metrics']['gst_ratio']:.3f}"
    asked = [rate_text(load.rate_bps), rate_text(load.in_all_bps)]
    return [rung.name, *asked, predicted, found, ratio, str(tries), "right" if found == predicted else "WRONG"]


def prices() -> int:
    """Print the prices with which the processor time of trials that leave some idle is nearest to what it was."""
    rows, needed = [], []
    with tempfile.TemporaryDirectory() as folder, NetnsLab() as lab, Referee() as referee:
        for rung in (*RUNGS, *UNSEEN):
            for share in SHARES:
                found = step(rung, trial_of(rung, share * GUESS_BPS_PER_CORE * CORES), lab, referee, Path(folder))
                if found.idle >= LEAST_IDLE:
                    rows.append(units(found.load))
                    needed.append(CORES * (1 - found.idle))
    ratio = np.array(rows) / np.array(needed)[:, None]
    price = least_squares(ratio)
    off = ratio @ price - 1
    print(f"prices: {', '.join(f'{one:.4f}' for one in price)}; of {len(rows)} trials, off by {off.std():.1%}, at most")
    print(f"{abs(off).max():.1%}; with those that are used: {(ratio @ PRICES - 1).std():.1%}")
    return 0


def least_squares(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """The prices, none below 0, with which every row comes to 1 as nearly as can be: the best of all sets of prices
    that may be above 0."""
    found = []
    for chosen in (list(one) for n in range(1, 5) for one in combinations(range(4), n)):
        price = np.zeros(4)
        price[chosen] = np.linalg.lstsq(rows[:, chosen], np.ones(len(rows)), rcond=None)[0]
        if price.min() >= 0:
            found.append(price)
    return min(found, key=lambda price: float(((rows @ price - 1) ** 2).sum()))


def main() -> int:
    """Print the table; 0 where enough predictions are right."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--prices", action="store_true", help="measure testbed.capacity.model.PRICES instead")
    if parser.parse_args().prices:
        return prices()
    capacity = fitted(climb(lambda step: print(f"{step.network} {step.ratio:.3f}", file=sys.stderr)))
    print(f"limit {capacity.limit:.2f}")
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
