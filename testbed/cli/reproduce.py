"""``testbed reproduce``: a paper's claims, measured here and decided."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from testbed.base import exits, interrupt
from testbed.base.errors import UsageError
from testbed.cli.experiment import Backend, Quiet, Retries, patience
from testbed.cli.output import AsJson, print_json, show, table, teller, wrote

if TYPE_CHECKING:
    from testbed.analysis.papers.claim import Claim
    from testbed.comparison.reproduction import Decided

PaperName = Annotated[str | None, typer.Argument(metavar="PAPER", help="A paper, such as bml.", show_default=False)]
ClaimName = Annotated[
    str | None, typer.Argument(metavar="CLAIM", help="Only this claim, such as bml.gst.", show_default=False)
]
Full = Annotated[
    bool, typer.Option("--full", help="Measure with many repeats, which takes hours; default: with a few.")
]
Listed = Annotated[bool, typer.Option("--list", help="Only list the claims and how long they take.")]
Out = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Directory of the runs and the page, new or to go on with; default runs/reproduce-PAPER, and -LAB.",
    ),
]


def reproduce(
    paper: PaperName = None,
    claim: ClaimName = None,
    full: Full = False,
    listed: Listed = False,
    out: Out = None,
    backend: Backend = None,
    retries: Retries = None,
    quiet: Quiet = None,
    as_json: AsJson = False,
) -> None:
    """Measure what a paper claims and say whether it holds here.

    Each claim is a row: the paper's value, the value by theory, ours, and the verdict. A page has the details. Trials
    that are finished in DIR are not run again, unless only the machine made them INVALID. Experiments that LAB refuses
    are left out. The exit code is 0 if all decided claims hold, 1 if a claim or a trial fails, and 4 if nothing could
    be decided.
    """
    with interrupt.exit_at_once():
        from rich.console import Console

        from testbed.api import reproduction  # a second
        from testbed.api.labs import with_backend
        from testbed.experiment.progress import reporter
    if listed:
        if backend:
            raise UsageError("--list is of specs as they are written", fix="leave out --backend")
        _list(paper, claim, as_json)
        return
    chosen, claims = reproduction.choose(paper, claim)
    interrupt.raise_once()
    place = out or Path("runs") / f"reproduce-{chosen.name}{f'-{backend}' if backend else ''}"
    reproduction.refuse_others(place)
    try:
        console = Console(stderr=as_json)
        tell = teller(as_json)
        if note := reproduction.know_capacity(claims, full, backend, tell):
            tell(note)
        changed = with_backend(patience(retries, quiet), backend)
        all_ran = reproduction.measure(claims, place, full, lambda left: reporter(left, console), changed, tell)
        decided, page = reproduction.decide(chosen, claims, place, full, backend)
    except KeyboardInterrupt:
        with suppress(OSError):  # the terminal may be gone
            print(f"interrupted: finished trials are kept in {place}; the same command goes on", file=sys.stderr)
        sys.exit(exits.INTERRUPTED)
    if as_json:
        told = [reproduction.as_json(one) for one in decided]
        print_json({"paper": chosen.name, "full": full, "page": str(page), "claims": told})
    else:
        _print(decided, detailed=claim is not None)
        print()
        wrote("page", page)
    raise typer.Exit(reproduction.exit_code(decided, all_ran))


def _list(paper: str | None, claim: str | None, as_json: bool) -> None:
    from testbed.api import reproduction
    from testbed.base.units import time_text

    chosen = reproduction.listed(paper, claim)
    listed = [one for _, claims in chosen for one in claims]
    if as_json:
        print_json(reproduction.listing(listed))
        return

    def about(claims: Sequence[Claim], full: bool) -> str:
        seconds = reproduction.expected_s(claims, full)
        return time_text(round(seconds)) if seconds else "-"

    rows = [(one.name, one.where, about([one], False), about([one], True)) for one in listed]
    whole = [one for one, claims in chosen if len(claims) == len(one.claims)]
    rows += [(one.name, "all of it", about(one.claims, False), about(one.claims, True)) for one in whole]
    show(table(("claim", "where", "quick", "full"), rows, left=2))


def _print(decided: Sequence[Decided], detailed: bool) -> None:
    from testbed.api.reproduction import HEADER, LEFT, summary, texts

    print()
    if detailed:
        for one in decided:
            show(f"{one.claim.name} ({one.claim.where}): {one.claim.says}", "")
            show(table(("number", *HEADER[2:-1]), [texts(row) for row in one.finding.rows]), "")
            _print_checks(one, every=True)
            for note in (*one.claim.assumes, *one.finding.notes):
                show("", f"  {note}")
            show(f"\n{one.claim.name}: {one.finding.verdict}")
        return
    show(table(HEADER, summary(decided), LEFT, ("from", "95 % interval", "fidelity")))
    for one in decided:
        _print_checks(one, every=False)


def _print_checks(one: Decided, every: bool) -> None:
    """Print the checks that a verdict is made of; in a table of many, only what does not hold."""
    from testbed.api.reproduction import Verdict

    shown = [check for check in one.finding.checks if every or check.verdict != Verdict.HOLDS]
    if shown and not every:
        show(f"\n{one.claim.name} {one.finding.verdict}:")
    for check in shown:
        why = f": {check.why}" if check.why else ""
        show(f"  {check.verdict}: {check.says}{why}")
