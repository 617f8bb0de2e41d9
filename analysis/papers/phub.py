"""PHub and PBox (Luo, thesis, University of Washington 2020): claims that are computed, and all of them as a paper."""

from __future__ import annotations

from testbed.analysis.papers.claim import Claim, Finding, Paper, Row, Runs
from testbed.analysis.papers.judging import near, true
from testbed.analysis.papers.phub_measured import CLAIMS
from testbed.analysis.papers.phub_theory import (
    COLUMNS,
    DEPLOYED,
    MODELS,
    PLACED,
    STATED,
    for_1000,
    gradients,
    needed_gbps,
    phub_share,
    table_2_1,
    table_6_3,
)

EXACT = 1e-9
GIVEN_MORE = 0.17
"""Largest share by which sizes and times of Table 6.1 may give more than Table 2.1 has."""
ROUNDED = 0.005
BYTES = {"CC": 14.0, "CS": 3.5, "NCC": 16.0, "NCS": 2.0}
"""Gradients into and out of a server's host, 2(N-1), 4(N-1)/N, 2N and 2 (figure 1.7), with 8 workers."""


def bandwidth(_: Runs) -> Finding:
    """Bytes of a server's host from forests, and Table 2.1's rates."""
    moved = [
        Row(f"{placement}, in and out of a server's host", "gradients", BYTES[placement], gradients(placement))
        for placement in PLACED
    ]
    checks = [near(f"{row.name}: as many as the thesis's figure says", row, EXACT) for row in moved]
    rates = []
    for model, facts in MODELS.items():
        stated = facts[2]
        found = [
            Row(f"{model}, {placement}", "Gbit/s", rate, needed_gbps(model, placement))
            for placement, rate in zip(PLACED, stated, strict=True)
        ]
        checks += [near(f"{row.name}: Table 6.1 gives about as much", row, GIVEN_MORE) for row in found]
        low = max((rate - 0.5) / gradients(where) for where, rate in zip(PLACED, stated, strict=True))
        high = min((rate + 0.5) / gradients(where) for where, rate in zip(PLACED, stated, strict=True))
        so = f"{model}: the table's columns are in the ratio of these bytes"
        checks.append(true(so, low <= high, "no rate of a gradient rounds to all four"))
        rates += found
    return Finding((*moved, *rates), tuple(checks), table_2_1().notes)


def price(_: Runs) -> Finding:
    """The cost model as it is printed, beside Table 6.3."""
    rows = [
        Row(f"{deployment}, {column}", "samples/s for $1000", stated[i], for_1000(deployment, column))
        for i, column in enumerate(COLUMNS)
        for deployment, stated in STATED.items()
    ]
    with_phub = [row for row in rows if row.name.startswith(tuple(DEPLOYED))]
    caption = STATED["25Gb PHub 2:1"][0] / STATED["100Gb Sharded 1:1"][0] - 1
    return Finding(
        (*with_phub[:1], *(row for row in rows if row is not with_phub[0])),
        (
            *(near(f"{row.name}: as the formulas give it", row, ROUNDED) for row in with_phub),
            true("2:1 is 25 % above the baseline in the table", abs(caption - 0.25) < ROUNDED, f"it is {caption:.1%}"),
        ),
        (*table_6_3().notes, f"The share {phub_share():.3f} is from the table, and so tests nothing."),
    )


PAPER = Paper(
    "phub",
    "PHub and PBox: a parameter server for a rack (Luo, PhD thesis, University of Washington 2020)",
    (
        Claim(
            "phub.table2.1",
            "With 8 workers a server's host needs bandwidth for 14, 3.5, 16 and 2 gradients (CC, CS, NCC, NCS) in the "
            "time of a batch: 122, 31, 140 and 17 Gbit/s for ResNet-269.",
            "section 2.1, Table 2.1; Table 6.1",
            bandwidth,
            assumes=("Megabytes of Table 6.1 are MiB: VGG-19 has 143,667,240 floats, 548 MiB.",),
        ),
        Claim(
            "phub.table6.3",
            "PHub on slow links gives more samples/s for $1000 than sharded servers on fast ones: 55.19, 57.71 and "
            "59.03 against 46.11.",
            "section 6.1.10, Table 6.3",
            price,
            assumes=(
                "W in P = W + 20N + 20A is the PHub node's price, $8407, and N there the price of a port of its NICs. "
                "F is 1, 1/2, 1/3, with 44, 65, 76 workers a PHub.",
            ),
        ),
        *CLAIMS,
    ),
)
