"""Telling a person how a run gets on: a live line with time left on a terminal, one plain line a trial elsewhere."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from testbed import fidelity
from testbed.capacity.advice import advise
from testbed.capacity.cache import known
from testbed.estimate import Estimate
from testbed.spec.model import Until
from testbed.trial import Trial
from testbed.units import size_text, time_text


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


def first_line(trials: Sequence[Trial], advice: str = "") -> str:
    """How much there is to do, and ``advice`` below it, if there is any."""
    count, about = len(trials), time_text(round(Estimate().left_s(trials)))
    repeats = trials[0].spec.repeats if trials else None
    more = ""
    if isinstance(repeats, Until):
        more = f"; then more until intervals are within ±{100 * repeats.until:g} %, at most {repeats.most} of each"
    if not trials:
        return "nothing is left to run"
    return f"{count} trial{'' if count == 1 else 's'} to run, about {about}{more}" + (f"\n{advice}" if advice else "")


class Lines:
    """A plain line about what is to come, and one for each finished trial."""

    def __init__(self, trials: Sequence[Trial], console: Console, advice: str = "") -> None:
        self._console, self._done, self._advice = console, 0, advice
        self._left = {trial.id: trial for trial in trials}
        self._count = len(trials)
        self._estimate = Estimate()

    def __enter__(self) -> Lines:
        self._print(first_line(list(self._left.values()), self._advice))
        return self

    def __exit__(self, *exception: object) -> None:
        pass

    def started(self, trial: Trial) -> None:  # noqa: ARG002  # Live's shows it
        self._began_s = time.monotonic()

    def advanced(self, iterations: int) -> None:
        pass

    def added(self, trials: Sequence[Trial]) -> None:
        """More turned out to be needed."""
        self._left |= {trial.id: trial for trial in trials}
        self._count += len(trials)

    def finished(self, record: Mapping[str, Any]) -> None:
        trial = self._left.pop(record["id"])
        if record["status"] == "done":
            self._estimate.learn(trial, time.monotonic() - self._began_s)
        self._done += 1
        self._print(f"[{self._done}/{self._count}] {sentence(record)}")

    def _print(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)


class Live(Lines):
    """The same lines, and below them a bar that moves with the iterations and says how much time is left."""

    def __init__(self, trials: Sequence[Trial], console: Console, advice: str = "") -> None:
        super().__init__(trials, console, advice)
        self._trial: Trial | None = None
        self._spent_s = 0.0
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[left]}"),
            TimeElapsedColumn(),
            console=console,
            transient=True,
        )
        self._task = self._bar.add_task("", total=self._estimate.left_s(trials), left="")

    def __enter__(self) -> Live:
        super().__enter__()
        self._bar.start()
        return self

    def __exit__(self, *exception: object) -> None:
        with suppress(OSError):  # the terminal may be gone
            self._bar.stop()

    def started(self, trial: Trial) -> None:
        super().started(trial)
        self._trial = trial
        self.advanced(0)

    def advanced(self, iterations: int) -> None:
        if self._trial is None:
            return
        total = self._trial.iterations or 1
        iterations = min(iterations, total)  # a fast worker of an asynchronous scheme does more
        done_s = self._estimate.of(self._trial) * iterations / total
        left_s = max(0.0, self._estimate.left_s(self._left.values()) - done_s)
        self._bar.update(
            self._task,
            total=self._spent_s + done_s + left_s,
            completed=self._spent_s + done_s,
            description=self._trial.id + (f" {iterations}/{total}" if self._trial.iterations else ""),
            left=f"about {time_text(round(left_s))} left",
        )

    def finished(self, record: Mapping[str, Any]) -> None:
        self._spent_s += time.monotonic() - self._began_s
        super().finished(record)


def reporter(trials: Sequence[Trial], console: Console) -> Lines:
    """Live on a terminal, else plain lines. What this machine is known to carry without doubt is not mentioned."""
    can_redraw = console.is_terminal and not console.is_dumb_terminal
    advice = advise(trials, known())
    told = advice.text if advice.warns or not advice.asked else ""
    return (Live if can_redraw else Lines)(trials, console, told)
