"""Controllers, the thread that asks them, and those that kinds of trial declare: ours, and those that installed
packages add, by name.

A kind names them (:attr:`testbed.workloads.kinds.parts.Control`), and they are looked up here: a kind is also loaded on
the hosts, and knows nothing of what runs a trial.
"""

from __future__ import annotations

import math
import time
import traceback
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast

from testbed.base.errors import MissingToolError, TestbedError, TrialError
from testbed.base.plugins import plugged
from testbed.base.repeating import Repeating
from testbed.base.urgency import urgent
from testbed.control.feed import Feed
from testbed.lab.base import Lab
from testbed.trial.phases import Cause, Change, replanned
from testbed.workloads.kinds.base import AnyKind

if TYPE_CHECKING:
    from testbed.control.conductor import Record
    from testbed.perturb.events import Event
    from testbed.trial.files import Files
    from testbed.trial.job import Job
    from testbed.trial.model import Trial
    from testbed.workloads.plan import Plan

GROUP = "controllers"
"""Group of entry points, see :mod:`testbed.base.plugins`."""
BUILT_IN = {
    "autotune": ("testbed.control.autotune", "Autotune"),
    "network_monitor": ("testbed.control.network_monitor", "NetworkMonitor"),
}
"""Controllers that come with testbed, by name: the module, and the name of what makes the controller there."""


class Controller(Protocol):
    """A controller: acts on a trial while it runs. One that has something to begin and to end is a context manager,
    too.

    Attributes:
        is_urgent: whether it does something to the trial at a moment that was asked for, so that it comes before the
            trial's own processes while it looks (:mod:`testbed.base.urgency`).
    """

    is_urgent: bool

    def look(self, feed: Feed) -> float:
        """Do what is due now; return the seconds until it wants to be asked again, or ``math.inf`` for never.

        The thread that waits for a trial's processes asks sooner. In the thread beside, all controllers take turns, and
        events must not be late: what may take more than a few milliseconds belongs into a thread of the controller's.

        Raises:
            TestbedError: the trial cannot go on.
        """


class Beside:
    """Thread beside the one that waits: it asks each controller when that one wants it. Use in ``with``, within those
    of the controllers, from before the processes start until they have ended.

    A controller that fails ends the trial: the waiting thread raises its error (:meth:`Feed.check`).
    """

    def __init__(self, feed: Feed, controllers: Sequence[Controller]) -> None:
        self._feed, self._controllers = feed, controllers
        self._thread = Repeating("controllers", self._run())

    def __enter__(self) -> Beside:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Raises TrialError: a controller failed, and nothing else did."""
        self._thread.close()
        if error is None:
            self._feed.check()

    # The thread.

    def _run(self) -> Generator[float, None, None]:
        """Ask controllers again and again; yield how long to wait (s)."""
        due_s = [0.0 for _ in self._controllers]
        while (next_s := min(due_s, default=math.inf)) < math.inf:
            yield max(0.0, next_s - time.monotonic())
            for i, controller in enumerate(self._controllers):
                if due_s[i] <= time.monotonic():
                    try:
                        with urgent() if controller.is_urgent else nullcontext():
                            due_s[i] = time.monotonic() + _wait_s(controller.look(self._feed))
                    except Exception as error:  # whatever it is, the trial is not controlled any more
                        self._feed.fail(failure(type(controller).__name__, error))
                        return


def _wait_s(told: float) -> float:
    """Raises ValueError: a controller's answer is no time."""
    if not isinstance(told, int | float) or math.isnan(told):
        raise ValueError(f"look() gave {told!r}, which is no number of seconds")
    return told


def failure(name: str, error: Exception) -> TrialError:
    """Make the error that ends a trial because of one that a controller raised."""
    if isinstance(error, TrialError):
        return error
    if isinstance(error, TestbedError):
        return TrialError(f"the controller {name} failed: {error.problem}", fix=error.fix)
    *_, last = traceback.extract_tb(error.__traceback__)
    where = f"{Path(last.filename).name}, line {last.lineno}"
    return TrialError(
        f"the controller {name} failed: {type(error).__name__}: {error!s:.200} ({where})",
        fix="mend it, then run the trial again",
    )


@dataclass(frozen=True)
class Context:
    """Access of a kind's controller to its trial.

    Attributes:
        files: where the trial's processes read and write.
        act: carries an event out now, and puts it into the trial's record. Call it in :meth:`Controller.look`.
        records: the events that were begun by now, in order; it grows.
        changes: by job, the changes of its plan by now; it grows (:meth:`replan`).
        tuning: by job, steps that tuned its plan, as the record has them; it grows.
    """

    trial: Trial
    lab: Lab
    files: Files
    act: Callable[[Event, Feed], None]
    records: Sequence[Record] = field(default_factory=list)
    changes: dict[str, list[Change]] = field(default_factory=dict)
    tuning: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def replan(self, job: Job, first: int, plan: Plan, cause: Cause) -> None:
        """Note that a job's processes follow another plan from iteration ``first`` on. Bounds, byte checks and the
        verdict follow the plans.

        Raises:
            SchemeError: the plan does not do what it is for.
            TrialError: another controller replans the job, when nodes die; or the job has no such iteration.
        """
        if not 0 <= first <= job.iterations:
            raise TrialError(
                f"a controller switches the plan at iteration {first}", fix=f"let it name one of 0 to {job.iterations}"
            )
        if job.goes_on:
            raise TrialError(
                f"scheme {job.plan.scheme} goes on with other plans when nodes die, and takes none of a controller",
                fix="take a scheme that ends with its nodes",
            )
        change = Change(first, replanned(job, plan), cause)
        self.changes.setdefault(job.name, []).append(change)


Make: TypeAlias = Callable[[Context], Controller]


def of_kind(kind: AnyKind) -> Mapping[str, Make]:
    """Makers of the controllers that trials of this kind have, by name.

    Raises:
        MissingToolError: no installed package adds one of that name, or it cannot be imported.
        UsageError: two packages add one of that name.
    """
    known = plugged(GROUP) if set(kind.control.controllers) - BUILT_IN.keys() else {}
    for name in kind.control.controllers:
        if name not in known and name not in BUILT_IN:
            raise MissingToolError(
                f"the kind of trial {kind.name} needs the controller {name!r}, and no installed package adds it",
                fix="install the package that adds it to testbed." + GROUP,
            )
    return {name: cast(Make, _ours(name) if name in BUILT_IN else known[name]) for name in kind.control.controllers}


def _ours(name: str) -> object:
    module, made_by = BUILT_IN[name]
    return getattr(import_module(module), made_by)  # only now: it imports this module


@contextmanager
def begun(kinds: Sequence[AnyKind], context: Context) -> Iterator[Sequence[Controller]]:
    """Begin each controller of a trial whose jobs are of these kinds, once.

    Raises:
        TrialError: one cannot be made or begun.
    """
    with ExitStack() as stack:
        found = []
        for name, make in {name: make for kind in kinds for name, make in of_kind(kind).items()}.items():
            try:
                found.append(make(context))
                if isinstance(found[-1], AbstractContextManager):
                    stack.enter_context(found[-1])
            except Exception as error:
                raise failure(name, error) from error
        yield found
