"""Telling a person how a run gets on: live bars on a terminal, with what is known so far; elsewhere a line a trial."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from testbed import fidelity
from testbed.analysis.jobs import JOBS, singly
from testbed.analysis.verdicts import SIMULATED, in_short, largest, numbers_of, percent
from testbed.base.check import MACHINE
from testbed.base.columns import wrapped
from testbed.base.listing import counted
from testbed.base.printable import printable
from testbed.base.units import size_text, time_text
from testbed.capacity.advice import advise
from testbed.capacity.cache import known
from testbed.evidence.links import LinkRecord
from testbed.execution.results import attempt_count
from testbed.execution.so_far import SoFar
from testbed.experiment.attempts import IN_A_ROW
from testbed.experiment.duration import Estimate
from testbed.machine import calm
from testbed.spec.model import Until
from testbed.trial.model import Trial
from testbed.workloads.kinds import has_iterations

ASK_S = 1.0
"""Between two looks at what the workers have written: reading takes time of their cores."""


_NOTED = "    noted: "


def sentence(record: Mapping[str, Any]) -> str:
    """One line about a finished trial; of jobs that share a network, one about each."""
    if record.get(JOBS):
        lines = [sentence(one | {"attempts": [], "waited": None}) for one in singly([record])]
        whole = f"{record['id']}: JCT of all jobs {time_text(record['metrics']['jct_s'], measured=True)}, "
        return "\n".join([*lines, whole + in_short([numbers_of(record["fidelity"])]) + _before(record)])
    if record["status"] == "failed":
        first, *rest = str(record["error"]).splitlines()
        return "\n".join([f"{record['id']}: FAILED: {first}", *rest]) + _noted(record.get("not_kept") or ())
    found = record["metrics"]
    if not has_iterations(record):
        line = f"{record['id']}: JCT {time_text(found['jct_s'], measured=True)}, {_carried(record['links'])}, "
    else:
        line = _trained(record)
    slow = record.get("slow_rows")
    noted = [*(record.get("left_out") or ()), *(record.get("not_kept") or ()), *([slow] if slow else [])]
    return line + _verdict(record["fidelity"]) + _before(record) + _noted(noted)


def _noted(lines: Iterable[str]) -> str:
    return "".join(f"\n{_NOTED}{one}" for one in lines)


def _verdict(judged: Mapping[str, Any]) -> str:
    """``VALID``, or which numbers are not, and why; and what failed and is only told."""
    numbers = numbers_of(judged)
    verdict, why, told = in_short([numbers]), fidelity.reasons(judged), fidelity.told(judged)
    said = [why] if why else []
    if told:
        error = largest([number.error for number in numbers.values() if number.certified])
        certified = "" if error is None else f"certified within {percent(error)}; "
        said.append(f"{certified}noted: {told}")
    if verdict == SIMULATED:
        error = numbers["gst"].error
        said.append("error unknown" if error is None else f"GST of this scheme was off by {percent(error)} at most")
    return f"{verdict} ({'; '.join(said)})" if said else verdict


def _before(record: Mapping[str, Any]) -> str:
    """Say how often a trial was measured, where more than once, and for what was waited before."""
    often, waited = attempt_count(record), calm.sentence(record.get("waited"))
    return (f", measured {often} times" if often > 1 else "") + (f"; {waited}" if waited else "")


def _carried(links: Sequence[LinkRecord]) -> str:
    """Say how many bytes were carried, and on which links: a lab of machines does not count those between switches."""
    counted = [count for link in links if (count := link["bytes"]) is not None]
    where = "all links" if len(counted) == len(links) else "the links that are counted"
    return f"{size_text(sum(counted))} on {where}"


def _trained(record: Mapping[str, Any]) -> str:
    found = record["metrics"]
    over = "" if found["gst_ratio"] is None else f" ({found['gst_ratio']:.3f} of its bound)"
    told = [
        f"{record['id']}: GST {time_text(found['gst_median_s'], measured=True)}{over}",
        f"JCT {time_text(found['jct_s'], measured=True)}{_set_up(found)}",
        *([] if found["throughput_sps"] is None else [f"{found['throughput_sps']:.0f} samples/s"]),
        *_learnt(record),
    ]
    return f"{', '.join(told)}, {_survived(record)}"


def _set_up(found: Mapping[str, float | None]) -> str:
    """Say how long a script took before JCT begins."""
    setup_s = found.get("setup_s")
    return "" if setup_s is None else f" after {time_text(setup_s, measured=True)} of set-up"


def _survived(record: Mapping[str, Any]) -> str:
    """Say who died in a trial, and how long that took the others."""
    failover = record.get("failover") or {}
    lost = ", ".join(one["node"] for one in failover.get("losses", ()))
    told = [f"the others went on without {lost}"] if lost else []
    told += [
        f"without {', '.join(one['without'])} from iteration {one['first']} on"
        + (f" (after {time_text(one['recovered_s'], measured=True)})" if one["recovered_s"] is not None else "")
        for one in failover.get("recoveries", ())
        if one["without"]
    ]
    return "".join(f"{one}, " for one in told)


def _learnt(record: Mapping[str, Any]) -> list[str]:
    """Say what the gradients were good for: the loss they lowered, or sums that were checked; nothing of a script that
    tells no loss."""
    if record["loss"]:
        return [f"loss {record['loss'][0]:.2f} to {record['loss'][1]:.2f}"]
    return [f"{record['sums']['checked_elements']:,} elements of sums right"] if record["sums"] else []


def first_line(trials: Sequence[Trial], advice: str = "") -> str:
    """Say how much there is to do, and ``advice`` below it, if there is any."""
    count, about = len(trials), time_text(round(Estimate().left_s(trials)))
    spec = trials[0].spec if trials else None
    more = f"; {spec.without_repeats}" if spec and spec.without_repeats else ""
    if spec and isinstance(repeats := spec.repeats, Until) and not more:
        more = f"; then more until intervals are within ±{100 * repeats.until:g} %, at most {repeats.most} of each"
    if not trials:
        return "nothing is left to run"
    return f"{counted(count, 'trial')} to run, about {about}{more}" + (f"\n{advice}" if advice else "")


class Lines:
    """A plain line about what is to come, and one for each finished trial."""

    def __init__(self, trials: Sequence[Trial], console: Console, advice: str = "") -> None:
        self._console, self._advice = console, advice
        self._left = {trial.id: trial for trial in trials}
        self._numbers: dict[str, int] = {}  # of trials that were measured, in the order of their first attempts
        self._count = len(trials)
        self._may_grow = bool(trials) and isinstance(trials[0].spec.repeats, Until)
        self._estimate = Estimate()

    def __enter__(self) -> Lines:
        self._print(first_line(list(self._left.values()), self._advice))
        return self

    def __exit__(self, *exception: object) -> None:
        pass

    def waiting(self, what: str) -> None:
        """Tell that nothing runs meanwhile."""

    def started(self, trial: Trial, again: str = "") -> None:  # Live's shows it
        """``again`` says how often it was measured, where it is not the first time."""

    def advanced(self, iterations: int, so_far: SoFar | None = None) -> None:
        """The trial has done so many iterations; ``so_far`` can be asked for more."""

    def added(self, trials: Sequence[Trial]) -> None:
        """More turned out to be needed; :func:`first_line` has said so where the spec asks for it."""
        if trials and not isinstance(trials[0].spec.repeats, Until):
            self._print(f"{counted(len(trials), 'more trial')} to run: too few are VALID to decide")
        self._left |= {trial.id: trial for trial in trials}
        self._count += len(trials)

    def finished(self, record: Mapping[str, Any], again: bool = False) -> None:
        """``again`` says that it will be measured again. A trial keeps its number in each attempt."""
        trial = self._left[record["id"]]
        if record["status"] == "done":
            self._estimate.learn(trial, record["duration_s"])
        if not again:
            del self._left[trial.id]
        is_repeated = trial.id in self._numbers
        number = self._numbers.setdefault(trial.id, len(self._numbers) + 1)
        of = f"{self._of(number)}{', again' if is_repeated else ''}"
        lines = f"[{of}] {sentence(record)}".split("\n")
        if again:
            last = max(i for i, line in enumerate(lines) if not line.startswith(_NOTED))
            lines[last] += "; will be measured again"
        self._print("\n".join(lines))

    def _of(self, number: int) -> str:
        """``3/8``, or, if more can be needed, ``3 of at least 8``."""
        return f"{number} of at least {self._count}" if self._may_grow else f"{number}/{self._count}"

    def tell(self, what: str) -> None:
        """Print a line that is about no single trial."""
        self._print(what)

    def lost(self, trials: Sequence[Trial], why: str) -> None:
        """Tell ``why`` trials run again that were finished, if any was."""
        self._left |= {trial.id: trial for trial in trials}
        self._print(why)

    def gave_up(self, cause: str) -> None:
        """Tell that nothing is measured again any more: attempt after attempt failed for this ``cause``, a check's
        name."""
        remedy = next((about.remedy for about in fidelity.abouts() if about.name == cause), "")
        self._print(
            f"{IN_A_ROW} trials in a row are INVALID because of {cause}: nothing is measured again any more\n"
            f"  fix: {remedy or MACHINE}; then testbed run --resume, or testbed run if you change the spec"
        )

    def _print(self, text: str) -> None:
        told = printable(text)
        if _on_terminal(self._console):
            told = wrapped(told, self._console.width)
        self._console.print(told, markup=False, highlight=False, soft_wrap=True)


class Live(Lines):
    """Display of the same lines, and below them two bars: the trial's, with what is known of it so far, and that of all
    trials, with the time that is left."""

    def __init__(self, trials: Sequence[Trial], console: Console, advice: str = "") -> None:
        super().__init__(trials, console, advice)
        self._trial: Trial | None = None
        self._known, self._asked_s = "", 0.0
        self._spent_s = 0.0
        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=min(30, console.width // 8)),
            TextColumn("{task.fields[told]}"),
            TimeElapsedColumn(),
            console=console,
            transient=True,
        )
        self._one = self._bars.add_task("", told="", visible=False)
        self._all = self._bars.add_task("", total=self._estimate.left_s(trials), told="")

    def __enter__(self) -> Live:
        super().__enter__()
        self._bars.start()
        return self

    def __exit__(self, *exception: object) -> None:
        with suppress(OSError):  # the terminal may be gone
            self._bars.stop()

    def waiting(self, what: str) -> None:
        self._bars.update(self._one, visible=False)
        self._bars.update(self._all, description=what)

    def started(self, trial: Trial, again: str = "") -> None:
        super().started(trial, again)
        self._trial, self._known = trial, ""
        title = f"{trial.id}, {again}" if again else trial.id
        self._bars.reset(self._one, description=title, total=trial.iterations or None, told="", visible=True)
        self.advanced(0)

    def advanced(self, iterations: int, so_far: SoFar | None = None) -> None:
        if self._trial is None:
            return
        total = self._trial.iterations or 1
        iterations = min(iterations, total)  # a fast worker that waits for nobody does more
        far = f"{iterations}/{total}" if self._trial.iterations else ""
        told = ", ".join(filter(None, [far, self._told(so_far)]))
        self._bars.update(self._one, completed=iterations, told=told)
        done_s = self._estimate.of(self._trial) * iterations / total
        left_s = max(0.0, self._estimate.left_s(self._left.values()) - done_s)
        least = "at least " if self._may_grow else ""
        self._bars.update(
            self._all,
            total=self._spent_s + done_s + left_s,
            completed=self._spent_s + done_s,
            description=f"{self._count - len(self._left)} of {least}{counted(self._count, 'trial')}",
            told=f"about {time_text(round(left_s))} left",
        )

    def _told(self, so_far: SoFar | None) -> str:
        """Median GST and the links so far; read again at most every :data:`ASK_S`."""
        now_s = time.monotonic()
        if so_far is not None and now_s - self._asked_s >= ASK_S:
            gst_s = so_far.gst_s()
            gst = "" if gst_s is None else f"GST {time_text(gst_s, measured=True)}"
            self._known, self._asked_s = ", ".join(filter(None, [gst, so_far.links()])), now_s
        return self._known

    def finished(self, record: Mapping[str, Any], again: bool = False) -> None:
        self._spent_s += record.get("duration_s") or 0.0
        self._bars.update(self._one, visible=False)
        super().finished(record, again)


def reporter(trials: Sequence[Trial], console: Console) -> Lines:
    """Live on a terminal, else plain lines. What this machine is known to carry without doubt is not mentioned,
    nor that nothing can be predicted."""
    can_redraw = _on_terminal(console) and not console.is_dumb_terminal
    advice = advise(trials, known())
    told = advice.text if advice.warns or not (advice.asked or advice.never) else ""
    return (Live if can_redraw else Lines)(trials, console, told)


def _on_terminal(console: Console) -> bool:
    """Whether lines can be drawn again. Rich says so of a file, too, if FORCE_COLOR is set, as kernels of notebooks and
    many CI services do; it says no of a terminal whose user asked for that."""
    return console.is_terminal and console.file.isatty()
