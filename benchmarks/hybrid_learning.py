"""What the models of hybrid trials learn, and what cutting them costs.

python benchmarks/hybrid_learning.py

Each model is trained on its generated data set by one process, 300 steps of 12 servers' batches of 64. Its loss on
samples that it has not seen stands beside the entropy of the labels, which is the loss of one who knows only how
frequent each label is. It must be below three quarters of that.

Then all twelve servers take the same steps in turn in one process, with each table or tower on one server and all else
on all. Their CPU time stands beside that of one process. Messages are empty, so nothing is learnt.
"""

from __future__ import annotations

import sys
import time

import numpy as np
import torch

from testbed.workloads.job import Training
from testbed.workloads.kinds.hybrid.program.server import Server
from testbed.workloads.learning.training import Replica, first_weights
from testbed.workloads.models import MODELS
from testbed.workloads.parallel.models import operators_of
from testbed.workloads.parallel.strategy import Strategy, read

SERVERS, BATCH, STEPS, SEED = 12, 64, 300, 1
PLACED: dict[str, dict[str, object]] = {
    "dlrm_tiny": {f"e{place}": [place] for place in range(8)},
    "candle_tiny": {"drug0": [0], "drug1": [0], "cell0": [6], "cell1": [6]},
}
DATA = {"dlrm_tiny": "clicks", "candle_tiny": "responses"}
MOST_OF_ENTROPY = 0.75
TIMED = 20


def main() -> int:
    torch.set_num_threads(1)
    missed = []
    for name in PLACED:
        print(f"{name}, {MODELS[name].floats():,} parameters, on {DATA[name]}")
        one_s, loss, entropy = _learnt(_training(name, SERVERS * BATCH))
        cut_s = _cut_s(_training(name, BATCH), read(operators_of(name), SERVERS, {**PLACED[name], "rest": "all"}))
        print(
            f"  CPU time of a step: one process {one_s * 1e3:.1f} ms, {SERVERS} servers {sum(cut_s) * 1e3:.1f} ms, ",
            end="",
        )
        print(f"of which one takes at most {max(cut_s) * 1e3:.1f} ms")
        if loss > MOST_OF_ENTROPY * entropy:
            missed.append(name)
    for name in missed:
        print(f"missed: {name}")
    return 1 if missed else 0


def _training(name: str, batch: int) -> Training:
    return Training(name, DATA[name], batch, STEPS, learning_rate=0.1, momentum=0.9, seed=SEED)


def _learnt(asked: Training) -> tuple[float, float, float]:
    """CPU time of a step, the last loss on the test set, and the labels' entropy."""
    replica, used_s = Replica(asked), 0.0
    frequency = np.bincount(replica.data.labels.numpy()) / len(replica.data.labels)
    entropy = float(-(frequency * np.log(frequency)).sum())
    print(f"  entropy of labels {entropy:.3f}")
    for iteration in range(STEPS):
        began = time.process_time()
        replica.compute(*replica.samples(iteration, 0, 1))
        replica.step(1)
        used_s += time.process_time() - began
        if iteration % 50 == 49:
            accuracy, loss = replica.evaluate()
            print(f"  {iteration + 1:4} steps: loss {loss:.3f}, {accuracy:.1%} right")
    return used_s / STEPS, loss, entropy


def _cut_s(asked: Training, strategy: Strategy) -> list[float]:
    """By server, the CPU time of an iteration."""
    first, found = first_weights(asked), []
    for number in range(strategy.servers):
        server = Server(asked, strategy, number, first)
        for iteration in range(TIMED + 1):
            if iteration == 1:  # the first one touches the buffers' pages
                began = time.process_time()
            server.begin(iteration)
            for step in server.steps:
                server.compute(step)
                if step.phase == "backward":
                    server.descend(step.place)
        found.append((time.process_time() - began) / TIMED)
    return found


if __name__ == "__main__":
    sys.exit(main())
