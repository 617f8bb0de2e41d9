"""A sweep to run with trials that take no time, and to look at what has run."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from testbed.experiment.run import Experiment
from testbed.spec import Source, read
from testbed.trial.model import Trial

from .conftest import SPEC
from .runner import Ran, go, in_memory

SWEEP = SPEC.replace("200 Mbit/s", "[100 Mbit/s, 200 Mbit/s]").replace("hosts=3)", "hosts=2..4)")
SWEEP = SWEEP.replace("star(hosts=2..4), scheme: ps", '"star(hosts=2..4)", scheme: "ps(servers=[1,4])"') + (
    "where: servers <= hosts\nrepeats: 2\n"
)
CELLS = 2 * (3 + 1 + 3)
Made = Callable[..., Ran]


def source(text: str = SWEEP, *overrides: str) -> Source:
    return read(text, "spec.yaml", Path(), overrides)


def records(path: Path) -> dict[str, dict]:
    return {one.stem: json.loads(one.read_text()) for one in (path / "trials").glob("*.json")}


UNTIL = SPEC + "repeats: {until: 5 %, least: 3, most: 6}\n"
NOISE = [1.0, 1.2, 0.8, 1.0, 1.0, 1.0]


def measured(trial: Trial) -> float:
    """PS is the same each time at batch 2; at batch 4 one of its first three is far off, so that more are needed."""
    steady = trial.job.batch == 2 or trial.label == "ring"
    return 1.0 + trial.repeat * 1e-4 if steady else NOISE[trial.repeat]


def parts_of(made_up: Made, spec: Source, folder: Path, count: int) -> list[Path]:
    found = []
    for number in range(1, count + 1):
        made_up(measured)
        found.append(folder / f"machine{number}")
        go(Experiment.new(spec, found[-1], in_memory, (number, count)))
    return found
