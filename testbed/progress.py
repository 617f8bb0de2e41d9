"""Telling a person how a run gets on: a live line with time left on a terminal, one plain line a trial elsewhere."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from testbed import fidelity
from testbed.trial import Trial
from testbed.units import size_text, time_text

OVERHEAD_S = 5.0
"""Building, starting, probing and checking one trial, until the first trial has shown what it really takes."""
COMMAND_S = 60.0
"""Guess of a command's time."""
UNKNOWN_COMPUTE_S = 0.5
"""Guess of an iteration's computing time where the spec does not set it."""


def expected_s(trial: Trial) -> float:
    """A guess at how long a trial takes, for the time left."""
    if trial.command:
        return COMMAND_S + OVERHEAD_S
    known = trial.jct_theory_s
    if known is not None:
        return known + OVERHEAD_S
    return trial.iterations * (UNKNOWN_COMPUTE_S + trial.gst_theory_s) + OVERHEAD_S


def sentence(record: Mapping[str, Any]) -> str:
    """One line about a finished trial."""
    if record["status"] == "failed":
        first, *rest = str(record["error"]).splitlines()
        return "\n".join([f"{record['id']}: FAILED: {first}", *rest])
    found = record["metrics"]
    if record.get("kind") == "command":
        carried = size_text(sum(link["bytes"] for link in record["links"]))
        line = (
            f"{record['id']}: JCT {time_text(found['jct_s'], measured=True)}, {carried} on all links, "
            f"{record['fidelity']['verdict']}"
        )
    else:
        line = _trained(record)
    why = fidelity.reasons(record["fidelity"])
    return f"{line} ({why})" if why else line


def _trained(record: Mapping[str, Any]) -> str:
    found = record["metrics"]
    return (
        f"{record['id']}: GST {time_text(found['gst_median_s'], measured=True)} ({found['gst_ratio']:.3f} of theory), "
        f"JCT {time_text(found['jct_s'], measured=True)}, {found['throughput_sps']:.0f} samples/s, "
        f"{_learnt(record)}, {_survived(record)}{record['fidelity']['verdict']}"
    )


def _survived(record: Mapping[str, Any]) -> str:
    """Who died in it, and how long that took the others."""
    rounds = (record.get("failover") or {}).get("recoveries", ())
    told = [
        f"without {', '.join(one['without'])} from iteration {one['first']} on"
        + (f" (after {time_text(one['recovered_s'], measured=True)})" if one["recovered_s"] is not None else "")
        for one in rounds
        if one["without"]
    ]
    return "".join(f"{one}, " for one in told)


def _learnt(record: Mapping[str, Any]) -> str:
    """What the gradients were good for: the loss they lowered, or sums that were checked."""
    if record["loss"]:
        return f"loss {record['loss'][0]:.2f} to {record['loss'][1]:.2f}"
    return f"{record['sums']['checked_elements']:,} elements of sums right"


class Lines:
    """A plain line for each finished trial."""

    def __init__(self, trials: Sequence[Trial], console: Console) -> None:
        self._console, self._count, self._done = console, len(trials), 0

    def __enter__(self) -> Lines:
        return self

    def __exit__(self, *exception: object) -> None:
        pass

    def started(self, trial: Trial) -> None:
        pass

    def advanced(self, iterations: int) -> None:
        pass

    def finished(self, record: Mapping[str, Any]) -> None:
        self._done += 1
        text = f"[{self._done}/{self._count}] {sentence(record)}"
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)


class Live(Lines):
    """The same lines, and below them a bar that moves with the iterations and says how much time is left."""

    def __init__(self, trials: Sequence[Trial], console: Console) -> None:
        super().__init__(trials, console)
        self._left = {trial.id: expected_s(trial) for trial in trials}
        self._trial: Trial | None = None
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[left]}"),
            TimeElapsedColumn(),
            console=console,
            transient=True,
        )
        self._task = self._bar.add_task("", total=sum(self._left.values()), left="")

    def __enter__(self) -> Live:
        self._bar.start()
        return self

    def __exit__(self, *exception: object) -> None:
        with suppress(OSError):  # the terminal may be gone
            self._bar.stop()

    def started(self, trial: Trial) -> None:
        self._trial, self._began_s = trial, time.monotonic()
        self.advanced(0)

    def advanced(self, iterations: int) -> None:
        if self._trial is None:
            return
        total = self._trial.iterations or 1
        whole = self._left[self._trial.id]
        left = sum(self._left.values()) - whole * iterations / total
        self._bar.update(
            self._task,
            completed=(self._bar.tasks[0].total or 0) - left,
            description=self._trial.id + (f" {iterations}/{total}" if self._trial.iterations else ""),
            left=f"about {time_text(round(left))} left",
        )

    def finished(self, record: Mapping[str, Any]) -> None:
        """Correct the guess for the trials to come by what this one took."""
        guess = self._left.pop(record["id"])
        took = time.monotonic() - self._began_s
        if record["status"] == "done":
            self._left = {name: left * took / guess for name, left in self._left.items()}
        super().finished(record)


def reporter(trials: Sequence[Trial], console: Console) -> Lines:
    """Live on a terminal, else plain lines."""
    can_redraw = console.is_terminal and not console.is_dumb_terminal
    return Live(trials, console) if can_redraw else Lines(trials, console)
