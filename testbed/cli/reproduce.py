"""``testbed reproduce``: a paper's claims, measured here and decided."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from testbed.base import exits, interrupt
from testbed.base.columns import columns
from testbed.cli.experiment import Quiet, Retries, patience
from testbed.cli.output import AsJson, print_json

if TYPE_CHECKING:
    from rich.console import Console

    from analysis.papers.claim import Claim, Paper
    from testbed.comparison.reproduction import Decided

PaperName = Annotated[str | None, typer.Argument(metavar="PAPER", help="Such as bml.", show_default=False)]
ClaimName = Annotated[str | None, typer.Argument(metavar="[CLAIM]", help="Such as bml.gst.", show_default=False)]
Full = Annotated[bool, typer.Option("--full", help="As many repeats as a claim deserves, for hours.")]
Listed = Annotated[bool, typer.Option("--list", help="List the claims and how long they take; run nothing.")]
Out = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Where runs and page go; default runs/reproduce-PAPER. Resumes.")
]


def reproduce(
    paper: PaperName = None,
    claim: ClaimName = None,
    full: Full = False,
    listed: Listed = False,
    out: Out = None,
    retries: Retries = None,
    quiet: Quiet = None,
    as_json: AsJson = False,
) -> None:
    """Measure what a paper claims and say whether it holds here.

    Each claim is a row: the paper's value, theory's, ours, and the verdict; a page has the details. Trials that are
    finished in DIR are not run again, unless they are INVALID only because of the machine. The exit code is 0 where all
    that was decided holds, 1 where a claim fails here or a trial did, 4 where nothing could be decided.
    """
    with interrupt.exit_at_once():
        from rich.console import Console

        import_module("testbed.comparison.reproduction")  # a second
    if listed:
        _list(paper, claim, as_json)
        return
    chosen, claims = _choose(paper, claim)
    interrupt.raise_once()
    place = out or Path("runs") / f"reproduce-{chosen.name}"
    _refuse_others(place)
    try:
        console = Console(stderr=as_json)
        _know_capacity(claims, full, console)
        all_ran = _measure(claims, place, full, console, patience(retries, quiet))
        decided, page = _decide(chosen, claims, place, full)
    except KeyboardInterrupt:
        _interrupted(place)
    if as_json:
        from testbed.comparison.reproduction import as_json as told

        print_json({"paper": chosen.name, "full": full, "page": str(page), "claims": [told(one) for one in decided]})
    else:
        _print(decided, detailed=claim is not None)
        print(f"\npage: {page}")
    from testbed.comparison.reproduction import exit_code

    raise typer.Exit(exit_code(decided, all_ran))


def _choose(paper: str | None, claim: str | None) -> tuple[Paper, Sequence[Claim]]:
    """The paper and its claims that were asked for; a claim may leave out the paper's name."""
    from analysis.papers import PAPERS
    from testbed.base.errors import UsageError
    from topologies.parameters import did_you_mean

    if paper is None:
        raise UsageError("no PAPER is given", fix=f"name one: {', '.join(PAPERS)}; testbed reproduce --list")
    name, dot, rest = paper.partition(".")
    if dot and claim is None:  # testbed reproduce bml.gst
        paper, claim = name, rest
    if paper not in PAPERS:
        raise UsageError(f"there is no paper {paper!r}{did_you_mean(paper, PAPERS)}", fix=f"use {', '.join(PAPERS)}")
    chosen = PAPERS[paper]
    if claim is None:
        return chosen, chosen.claims
    known = {one.name: one for one in chosen.claims}
    full_name = claim if claim in known else f"{paper}.{claim}"
    if full_name not in known:
        short = [one.partition(".")[2] for one in known]
        raise UsageError(
            f"{paper} has no claim {claim!r}{did_you_mean(claim, [*known, *short])}", fix=f"use {', '.join(known)}"
        )
    return chosen, [known[full_name]]


def _refuse_others(place: Path) -> None:
    """
    Raises:
        OutputError: something else is there.
    """
    from analysis.papers import PAPERS
    from testbed.comparison.reproduction import refuse_others

    refuse_others(place, PAPERS.values())


