"""Machines that an engine reaches. Each has said what it is before anything is sent to it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any

from testbed.base.errors import HostError, SpecError, UsageError, from_json
from testbed.base.listing import counted, shortened
from testbed.experiment.fit import fit
from testbed.spec import Source, Spec
from testbed.spread import block
from testbed.spread.engine import Engine
from testbed.trial.model import Trial

ANSWER_S = 120.0
"""Seconds for a machine's answer. The first call imports PyTorch."""
TOLD = 3


@dataclass
class Machines:
    """Machines that may run blocks of trials of a lab, and why others may not.

    Attributes:
        answers: what each said of itself (:func:`testbed.spread.block.answer`).
        left_out: those that cannot have the lab, and why.
    """

    engine: Engine
    lab: str
    answers: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    _asked: dict[str, Future[Any]] = field(default_factory=dict)

    def ask(self) -> None:
        """Ask all that are there, and wait for what they answer.

        Raises:
            HostError: one has another version of testbed, or none is left that can have the lab.
        """
        self._ask_new()
        block.digest()  # it is kept, and machines compute theirs meanwhile
        fixes = [self._take(one) for one in list(self._asked)]
        if not self.answers:
            told = shortened([f"{one}: {why}" for one, why in self.left_out.items()], TOLD, "; ")
            problem = f"none of {counted(len(self.left_out), 'machine')} can have the lab {self.lab}"
            fix = next((fix for fix in fixes if fix), "see why, and start workers there")
            raise HostError(f"{problem}: {told or 'there is none'}", fix=fix)

    def look(self) -> list[str]:
        """Ask those that came since, and take what has been answered, without waiting: blocks run meanwhile. Return
        lines that say which have joined, and which are left out."""
        self._ask_new()
        lines = []
        for one in [name for name, future in self._asked.items() if future.done()]:
            try:
                self._take(one)
            except HostError as error:
                self.left_out[one] = error.problem
            lines.append(self._line(one))
        return lines

    def _ask_new(self) -> None:
        known = self.answers.keys() | self.left_out.keys() | self._asked.keys()
        for one in self.engine.workers():
            if one not in known:
                self._asked[one] = self.engine.send(one, block.answer, self.lab)

    def _take(self, one: str) -> str | None:
        """Take what a machine answers; return what would help if it cannot have the lab.

        Raises:
            HostError: it has another version of testbed.
        """
        answer, why = _result(self._asked.pop(one))
        if answer is None:
            self.left_out[one] = why
            return None
        _check_version(one, answer)
        if not answer["error"]:
            self.answers[one] = answer
            return None
        error = from_json(answer["error"])
        self.left_out[one] = error.problem
        return error.fix

    def prepare(self) -> None:
        """Have machines start the processes of their blocks now, which import while trials are planned here. Of
        workers on this machine, only as many do so as it has cores: there may be fewer blocks than workers."""
        most = os.cpu_count() if self.engine.holds_machine else None
        for machine in self.there[:most]:
            self.engine.send(machine, block.prepare)

    @property
    def there(self) -> list[str]:
        """Machines that are there now, and may run blocks."""
        return [one for one in self.engine.workers() if one in self.answers]

    def settled(self, source: Source) -> Source:
        """Replace ``scale: fit`` by the scale that the least of the machines carries.

        Raises:
            SpecError: one machine's capacity is not known, or no scale fits.
            UsageError: a pace is to fit, which each machine would measure differently.
            HostError: a machine does not say what it carries.
        """
        if source.wants_pace:
            problem = "--on: each machine would fit another pace, and their trials would be of different experiments"
            raise UsageError(problem, fix="give times in place of pace: fit")
        if not source.wants_fit:
            return source
        asked = {name: self.engine.send(name, block.capacity) for name in self.answers}
        return max((_fitted(source, *of) for of in asked.items()), key=lambda fitted: fitted.fitted or 0.0)

    def lines(self) -> list[str]:
        """Say which there are, and which are left out."""
        return [self._line(one) for one in (*self.answers, *self.left_out)]

    def _line(self, one: str) -> str:
        if one in self.left_out:
            return f"{one} is left out: {self.left_out[one]}"
        answer = self.answers[one]
        return f"{one}: {answer['host']}, {answer['cores']:g} cores, {answer['cpu']}, Linux {answer['kernel']}"

    def require(self, trial: Trial) -> None:
        """Hold a trial's network against the lab's limits. Labs are asked where they are."""
        trial.spec.place.limits.check(trial.topology)

    def close(self) -> None:
        """Let the machines go."""
        self.engine.close()


def _result(future: Future[Any]) -> tuple[Any, str]:
    """Return a task's answer; or None, and why there is none."""
    try:
        return future.result(ANSWER_S), ""
    except TimeoutError:
        future.cancel()
        return None, f"no answer within {ANSWER_S:g} s"
    except Exception as error:  # whatever it is, the machine cannot be used
        return None, f"{type(error).__name__}: {error!s:.200}".rstrip(": ")


def _fitted(source: Source, name: str, future: Future[Any]) -> Source:
    """
    Raises:
        SpecError: as :func:`testbed.experiment.fit.fit`; the machine is named. HostError: it does not answer.
    """
    known, why = _result(future)
    if known is None:
        raise HostError(f"{name} does not say what it carries: {why}", fix="see why, or give a number as the scale")
    try:
        return fit(source, known)
    except SpecError as error:
        raise SpecError(f"{name}: {error.problem}", fix=error.fix) from None


def _check_version(name: str, answer: Mapping[str, Any]) -> None:
    """
    Raises:
        HostError: its testbed is another one.
    """
    theirs, ours = (answer["version"], answer["digest"]), (version("testbed"), block.digest())
    if theirs != ours:
        told = "worker {} has testbed {} ({}), here is {} ({})".format(name, *theirs, *ours)
        raise HostError(told, fix="install the same version on all machines")


def opened(open_engine: Callable[[], Engine], spec: Spec) -> Machines:
    """Reach the machines for a spec's lab, and ask them.

    Raises:
        UsageError: the lab's machines are others. HostError, MissingToolError: as :meth:`Machines.ask`, or the engine
            cannot be had.
    """
    if spec.place.takes_inventory:
        problem = f"--on and the lab {spec.lab} exclude each other: that lab has machines of its own"
        raise UsageError(problem, fix="leave out one of the two")
    machines = Machines(open_engine(), spec.lab)
    try:
        machines.ask()
        machines.prepare()
    except BaseException:
        machines.close()
        raise
    return machines
