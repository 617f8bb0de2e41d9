"""Claims of PLink Collectives about programs that run unchanged: LightGBM, a PyTorch script, and training of models.

Each is run in the best and in the worst order of ranks that its trials find (PHub thesis, section 6.3.4).
"""

from __future__ import annotations

import numpy as np

from testbed.analysis.papers.claim import Claim, Experiment, Finding, Row, Runs, within
from testbed.analysis.papers.collectives_theory import BOUNDS
from testbed.analysis.papers.collectives_theory import LIGHTGBM as EXCHANGES
from testbed.analysis.papers.evidence import GST, JCT, Measured, Values, iteration_s, measure, samples_of, slower, where
from testbed.analysis.recorded import Run, Trial
from testbed.workloads.catalogue import tensor_sizes
from testbed.workloads.profiles import profile
from testbed.workloads.sync.cost import goodput

BEST, WORST, NUMBERS = "best", "worst", "numbers"
"""Labels of arms."""
LEAST_BYTES, MOST_BYTES = BOUNDS["gloo"]
"""Time of a sum in the best and in the worst order, as a multiple of the gradient's time on a link."""

LIGHTGBM = Experiment("collectives/lightgbm.yaml", ("where=[\"label != 'numbers'\"]",), ("repeats=5",), JCT)
LEAST_TREES, THESIS_TREES = 1.3, 1.3
LEAST_EXCHANGE, MOST_EXCHANGE, _ = EXCHANGES.values()
THEORY_TREES = MOST_EXCHANGE / LEAST_EXCHANGE


def lightgbm(runs: Runs) -> Finding:
    """Times of trees by the order of ranks."""
    run = runs.get(LIGHTGBM.spec)
    gain = Row("worst over best, time of a tree", "x", THESIS_TREES, THEORY_TREES, _times(run, BEST, WORST))
    by_number = Row("order of numbers over best", "x", ours=_times(run, BEST, NUMBERS))
    each = [Row(f"a tree, {label}", "s", ours=measure(run, [label], tree_s, number=JCT)) for label in (BEST, WORST)]
    return Finding(
        (gain, by_number, *each),
        (within(f"{gain.name}: {LEAST_TREES:g} or more", gain, LEAST_TREES),),
        (
            "Theory is of the exchange of histograms alone. The program prints what each tree takes; the first one, "
            "which begins while other ranks still load, is left out. The verdict is that of JCT, loading included.",
            "The trial fails if two ranks do not predict the same.",
        ),
    )


def _times(run: Run | None, base: str, other: str) -> Measured:
    return measure(run, [base, other], lambda a, b: tree_s(b) / tree_s(a), number=JCT)


def tree_s(trial: Trial) -> Values:
    """Return the time (s) of each tree but the first, the mean over ranks."""
    times: Values = np.array(trial.logged["tree_s"]).mean(axis=0)[1:]
    return times


SCRIPT = Experiment("collectives/script.yaml", (), ("repeats=5",), GST)
SCHEMES = ("Gloo", "ring")
LEAST_GST, RING_BYTES = 3.0, 4.0
MOST_APART = 1e-4
"""Limit on differences of losses, as a share: that of ``benchmarks/scripts.py``."""


def script(runs: Runs) -> Finding:
    """GST of the unchanged script in both orders, and its losses in all arms."""
    run = runs.get(SCRIPT.spec)
    arms = {scheme: (f"{scheme}, {BEST}", f"{scheme}, {WORST}") for scheme in SCHEMES}
    gains = [
        Row(f"{scheme}: worst over best", "x", theory=RING_BYTES, ours=measure(run, labels, slower, number=GST))
        for scheme, labels in arms.items()
    ]
    first, *others = (label for labels in arms.values() for label in labels)
    apart = [
        Row(f"losses of {label} from those of {first}", "", ours=measure(run, [first, label], losses_apart, number=GST))
        for label in others
    ]
    return Finding(
        (*gains, *apart),
        (
            *(within(f"{row.name}: {LEAST_GST:g} or more", row, LEAST_GST) for row in gains),
            *(within(f"{row.name}: {MOST_APART:g} at most, as a share", row, high=MOST_APART) for row in apart),
        ),
        (
            "Theory is of one sum alone. While a bucket is on its way, the script computes the next one, so GST in the "
            "best order may be less than the time of all bytes.",
        ),
    )