def _list(paper: str | None, claim: str | None, as_json: bool) -> None:
    from analysis.papers import PAPERS
    from testbed.base.units import time_text
    from testbed.comparison.reproduction import expected_s

    chosen = [_choose(paper, claim)] if paper else [(one, one.claims) for one in PAPERS.values()]
    listed = [one for _, claims in chosen for one in claims]
    if as_json:
        keys = ("name", "says", "where")
        print_json(
            [
                {key: getattr(one, key) for key in keys}
                | {"quick_s": expected_s([one], False), "full_s": expected_s([one], True)}
                for one in listed
            ]
        )
        return

    def about(claims: Sequence[Claim], full: bool) -> str:
        seconds = expected_s(claims, full)
        return time_text(round(seconds)) if seconds else "-"

    rows = [(one.name, one.where, about([one], False), about([one], True)) for one in listed]
    whole = [one for one, claims in chosen if len(claims) == len(one.claims)]
    rows += [(one.name, "all of it", about(one.claims, False), about(one.claims, True)) for one in whole]
    print(columns(("claim", "where", "quick", "full"), rows, left=2))


def _know_capacity(claims: Sequence[Claim], full: bool, console: Console) -> None:
    """Measure what this machine carries, where that is not known, and something is to run: scales follow from it."""
    from testbed.capacity import cache
    from testbed.capacity.model import NothingCarriedError
    from testbed.cli.capacity import measure
    from testbed.comparison.reproduction import experiments

    if not experiments(claims, full) or cache.known().capacity is not None:
        return
    try:
        measure(lambda line: console.print(line, markup=False, highlight=False, soft_wrap=True))
    except NothingCarriedError as error:
        console.print(f"{error.problem}: scales stay as they are written", markup=False, highlight=False)


def _measure(claims: Sequence[Claim], out: Path, full: bool, console: Console, overrides: Sequence[str]) -> bool:
    """Run what is missing; whether all trials could be run."""
    from testbed.comparison.reproduction import experiments, measure, scales
    from testbed.experiment.progress import reporter

    needed = experiments(claims, full)
    all_ran = True
    for n, experiment in enumerate(needed, 1):
        console.print(f"{experiment.spec} ({n} of {len(needed)})", markup=False, highlight=False)
        all_ran &= measure(experiment, out, full, lambda left: reporter(left, console), overrides)
    for spec, text in scales(claims, out, full).items():
        console.print(f"{spec}: {text}", markup=False, highlight=False, soft_wrap=True)
    return all_ran


def _decide(paper: Paper, claims: Sequence[Claim], out: Path, full: bool) -> tuple[list[Decided], Path]:
    """The findings, and the page that has them."""
    from analysis.papers.page import render
    from testbed.comparison.reproduction import MODES, decide, folder, runs, scales
    from testbed.files.writing import named_errors, write_bytes

    decided = decide(claims, runs(claims, out, full))
    page = out / f"{paper.name if len(claims) == len(paper.claims) else claims[0].name}.html"
    with named_errors(page):
        out.mkdir(parents=True, exist_ok=True)
    reports = {one.spec: folder(out, one, full).name for claim in claims for one in claim.experiments}
    text = render(paper, [(one.claim, one.finding) for one in decided], MODES[full], reports, scales(claims, out, full))
    write_bytes(page, text.encode())
    return decided, page


def _print(decided: Sequence[Decided], detailed: bool) -> None:
    from testbed.comparison.reproduction import HEADER, LEFT, summary, texts

    print()
    if detailed:
        for one in decided:
            print(textwrap.fill(f"{one.claim.name} ({one.claim.where}): {one.claim.says}", 110))
            print(f"\n{columns(('number', *HEADER[2:-1]), [texts(row) for row in one.finding.rows])}\n")
            _print_checks(one, every=True)
            for note in (*one.claim.assumes, *one.finding.notes):
                print("\n" + textwrap.fill(note, 110, initial_indent="  ", subsequent_indent="  "))
            print(f"\n{one.claim.name}: {one.finding.verdict}")
        return
    print(columns(HEADER, summary(decided), LEFT))
    for one in decided:
        _print_checks(one, every=False)


def _print_checks(one: Decided, every: bool) -> None:
    """What a verdict is made of; in a table of many, only what does not hold."""
    from analysis.papers.claim import Verdict

    shown = [check for check in one.finding.checks if every or check.verdict != Verdict.HOLDS]
    if shown and not every:
        print(f"\n{one.claim.name} {one.finding.verdict}:")
    for check in shown:
        why = f": {check.why}" if check.why else ""
        print(
            textwrap.fill(f"{check.verdict}: {check.says}{why}", 110, initial_indent="  ", subsequent_indent="      ")
        )


def _interrupted(out: Path) -> NoReturn:
    with suppress(OSError):  # the terminal may be gone
        print(f"interrupted: finished trials are kept in {out}; the same command goes on", file=sys.stderr)
    sys.exit(exits.INTERRUPTED)
