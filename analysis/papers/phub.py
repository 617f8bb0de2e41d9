"""PHub and PBox (Luo, thesis, University of Washington 2020): bandwidth that a server's host needs, throughput for its
price, the claims that are computed of these, and all claims as a paper."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from testbed.analysis.papers.claim import Claim, Finding, Paper, Row, Runs, Table, near, true
from testbed.analysis.papers.forests import network
from testbed.analysis.papers.phub_measured import CLAIMS
from testbed.workloads.sync.cost import cost
from testbed.workloads.sync.schemes import build

MIB = 2**20
WORKERS = 8
PLACED = {
    "CC": ("ps(servers=1)", WORKERS),
    "CS": ("ps", WORKERS),
    "NCC": ("ps(colocated=false)", WORKERS + 1),
    "NCS": ("ps(colocated=false,servers=8)", 2 * WORKERS),
}
"""Scheme and hosts of each placement of servers (section 1.1.5)."""
MODELS = {
    "ResNet-269": (390, 0.350, (122, 31, 140, 17)),
    "Inception": (91, 0.225, (44, 11, 50, 6)),
    "GoogleNet": (38, 0.100, (40, 10, 46, 6)),
    "AlexNet": (194, 0.016, (1232, 308, 1408, 176)),
}
"""By model: its size (MiB, which Table 6.1 calls MB), the time of a batch (s), and Table 2.1's row (Gbit/s)."""


@cache
def gradients(placement: str) -> float:
    """Compute the bytes into and out of the busiest host together, in gradients."""
    scheme, hosts = PLACED[placement]
    net = network(f"star(hosts={hosts})")
    by_link = cost(build(scheme, net, []), net, 1.0).link_bytes
    return float(max(by_link[2 * host] + by_link[2 * host + 1] for host in net.hosts))


def needed_gbps(model: str, placement: str) -> float:
    """Compute the rate (Gbit/s) at which these bytes pass within the time of a batch."""
    size_mib, batch_s, _ = MODELS[model]
    return gradients(placement) * size_mib * MIB * 8 / batch_s / 1e9


def table_2_1() -> Table:
    """Bandwidth of a server's host that hides communication, with 8 workers."""
    rows = [("gradients", *(f"{gradients(placement):g}" for placement in PLACED), *[""] * len(PLACED))]
    for model, (_, _, stated) in MODELS.items():
        rows.append((model, *(f"{needed_gbps(model, one):.0f}" for one in PLACED), *map(str, stated)))
    return Table(
        "PHub thesis Table 2.1: bytes into and out of a server's host over the time of a batch (Gbit/s), 8 workers",
        ("model", *PLACED, *(f"{placement}, thesis" for placement in PLACED)),
        tuple(rows),
        (
            'The thesis calls it "bisection" bandwidth. Its columns are in the ratio of the bytes into and out of a '
            "server's host together.",
            "Sizes and times are Table 6.1's. They give 7 to 16 % more than its rows; the ratios of columns are exact.",
        ),
    )


@dataclass(frozen=True)
class Gear:
    """Prices ($) of a machine's part of the network: a port of a NIC, a port of a switch, a cable."""

    nic: float
    port: float
    cable: float

    def amortized(self, uplinks: float) -> float:
        """Return A (section 6.1.10), where ``uplinks`` is F, one over the oversubscription."""
        return self.nic + self.port + self.cable + uplinks * (4 * self.port + 2 * self.cable)


WORKER, GPU, GPUS, BOX, BOX_NIC, BOX_NICS = 4117.0, 699.0, 4, 8407.0, 162.5, 20
"""Prices ($) of a worker without GPUs (W), a GPU (G), a PHub without NICs (H) and a port of its NICs, and how many GPUs
and ports they have."""
SWITCH = 21_077.0
FAST, SLOW = Gear(795.0, SWITCH / 32, 94.0), Gear(260.0, SWITCH / 128, 31.25)
"""100 Gbit/s, and 25 Gbit/s by cables that break out a port of the switch into four."""
DEPLOYED = {"25Gb PHub 1:1": (1.0, 44), "25Gb PHub 2:1": (1 / 2, 65), "25Gb PHub 3:1": (1 / 3, 76)}
"""F, and the workers of a PHub."""
BASELINE = "100Gb Sharded 1:1"
COLUMNS = ("Future GPUs", "Spendy", "Cheap")
STATED = {
    BASELINE: (46.11, 14.57, 60.41),
    "25Gb PHub 1:1": (55.19, 15.30, 77.21),
    "25Gb PHub 2:1": (57.71, 15.49, 82.24),
    "25Gb PHub 3:1": (59.03, 15.58, 84.95),
}
"""Table 6.3: samples/s for $1000."""


