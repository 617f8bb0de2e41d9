"""A paper's claims, measured here and decided: what ``testbed reproduce`` does.

``choose`` a paper and its claims, ``measure`` what is missing, ``decide`` them, and tell of it (``summary``, ``texts``,
``as_json``); :mod:`testbed.comparison.reproduction` has the parts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from testbed.analysis.papers import PAPERS
from testbed.analysis.papers.claim import Claim, Paper, Verdict
from testbed.analysis.papers.page import render
from testbed.api import capacity
from testbed.api.labs import with_backend
from testbed.base.errors import SpecError, UsageError
from testbed.comparison import reproduction
from testbed.comparison.reproduction import (
    HEADER,
    LEFT,
    MODES,
    Decided,
    as_json,
    exit_code,
    expected_s,
    experiments,
    folder,
    runs,
    scales,
    source,
    summary,
    texts,
)
from testbed.experiment.run import Announce
from testbed.files.writing import named_errors, write_bytes
from testbed.lab.choice import place_of
from testbed.topologies.parameters import did_you_mean

__all__ = [
    "HEADER",
    "LEFT",
    "Verdict",
    "as_json",
    "choose",
    "decide",
    "exit_code",
    "expected_s",
    "know_capacity",
    "listed",
    "listing",
    "measure",
    "refuse_others",
    "summary",
    "texts",
]
Tell = Callable[[str], object]


def choose(paper: str | None, claim: str | None) -> tuple[Paper, Sequence[Claim]]:
    """Choose the paper and its claims that were asked for; a claim may leave out the paper's name.

    Raises:
        UsageError: there is no such paper or claim.
    """
    if paper is None:
        raise UsageError("no PAPER is given", fix=f"name one: {', '.join(PAPERS)}; testbed reproduce --list")
    name, dot, rest = paper.partition(".")
    if dot and claim is None:  # testbed reproduce bml.gst
        paper, claim = name, rest
    paper = next((one.name for one in PAPERS.values() if paper in one.names), paper)
    if paper not in PAPERS:
        raise UsageError(f"there is no paper {paper!r}{did_you_mean(paper, PAPERS)}", fix=f"use {', '.join(PAPERS)}")
    chosen = PAPERS[paper]
    if claim is None:
        return chosen, chosen.claims
    known = {one.name: one for one in chosen.claims}
    short_name = claim.removeprefix(f"{paper}.")
    full_name = claim if claim in known else f"{chosen.names[0]}.{short_name}"
    if full_name not in known:
        short = [one.partition(".")[2] for one in known]
        raise UsageError(
            f"{paper} has no claim {claim!r}{did_you_mean(claim, [*known, *short])}", fix=f"use {', '.join(known)}"
        )
    return chosen, [known[full_name]]


def listed(paper: str | None, claim: str | None) -> list[tuple[Paper, Sequence[Claim]]]:
    """Choose as :func:`choose`, or all papers with all claims where none is named.

    Raises:
        UsageError: as :func:`choose`.
    """
    return [choose(paper, claim)] if paper else [(one, one.claims) for one in PAPERS.values()]


def listing(claims: Sequence[Claim]) -> list[dict[str, Any]]:
    """List the claims, with guesses at how long measuring them takes (s)."""
    keys = ("name", "says", "where")
    return [
        {key: getattr(one, key) for key in keys}
        | {"quick_s": expected_s([one], False), "full_s": expected_s([one], True)}
        for one in claims
    ]


def refuse_others(place: Path) -> None:
    """
    Raises:
        OutputError: something else is there.
    """
    reproduction.refuse_others(place, PAPERS.values())


def know_capacity(claims: Sequence[Claim], full: bool, backend: str | None, tell: Tell) -> str:
    """Measure what this machine carries, where that is not known, and something is to run on it: scales follow from
    it. Return what follows where it carries nothing.

    Raises:
        UsageError: there is no such lab as ``backend``.
    """
    lab = with_backend([], backend)
    if backend is not None:
        place_of(backend)
    if capacity.known().capacity is None and any(
        not source(each, full, lab).spec.place.plays for each in experiments(claims, full)
    ):
        try:
            capacity.measure(tell)
        except capacity.NothingCarriedError as error:
            return f"{error.problem}: scales stay as they are written"
    return ""


def measure(
    claims: Sequence[Claim], out: Path, full: bool, announce: Announce, overrides: Sequence[str], tell: Tell
) -> bool:
    """Run what is missing; return whether all its trials could be run. An experiment that its lab refuses is left out,
    which is told.

    Raises:
        TestbedError: as :func:`testbed.comparison.reproduction.measure`.
    """
    needed = experiments(claims, full)
    all_ran = True
    for n, experiment in enumerate(needed, 1):
        tell(f"{experiment.spec} ({n} of {len(needed)})")
        try:
            all_ran &= reproduction.measure(experiment, out, full, announce, overrides)
        except SpecError as error:
            tell(f"{experiment.spec} is left out: {error.problem}")
    for spec, text in scales(claims, out, full).items():
        tell(f"{spec}: {text}")
    return all_ran


def decide(
    paper: Paper, claims: Sequence[Claim], out: Path, full: bool, backend: str | None
) -> tuple[list[Decided], Path]:
    """Decide the claims; return the findings, and the page that has them.

    Raises:
        OutputError: a run is damaged, or the page cannot be written.
    """
    decided = reproduction.decide(claims, runs(claims, out, full), full)
    page = out / f"{paper.name if len(claims) == len(paper.claims) else claims[0].name}.html"
    with named_errors(page):
        out.mkdir(parents=True, exist_ok=True)
    reports = {one.spec: folder(out, one, full).name for claim in claims for one in claim.experiments}
    mode = MODES[full] if backend is None else f"lab {backend}, {MODES[full]}"
    text = render(paper, [(one.claim, one.finding) for one in decided], mode, reports, scales(claims, out, full))
    write_bytes(page, text.encode())
    return decided, page
