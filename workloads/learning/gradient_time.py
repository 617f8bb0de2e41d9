"""The process that measures how much processor time gradients take.

Usage: ``python -P -m testbed.workloads.learning.gradient_time PARENT``, with a question on its standard input: a file
to write, and trainings. It writes a JSON list of seconds, one for each training: the median over some iterations of one
worker that is alone, each a gradient and the optimizer's step.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from statistics import median

from testbed.workloads.job import Training
from testbed.workloads.own.prepared import Prepared, ask
from testbed.workloads.process.lifeline import end_with

LEAST_RUNS, MOST_RUNS = 3, 50
ENOUGH_S = 0.5
"""Time (s) after which no more is measured of a training."""


def gradient_times_s(trainings: Sequence[Training], own: Prepared | None) -> list[float]:
    """Return the processor time of a gradient and a step (s), by training; ``own`` is the user's model as it was
    prepared.

    Raises:
        OwnError: the process came to no end of its own.
    """
    with tempfile.TemporaryDirectory(prefix="testbed-") as folder:
        into = Path(folder)
        if own:
            own.place(into / "own")
            trainings = [replace(training, own=own.names(into / "own")) for training in trainings]
        question = {"into": str(into / "times.json"), "trainings": [asdict(training) for training in trainings]}
        ask(
            "testbed.workloads.learning.gradient_time",
            json.dumps(question),
            f"gradients of model {trainings[0].model!r}",
        )
        times_s: list[float] = json.loads((into / "times.json").read_text())
        return times_s


def measured_s(training: Training) -> float:
    """Measure the processor time of a gradient and a step here (s)."""
    from testbed.workloads.learning.training import (  # takes seconds to import; the caller does without
        Replica,
        use_one_thread,
    )

    use_one_thread()
    replica = Replica(training)
    samples = replica.samples(0, 0, 1)

    def spent_s() -> float:
        before_s = time.process_time()
        replica.compute(*samples)
        replica.step(1)
        return time.process_time() - before_s

    spent_s()  # the first one meets new memory
    until_s, times_s = time.monotonic() + ENOUGH_S, [spent_s() for _ in range(LEAST_RUNS)]
    while len(times_s) < MOST_RUNS and time.monotonic() < until_s:
        times_s.append(spent_s())
    return median(times_s)


def main(parent: int) -> None:
    """Answer the question, and end."""
    if not end_with(parent):
        return
    question = json.load(sys.stdin)
    trainings = [Training(**{**asked, "own": tuple(asked["own"])}) for asked in question["trainings"]]
    Path(question["into"]).write_text(json.dumps([measured_s(training) for training in trainings]))


if __name__ == "__main__":
    main(int(sys.argv[1]))