def baseline_cost(worker: float = WORKER, gpu: float = GPU) -> float:
    """Return the price ($) of a worker of the baseline: W + N + 4G + A."""
    return worker + FAST.nic + GPUS * gpu + FAST.amortized(1)


def phub_cost(deployment: str, worker: float = WORKER, gpu: float = GPU) -> float:
    """Return the price ($) of a worker and its part of a PHub: W + N + 4G + A + P / workers, P = H + 20N + 20A."""
    uplinks, workers = DEPLOYED[deployment]
    box = BOX + BOX_NICS * (BOX_NIC + SLOW.amortized(uplinks))
    return worker + SLOW.nic + GPUS * gpu + SLOW.amortized(uplinks) + box / workers


def baseline_samples() -> float:
    """Return the samples/s of a worker that Table 6.3's first number means."""
    return STATED[BASELINE][0] * baseline_cost() / 1000


def prices() -> dict[str, tuple[float, float]]:
    """Return by column the prices ($) of a worker and of a GPU. The thesis gives those of the first alone; the others
    follow from the table's first row."""
    spendy, cheap = (1000 * baseline_samples() / STATED[BASELINE][column] for column in (1, 2))
    dear = GPU + (spendy - baseline_cost()) / GPUS
    return dict(zip(COLUMNS, ((WORKER, GPU), (WORKER, dear), (WORKER - baseline_cost() + cheap, GPU)), strict=True))


def phub_share() -> float:
    """Return the throughput of a worker with PHub as a share of the baseline's, which the table's columns mean: two
    columns of a row are the same throughput over prices that differ by that of the GPUs."""
    more = GPUS * (prices()["Spendy"][1] - GPU)
    shares = []
    for future, spendy, _ in (STATED[deployment] for deployment in DEPLOYED):
        samples = future * spendy * more / (future - spendy) / 1000
        shares.append(samples / baseline_samples())
    return sum(shares) / len(shares)


def for_1000(deployment: str, column: str) -> float:
    """Return samples/s for $1000 by the formulas as they are printed."""
    if deployment == BASELINE:
        return 1000 * baseline_samples() / baseline_cost(*prices()[column])
    return 1000 * phub_share() * baseline_samples() / phub_cost(deployment, *prices()[column])


def table_6_3() -> Table:
    """Throughput for its price of racks with sharded servers and with PHub."""
    rows = [
        (one, *(text for i, column in enumerate(COLUMNS) for text in (f"{for_1000(one, column):.2f}", f"{row[i]:.2f}")))
        for one, row in STATED.items()
    ]
    (_, dear), (cheap, _) = prices()["Spendy"], prices()["Cheap"]
    return Table(
        "PHub thesis Table 6.3: samples/s of ResNet-50 for $1000, by the formulas of section 6.1.10",
        ("deployment", *(text for column in COLUMNS for text in (column, "thesis"))),
        tuple(rows),
        (
            f"A worker of the baseline costs ${baseline_cost():,.2f}, so its 46.11 means {baseline_samples():.1f} "
            f"samples/s. The first row's other columns mean a V100 of ${dear:,.0f} and a cheap worker of "
            f"${cheap:,.0f}. So the first row agrees by construction.",
            f"The columns agree that a worker with PHub has {phub_share():.3f} of that throughput. The formulas as "
            "printed then give more for $1000 than the table.",
            "Printed is P = W + 20N + 20A; W is taken for H, the PHub node's price, and N for its port's, $162.50. A "
            "worker's price has N twice, once within A, as printed.",
            "Oversubscription 2:1 is 25 % above the baseline in the table, as its caption says; the text says 26 %.",
        ),
    )


TABLES = {"phub.table2.1": table_2_1, "phub.table6.3": table_6_3}


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