def losses_apart(base: Trial, other: Trial) -> Values:
    """Compute by how much the mean loss over ranks differs in each iteration, as a share."""
    a, b = (losses(trial) for trial in (base, other))
    apart: Values = np.abs(b - a) / np.abs(a)
    return apart


def losses(trial: Trial) -> Values:
    """Return the mean loss over ranks of each iteration; not a number where it is not known."""
    return samples_of(trial).groupby("iteration")["loss"].mean().to_numpy(float)


DNN = Experiment("collectives/alexnet.yaml", (), ("repeats=5",))
MODELS = {"alexnet": "AlexNet", "resnet50": "ResNet-50"}
BATCH, RATE_BPS, MTU_BYTES = 32, 2.5e9, 1500
THESIS_ALEXNET = 1.2
WITHIN = 0.1


def dnn(runs: Runs) -> Finding:
    """Times of iterations, which compute first and then sum, over Gloo."""
    run = runs.get(DNN.spec)
    rows = {
        model: Row(
            f"{name}: worst over best, time of an iteration",
            "x",
            THESIS_ALEXNET if model == "alexnet" else None,
            least_s(model, MOST_BYTES) / least_s(model, LEAST_BYTES),
            _of_model(run, model),
        )
        for model, name in MODELS.items()
    }
    checks = []
    for row in rows.values():
        theory = row.theory or 0.0
        says = f"{row.name}: {theory:.2f}, within {WITHIN:.0%}"
        checks.append(within(says, row, theory * (1 - WITHIN), theory * (1 + WITHIN)))
    return Finding(
        tuple(rows.values()),
        tuple(checks),
        (
            "Theory: computing takes what Table 6.1 has, and then Gloo's ring sums the gradient. The thesis's order of "
            "numbers, on a cloud whose oversubscription it does not give, is no worst order; its 1.2 decides nothing.",
        ),
    )


def least_s(model: str, of_link: float) -> float:
    """Compute the least time (s) of an iteration whose sum takes the gradient's time on a link, ``of_link`` times."""
    size_bytes = 4 * sum(count for _, count in tensor_sizes(model))
    return profile(model).times_s[BATCH] + of_link * size_bytes * 8 / RATE_BPS / goodput(MTU_BYTES)


def _of_model(run: Run | None, model: str) -> Measured:
    return measure(where(run, model=model), [BEST, WORST], lambda a, b: iteration_s(b) / iteration_s(a))


CLAIMS: tuple[Claim, ...] = (
    Claim(
        "coll.lightgbm",
        "LightGBM, which is not changed, trains 1.3 times as fast in an order that costs little.",
        "section 6.3.4",
        lightgbm,
        (LIGHTGBM,),
        (
            "Worst against best, where the thesis has the order of numbers. 16 hosts, 1,000 columns, 15 leaves and 8 "
            "trees, where the thesis has 512 hosts, 5,000 columns, 120 leaves and 1,000 trees. The data are drawn.",
        ),
    ),
    Claim(
        "coll.script",
        "A PyTorch script, which is not changed, sums gradients faster in an order that costs little, under Gloo and "
        "under a ring.",
        "section 5.2",
        script,
        (SCRIPT,),
        (
            "The thesis has no such number: 3 times is ours, from a ring's 4 times as many bytes between racks. Each "
            "backward pass takes half a second.",
        ),
    ),
    Claim(
        "coll.dnn",
        "Training of AlexNet with a ring is 1.2 times as fast in an order that costs little.",
        "section 6.3.4",
        dnn,
        (DNN,),
        (
            "Worst against best over Gloo, on 16 hosts in 4 racks, oversubscription 4, links of 2.5 Gbit/s, with the "
            "times of Table 6.1 for a batch of 32. ResNet-50 is ours.",
        ),
    ),
)
