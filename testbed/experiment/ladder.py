"""Ladder that measures what this machine carries: short trials of a few networks at rising rates, until GST is not
certified.

A step is a real trial: a profile in the default lab, scaled so that the links need ``GST_S`` for a GST. The first
network begins at a guess, and every other network at the rate at which the network before ended. The rate rises until a
GST is not certified, or falls until one is. Other busy programs would make the machine look slower than it is. So a
step waits for a calm moment, and a step that missed by little is tried again.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from testbed.base.errors import TrialError
from testbed.capacity.model import Step, certified, in_all_bps, load_of
from testbed.evidence.referee import Referee
from testbed.execution.execute import execute
from testbed.execution.place import InLab
from testbed.experiment.expand import trials
from testbed.experiment.provenance import congestion_control
from testbed.lab.base import Lab
from testbed.lab.choice import DEFAULT, opener
from testbed.machine.calm import Lookout
from testbed.machine.cgroups import limits
from testbed.spec import read
from testbed.trial.model import Trial

ABOUT_S = 35
MODEL, BATCH, MTU = "vgg19", 32, 1500
GST_S = 0.25
"""Seconds of a GST: long enough that, for rings and BML, its beginning and its end take a smaller share than a
certificate allows."""
ITERATIONS = 3
"""Iterations of a step, of which the first is warm-up."""
PACE_S, PACE_S_PER_BYTE = 0.05, 1.2e-9
"""Seconds of computing, fixed and for each byte. Meanwhile a worker makes its values and checks the last sums: 1 ns a
byte on a core."""
STEP = 2**0.5
GUESS_BPS_PER_CORE = 4e9
"""Rate per core, of all its links together, at which the first network begins (bit/s)."""
FASTEST_BPS, LEAST_BPS, MOST_BPS = 20_000_000_000, 100_000_000, 10**12
"""The highest rate of a link, and the lowest and highest of all links together."""
LOST = 1.15
"""Ratio of a GST to its bound from which a step is not tried again."""
PATIENCE_S = 3.0
"""Seconds that a step waits for a calm machine."""


@dataclass(frozen=True)
class Rung:
    """A network of the ladder. The networks differ in bytes, links, chunks and processes."""

    topology: str
    scheme: str
    chunk: str = ""
    """Size of chunks; empty for the size that a workload takes by itself."""

    @property
    def name(self) -> str:
        """Name for people."""
        return f"{self.scheme} on {self.topology}{f', chunks of {self.chunk}' if self.chunk else ''}"


RUNGS = (
    Rung("star(hosts=9)", "ring", "64 KiB"),
    Rung("bcube(n=3,k=2)", "bml", "16 KiB"),
    Rung("star(hosts=4)", "ring", "128 KiB"),
    Rung("fat_tree(k=4)", "ring", "32 KiB"),
)
SPEC = """
name: capacity
links: {{rate: {rate_bps} bit/s, mtu: {mtu}}}
workload:
  kind: profile
  model: {model}
  batch: {batch}
  scale: {scale}
  iterations: {iterations}
  {chunk}
  compute: {{mode: paced, pace: {{{batch}: {pace_s} s}}}}
arms: [{{topology: "{topology}", scheme: "{scheme}"}}]
"""


def climb(tell: Callable[[Step], None], rungs: Sequence[Rung] = RUNGS) -> list[Step]:
    """Measure all steps, and call ``tell`` with each.

    Raises:
        TestbedError: no lab can be had here, or a trial failed.
    """
    steps: list[Step] = []
    guess_bps = GUESS_BPS_PER_CORE * limits().cores
    with (
        tempfile.TemporaryDirectory(prefix="testbed-capacity-") as folder,
        opener(DEFAULT)() as lab,
        Referee() as referee,
    ):
        for rung in rungs:

            def held(wanted_bps: float, rung: Rung = rung) -> bool:
                trial = trial_of(rung, wanted_bps)
                found = step(rung, trial, lab, referee, Path(folder))
                if not found.certified and found.ratio < LOST:
                    again = step(rung, trial, lab, referee, Path(folder))
                    found = again if again.certified else found
                steps.append(found)
                tell(found)
                return found.certified

            guess_bps = frontier_bps(held, guess_bps) or guess_bps
    return steps


def frontier_bps(held: Callable[[float], bool], guess_bps: float, least_bps: float = LEAST_BPS) -> float:
    """Find the highest rate, of all links together, for which ``held`` is true, by steps up or down from a guess. 0 if
    it is false at every rate down to ``least_bps``."""
    at_bps = guess_bps
    if held(at_bps):
        while at_bps < MOST_BPS and held(at_bps * STEP):
            at_bps *= STEP
        return at_bps
    while at_bps > least_bps:
        at_bps /= STEP
        if held(at_bps):
            return at_bps
    return 0.0


def trial_of(rung: Rung, wanted_bps: float, gst_s: float = GST_S) -> Trial:
    """Make a trial of a network whose links together carry ``wanted_bps``, or the most that they can, and whose GST
    takes ``gst_s``."""

    def made(rate_bps: float, scale: float, pace_s: float) -> Trial:
        text = SPEC.format(
            rate_bps=round(rate_bps * scale),
            mtu=MTU,
            model=MODEL,
            batch=BATCH,
            scale=scale,
            iterations=ITERATIONS,
            chunk=f"chunk: {rung.chunk}" if rung.chunk else "",
            pace_s=round(pace_s, 3),
            topology=rung.topology,
            scheme=rung.scheme,
        )
        return trials(read(text, "capacity", Path()))[0]

    probe = made(1e9, 100.0, PACE_S)
    rate_bps = min(FASTEST_BPS, 1e9 * wanted_bps / in_all_bps(probe.job.cost))
    scale = max(1.0, 100.0 * probe.job.gst_theory_s * 1e9 / rate_bps / gst_s)
    gradient_bytes = probe.job.gradient_bytes * 100.0 / scale
    return made(rate_bps, scale, PACE_S + PACE_S_PER_BYTE * gradient_bytes * probe.job.world)


def recorded(trial: Trial, lab: Lab, referee: Referee, folder: Path, patience_s: float = PATIENCE_S) -> dict[str, Any]:
    """Run a trial in a calm moment, if one comes within ``patience_s``, and return its record.

    Raises:
        TrialError: it failed.
    """
    Lookout(patience_s).wait(lambda _: None)
    record = execute(trial, InLab(lab), referee, folder, congestion_control(trial.spec), lambda *_: None).record
    if record["status"] != "done":
        raise TrialError(str(record["error"]).partition("\n  fix: ")[0], fix="see whether testbed doctor finds why")
    return record


def step(rung: Rung, trial: Trial, lab: Lab, referee: Referee, folder: Path) -> Step:
    """Run a trial of a rung, and keep what it shows.

    Raises:
        TrialError: it failed.
    """
    record, load = recorded(trial, lab, referee, folder), load_of(trial)
    assert load is not None, "something is known of every rung"
    found = {check["name"]: check["value"] or 0.0 for check in record["fidelity"]["checks"]}
    idle = min(1.0, found["CPU headroom"] + found["CPU steal"])
    return Step(rung.name, load, certified(record), record["metrics"]["gst_ratio"], idle)
