"""Reproduction of a paper's claims, measured and decided: the runs behind them, and what is told of each.

Runs go into folders of one directory, named after their spec and mode, and are ordinary run directories: trials that
are finished there are not run again, unless they are INVALID only because of the machine, and so decide nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from shlex import quote
from typing import Any

import numpy as np

from testbed.analysis.load import load
from testbed.analysis.papers.claim import Claim, Experiment, Finding, Paper, Row, Verdict, number, stated
from testbed.analysis.papers.durations import DURATIONS_S
from testbed.analysis.recorded import Run
from testbed.base import exits
from testbed.base.errors import MissingToolError, OutputError
from testbed.base.python import PACKAGE
from testbed.base.units import rate_text
from testbed.capacity.cache import known
from testbed.experiment.fit import enlarged
from testbed.experiment.run import Announce
from testbed.experiment.run import Experiment as Running
from testbed.files.writing import named_errors, temporaries
from testbed.run_directory.layout import MADE
from testbed.run_directory.resolved import chosen, fitted_scale, resolved
from testbed.run_directory.stored import made
from testbed.spec import Source
from testbed.spec import load as load_spec
from testbed.trial.model import PATIENCE

EXPERIMENTS = PACKAGE.parent / "experiments"
MODES = {False: "quick", True: "full"}


@dataclass(frozen=True)
class Decided:
    """A claim and its finding."""

    claim: Claim
    finding: Finding

    @property
    def failed(self) -> bool:
        """Whether the claim fails here."""
        return self.finding.verdict == Verdict.FAILS


def experiments(claims: Sequence[Claim], full: bool) -> list[Experiment]:
    """Experiments that the claims need in a mode, each once."""
    needed = dict.fromkeys(one for claim in claims for one in claim.experiments)
    return [one for one in needed if one.settings(full) is not None]


def source(experiment: Experiment, full: bool, overrides: Sequence[str] = ()) -> Source:
    """Read the spec of an experiment in a mode, changed by ``overrides``.

    Raises:
        MissingToolError: the specs are not installed.
    """
    path = EXPERIMENTS / experiment.spec
    if not path.is_file():
        raise MissingToolError(
            f"there is no {experiment.spec} in {EXPERIMENTS}", fix="install testbed from its source tree"
        )
    return load_spec(path, [*(experiment.settings(full) or ()), *overrides])


def folder(out: Path, experiment: Experiment, full: bool) -> Path:
    """Folder of the runs of an experiment: ``OUT/bml-lenet5-quick``."""
    return out / f"{Path(experiment.spec).with_suffix('').as_posix().replace('/', '-')}-{MODES[full]}"


def refuse_others(out: Path, papers: Iterable[Paper]) -> None:
    """
    Raises:
        OutputError: ``out`` holds something, and no run or page of a paper's.
    """
    with named_errors(out):
        there = {path.name for path in out.iterdir()} if out.is_dir() else set()
    ours = _names(papers)
    if there and not any(fnmatchcase(name, one) for name in there for one in ours):
        problem = f"{out}: is not empty, and testbed reproduce did not make it"
        raise OutputError(problem, fix="name a new directory with --out")


def _names(papers: Iterable[Paper]) -> set[str]:
    """Patterns of the names of papers' folders and pages."""
    names = set()
    for paper in papers:
        ran = {one for claim in paper.claims for one in claim.experiments}
        names |= {folder(Path(), one, full).name for one in ran for full in MODES}
        pages = {f"{one}.html" for one in (paper.name, *(claim.name for claim in paper.claims))}
        names |= pages | {temporaries(page) for page in pages}
    return names


def expected_s(claims: Sequence[Claim], full: bool) -> float:
    """Guess how long measuring and deciding claims takes from the beginning (s)."""
    measured_s = sum(DURATIONS_S[one.spec][full] or 0.0 for one in experiments(claims, full))
    return measured_s + sum(claim.computes_s for claim in claims)


def measure(experiment: Experiment, out: Path, full: bool, announce: Announce, overrides: Sequence[str] = ()) -> bool:
    """Run what is not finished yet, and measure again what is INVALID only because of the machine, which may do better
    now; return whether every trial could be run. ``overrides`` are of the lab, and of settings on which no result
    depends.

    Raises:
        OutputError: its directory is of other settings.
        TestbedError: as :class:`testbed.experiment.run.Experiment` does.
    """
    path = folder(out, experiment, full)
    began = (path / MADE).is_file()
    asked = source(experiment, full, overrides)
    asked = as_began(path, asked) if began else enlarged(asked, known())
    if began and not _is_of(path, asked):
        raise OutputError(
            f"{path} was run with other settings than {experiment.spec} has now",
            fix=f"name another --out, or remove {quote(str(path))}",
        )
    running = Running.resumed(path, asked, afresh=True) if began else Running.new(asked, path)
    with running:
        return not running.go(announce).failed


def as_began(path: Path, asked: Source) -> Source:
    """Add to a spec what was chosen when its run in ``path`` began: a scale for this machine, and what was found."""
    return asked.as_chosen(chosen(made(path)))


