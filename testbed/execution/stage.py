"""Stage between measuring a trial's links and writing its job files: hosts find what its spec leaves open.

Hosts measure (a probe of :data:`.PROBES`), a pure function decides (:mod:`testbed.workloads.finding`), and the plain
settings go through the same checks as written ones. The trial that runs is another value than the planned one; the
record has the identity of that one, of the spec as written.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from testbed.base.errors import SpecError, TrialError
from testbed.execution.probing import PROBES, Measured
from testbed.topologies.load import users_code
from testbed.trial.model import Trial
from testbed.workloads.finding import Decided


def check(trial: Trial, probes: Collection[str] = PROBES.keys()) -> None:
    """
    Raises:
        SpecError: something is to be found by a probe that the place does not have.
    """
    for name, wanted in trial.findings.items():
        if wanted.probe not in probes:
            job = f" {name}" if name else ""
            raise SpecError(
                f"the arm {trial.label}{job} wants hosts to measure {wanted.probe!r}",
                fix=f"let it take {', '.join(probes)}",
            )


def decided(trial: Trial, measure: Callable[[str], Measured]) -> Trial:
    """Return the trial that runs: with plain settings in place of what was to be found.

    Args:
        measure: makes the measurement of that name.

    Raises:
        TrialError: a measurement failed, or what was found cannot run.
    """
    findings = trial.findings
    if not findings:
        return trial
    measured: dict[str, Measured] = {}
    told: list[dict[str, Any]] = []
    for job in trial.jobs:
        if (wanted := findings.get(job.name)) is None:
            continue
        begun_s = time.monotonic()
        if wanted.probe not in measured:
            measured[wanted.probe] = measure(wanted.probe)
        took_s = round(time.monotonic() - begun_s, 6)
        hosts = job.own_slot.hosts
        names = [trial.topology.nodes[host].name for host in hosts]
        data = measured[wanted.probe]
        with _failing(f"nothing was decided for {job.scheme_text}"), users_code("decide failed", SpecError):
            made = wanted.decide(names, data, trial.spec.seed)
            decision = made if isinstance(made, Decided) else Decided(dict(made), {})
        missing = [
            [name, other]
            for place, (name, row) in enumerate(data.items())
            for other, value in zip(list(data)[:place], row, strict=False)
            if value is None
        ]
        found = {"settings": decision.settings, "measured": data, "took_s": took_s, "missing": missing}
        found |= {"search": decision.facts} if decision.facts else {}
        told.append({"job": job.name, "probe": wanted.probe} | found)
    shown = "; ".join(f"{key}: {value}" for entry in told for key, value in entry["settings"].items())
    assert trial.expand is not None  # what expands specs has set it
    with _failing(f"what was found cannot run ({shown})"):
        ran = trial.expand(trial, {entry["job"]: entry["settings"] for entry in told})
        if ran.findings:
            raise SpecError("it leaves something to be found", fix="let it decide for plain settings")
    return replace(ran, found=tuple(told))


@contextmanager
def _failing(problem: str) -> Iterator[None]:
    """Raise errors about what was found as those of the trial: its spec was right.

    Raises:
        TrialError: instead of a SpecError.
    """
    try:
        yield
    except SpecError as error:
        raise TrialError(f"{problem}: {error.problem}", fix=error.fix) from error