def scales(claims: Sequence[Claim], out: Path, full: bool) -> dict[str, str]:
    """Sentences, by spec, on each run in ``out`` that has another scale than is written."""
    found = {}
    for one in experiments(claims, full):
        path, written = folder(out, one, full), source(one, full).spec
        fitted = fitted_scale(made(path)) if (path / MADE).is_file() else None
        if fitted is not None and written.workload.takes_scale:
            rate_bps = max(rate for arm in written.arms for rate in written.rates_bps(arm).values()) / fitted
            found[one.spec] = (
                f"Its scale was {fitted:g}, and not {written.workload.scale:g} as written: this machine would not have "
                f"carried its links, and carries them at {rate_text(rate_bps)}. Gradients and rates are smaller alike, "
                "so times stay."
            )
    return found


def _is_of(path: Path, asked: Source) -> bool:
    """Whether a run has all the settings that are asked for, but for its patience."""
    wanted: dict[str, Any] = json.loads(json.dumps(resolved(asked)))
    there = made(path)
    return all(there.get(key) == value for key, value in wanted.items() if key not in {"overrides", *PATIENCE})


def runs(claims: Sequence[Claim], out: Path, full: bool) -> dict[str, Run]:
    """Runs that are in ``out``, by spec.

    Raises:
        OutputError: one of them is damaged.
    """
    found = {one.spec: folder(out, one, full) for one in experiments(claims, full)}
    return {spec: load(path) for spec, path in found.items() if (path / MADE).is_file()}


def decide(claims: Sequence[Claim], found: Mapping[str, Run], full: bool = False) -> list[Decided]:
    """Decide each claim."""
    return [
        Decided(claim, (claim.decide_full if full and claim.decide_full else claim.decide)(found)) for claim in claims
    ]


def exit_code(decided: Sequence[Decided], all_ran: bool) -> int:
    """Exit code: 0 where every claim that was decided holds; 1 where one fails here, or a trial did; 4 where none was
    decided."""
    if not all_ran or any(one.failed for one in decided):
        return exits.TRIAL_FAILED
    undecided = all(one.finding.verdict == Verdict.UNDECIDED for one in decided)
    return exits.UNDECIDED if undecided else exits.OK


HEADER = ("claim", "the number shown", "paper", "theory", "here", "95 % interval", "from", "fidelity", "verdict")
LEFT = 2


def summary(decided: Sequence[Decided]) -> list[list[str]]:
    """Rows of a table, one for each claim: its first number stands for it."""
    return [
        [one.claim.name, *texts(one.finding.rows[0]), f"{one.finding.verdict}{_parts(one.finding)}"] for one in decided
    ]


def _parts(finding: Finding) -> str:
    """Say how many of a claim's statements its verdict is about, where not all."""
    alike = sum(check.verdict == finding.verdict for check in finding.checks)
    return "" if alike == len(finding.checks) else f" ({alike} of {len(finding.checks)})"


def texts(row: Row) -> list[str]:
    """Write one number as text: name, paper, theory, here, interval, samples, fidelity."""
    theory = "-" if row.theory is None else number(row.theory, row.unit)
    if row.ours is None:
        return [row.name, stated(row.paper, row.unit), theory, "modelled", "-", "-", "-"]
    found, ours = row.interval, row.ours
    here, between = "-", "-"
    if found is not None:
        here, between = number(found.value, row.unit), stated((found.low, found.high), row.unit)
    several = ours.basis or "-"
    fidelity = ours.fidelity if ours.trials else "-" if ours.samples else "not run"
    return [row.name, stated(row.paper, row.unit), theory, here, between, several, fidelity]


def as_json(one: Decided) -> dict[str, Any]:
    """Describe a claim for a program; what is not known is null."""
    return {
        "claim": one.claim.name,
        "says": one.claim.says,
        "where": one.claim.where,
        "assumes": list(one.claim.assumes),
        "verdict": str(one.finding.verdict),
        "numbers": [_number(row) for row in one.finding.rows],
        "checks": [{"says": c.says, "verdict": str(c.verdict), "why": c.why} for c in one.finding.checks],
        "notes": list(one.finding.notes),
    }


def _number(row: Row) -> dict[str, Any]:
    def finite(value: float | None) -> float | None:
        return float(value) if value is not None and np.isfinite(value) else None

    paper = [finite(limit) for limit in row.paper] if isinstance(row.paper, tuple) else finite(row.paper)
    ours = row.ours
    found = row.interval if ours else None
    return {
        "name": row.name,
        "unit": row.unit,
        "paper": paper,
        "theory": finite(row.theory),
        "here": None if found is None else finite(found.value),
        "low": None if found is None else finite(found.low),
        "high": None if found is None else finite(found.high),
        "samples": list(ours.samples) if ours else [],
        "samples_of": ours.of if ours else "model",
        "valid_trials": ours.valid if ours else None,
        "trials": ours.trials if ours else None,
        "doubts": list(ours.doubts) if ours else [],
    }
