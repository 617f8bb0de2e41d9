"""``testbed run``, ``plan`` and ``report``: an experiment, what it would do, and what it said."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from testbed.base import exits, interrupt
from testbed.base.listing import counted
from testbed.cli.compare import AcceptFailures, AcceptInconclusive, Allow, Metrics, Thresholds
from testbed.cli.output import AsJson, print_json, show, table, wrote
from testbed.lab import BUILT_IN

if TYPE_CHECKING:
    from rich.console import Console

    from testbed.api.experiment import Against, Asked
    from testbed.experiment.progress import Lines
    from testbed.experiment.run import Run
    from testbed.trial.model import Trial

SpecFile = Annotated[Path, typer.Argument(metavar="SPEC", help="The experiment's YAML file.")]
Overrides = Annotated[
    list[str],
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Change a setting of the spec: workload.iterations=5, arms.0.scheme=ring. May be given several times.",
        show_default=False,
    ),
]

*_FIRST, _LAST = BUILT_IN  # packages may add others, and looking for them takes time
Backend = Annotated[
    str | None,
    typer.Option(
        metavar="LAB",
        help=f"Use this lab: {', '.join(_FIRST)} or {_LAST}; default: the spec's lab.",
        show_default=False,
    ),
]


Retries = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="Measure a trial again, at most N times, if only the machine makes it INVALID; default 2.",
        show_default=False,
    ),
]
Quiet = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="Wait at most this long before a trial for other programs to leave the cores idle, 0 not at all; default "
        "30 s.",
        show_default=False,
    ),
]
Arms = Annotated[list[str], typer.Option("--arm", metavar="LABEL", help="Take only this arm; more with further --arm.")]
Points = Annotated[
    list[str],
    typer.Option(
        "--point", metavar="NAME=VALUE", help="Take only trials where a swept field or batch is that: batch=16."
    ),
]
Only = Annotated[
    list[str], typer.Option("--only", metavar="ID", help="Take only this trial of those that testbed plan lists.")
]
STANDARD_OUTPUT = Path("-")
Inventory = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Ansible inventory of the managed machines.", show_default=False),
]
AllowMissing = Annotated[
    bool, typer.Option("--allow-missing", help="Leave out hosts that cannot be reached; default: stop.")
]


def patience(retries: int | None, quiet: str | None) -> list[str]:
    """Write ``--retries`` and ``--quiet`` as settings of ``--set``, for which they are short, too."""
    given = {"retries": retries, "quiet": quiet}
    return [f"{name}={value}" for name, value in given.items() if value is not None]


def run(
    specs: Annotated[
        list[Path] | None, typer.Argument(metavar="SPEC", help="The experiment's YAML file, or several.")
    ] = None,
    overrides: Overrides = [],  # noqa: B006  # typer wants the default's type; never changed
    arms: Arms = [],  # noqa: B006
    points: Points = [],  # noqa: B006
    only: Only = [],  # noqa: B006
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="New directory of the run; default runs/NAME-TIME.")
    ] = None,
    resume: Annotated[
        Path | None, typer.Option(metavar="RUN", help="Go on with the interrupted run in this directory.")
    ] = None,
    backend: Backend = None,
    inventory: Inventory = None,
    allow_missing: AllowMissing = False,
    part: Annotated[
        str | None, typer.Option(metavar="I/N", help="Run only part I of N, for testbed merge; default: all.")
    ] = None,
    found: Annotated[
        Path | None,
        typer.Option(
            metavar="RUN", help="Take what search and topoopt found in this run of the spec; default: search."
        ),
    ] = None,
    on: Annotated[
        str | None,
        typer.Option(
            metavar="ENGINE",
            help="Spread the trials over machines: local://2, dask://HOST:PORT or ssh://INVENTORY; default: run here.",
            show_default=False,
        ),
    ] = None,
    trust_network: Annotated[
        bool, typer.Option("--trust-network", help="Let --on use a network without TLS; default: refuse.")
    ] = False,
    retries: Retries = None,
    quiet: Quiet = None,
    baseline: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Compare with this baseline or run; exit with 3 if slower.")
    ] = None,
    thresholds: Thresholds = [],  # noqa: B006
    metrics: Metrics = [],  # noqa: B006
    allow: Allow = [],  # noqa: B006
    accept_inconclusive: AcceptInconclusive = False,
    accept_failures: AcceptFailures = False,
    as_json: AsJson = False,
) -> None:
    """Run experiments, and write a report of each.

    Every arm runs with every batch size, at every point of a sweep. At the end it prints the comparison and the path
    of the report. With --baseline, more rounds run if too few trials are VALID, up to twice as many. Cells that look
    slower are measured once more, and the exit code says whether they are slower. Several experiments also get one
    report together.
    """
    with interrupt.exit_at_once():
        from rich.console import Console

        from testbed.api import experiment  # half a second
    console = Console(stderr=as_json)
    interrupt.raise_once()
    repeated = _words(
        {
            "--arm": arms,
            "--point": points,
            "--only": only,
            "--inventory": inventory,
            "--allow-missing": allow_missing,
            "--on": on,
            "--trust-network": trust_network,
            "--baseline": baseline,
            "--threshold": thresholds,
            "--metric": metrics,
            "--allow": allow,
            "--accept-inconclusive": accept_inconclusive,
            "--accept-failures": accept_failures,
        }
    )
    wanted = experiment.Wanted(arms, points, only)
    where = (out, resume, backend, inventory, allow_missing, part, found)
    rest = (overrides, *where, patience(retries, quiet), wanted, on, trust_network)
    asked = [experiment.Asked(spec, *rest) for spec in (specs or (None,))]
    against = experiment.Against(baseline, thresholds, metrics, allow, accept_inconclusive, accept_failures)
    if len(asked) > 1:
        experiment.check_several(asked, against)
    done = [_run_one(one, against, repeated, console) for one in asked]
    told: dict[str, Any] = done[0].told
    if len(done) > 1:
        page = experiment.report_together([one.path for one in done])
        told = {"runs": [one.told for one in done], "report": str(page)}
        if not as_json:
            wrote("report of all", page)
    if as_json:
        print_json(told)
    raise typer.Exit(max(one.exit_code for one in done))


@dataclass(frozen=True)
class _Done:
    """A run that ended: its directory, what ``--json`` tells of it, and the exit code that it asks for."""

    path: Path
    told: dict[str, Any]
    exit_code: int


def _run_one(asked: Asked, against: Against, repeated: Sequence[str], console: Console) -> _Done:
    """Run one experiment. ``repeated`` are the options with which to go on; with a console on standard error, standard
    output is for JSON."""
    from testbed.api import experiment
    from testbed.experiment.progress import reporter

    as_json = console.stderr

    def again(left: Sequence[Trial]) -> Lines:
        console.print("\nsuspicious cells are measured once more:", highlight=False)
        return reporter(left, console)

    try:
        running = experiment.Running(asked, against)
    except KeyboardInterrupt:
        _tell_interrupted("no trial had begun; the same command starts anew")
    with running:
        go_on = shlex.join(["testbed", "run", "--resume", str(running.path), *repeated])
        try:
            done, page = running.go(lambda left: reporter(left, console))
        except experiment.Interrupted as cut:
            _interrupted(cut.kept, running.path, go_on)
    told: dict[str, Any] = {"run": str(done.path), "report": str(page), "trials": done.records}
    if not as_json:
        _print_comparison(done, go_on)
        wrote("report", page)
    ended = exits.TRIAL_FAILED if done.failed else exits.OK
    if running.is_compared:
        try:
            judged = running.judge(done, again)
        except experiment.Interrupted as cut:
            _interrupted(cut.kept, running.path, go_on)
        if as_json:
            print(f"\n{judged}", file=sys.stderr)
        else:
            show("", judged.text(table))
        told["comparison"], ended = judged.as_json(), judged.exit_code
    return _Done(done.path, told, ended)


def plan(
    spec: SpecFile,
    overrides: Overrides = [],  # noqa: B006
    arms: Arms = [],  # noqa: B006
    points: Points = [],  # noqa: B006
    only: Only = [],  # noqa: B006
    backend: Backend = None,
    inventory: Inventory = None,
    as_json: AsJson = False,
) -> None:
    """Check an experiment and say what it would do.

    It lists the trials, their least GST and duration, and what would be built. With --inventory, it also
    lists the nodes of each machine. It changes nothing, and asks no machine.
    """
    from testbed.api.labs import lab_of, with_backend
    from testbed.api.plan import Wanted
    from testbed.api.plan import plan as predicted

    lab = lab_of(spec, overrides, backend, inventory)
    found = predicted(spec, with_backend(overrides, lab), Wanted(arms, points, only), inventory)
    if as_json:
        print_json(found.facts)
    else:
        show(found.text(table))


def report(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN", help="A run's directory, or several.")],
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="File to write, - for standard output; default: a file in RUN.", show_default=False
        ),
    ] = None,
    form: Annotated[
        str, typer.Option("--format", metavar="FORMAT", help="Format of the report: html, md or latex.")
    ] = "html",
    as_json: AsJson = False,
) -> None:
    """Write the report of one run, or of several together.

    The report is a page, Markdown or a LaTeX table. Several runs stand side by side, with the differences of their
    specs and environments.
    """
    from testbed.analysis.report import text, write
    from testbed.base.errors import UsageError

    if len(runs) > 1 and out is None:
        raise UsageError("a report of several runs needs a place of its own", fix="say where it goes: --out FILE")
    if out == STANDARD_OUTPUT:
        if as_json:
            raise UsageError("--out - and --json both write to standard output", fix="leave one of the two out")
        print(text(runs, form), end="")
        return
    page = write(runs, out, form)
    if as_json:
        print_json({"runs": [str(run) for run in runs], "report": str(page)})
    else:
        wrote("report", page)


def merge(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN", help="The directories of parts of one experiment.")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="New directory for the whole run.")],
    run_code: Annotated[
        bool,
        typer.Option(
            "--run-code", help="Run the Python files that the parts' spec names; default: refuse parts that name some."
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Make one run of parts that ran on several machines.

    testbed run SPEC --part 1/2 makes a part. testbed run --resume DIR runs the trials that no part has run.
    """
    from testbed.api.merge import merge as merged

    done, page = merged(runs, out, run_code)
    if as_json:
        print_json({"run": str(out), "report": str(page), "missing": done.missing, "kept": done.kept})
        return
    show(f"{counted(len(done.run.records), 'trial')} of {counted(len(runs), 'part')} in {out}")
    for trial, path in done.kept.items():
        show(f"  {trial} ran more than once: that in {path} is kept")
    if done.missing:
        show(f"missing: {counted(len(done.missing), 'trial')}; go on with:")
        print(f"  testbed run --resume {shlex.quote(str(out))}")
    wrote("report", page)


def _words(given: Mapping[str, object]) -> list[str]:
    """Write options as they are on the command line; those that are None, False or empty are left out."""
    each = [(name, one) for name, value in given.items() for one in (value if isinstance(value, list) else [value])]
    return [word for name, one in each if one for word in ([name] if one is True else [name, str(one)])]


def _print_comparison(done: Run, go_on: str) -> None:
    """Print the closing table, and what must be said of it."""
    from testbed.comparison.closing_table import LEFT_OUT, notes, warnings
    from testbed.comparison.closing_table import table as closing

    print()
    finished = table(*closing(done.records, done.first), spare=LEFT_OUT)
    for told in (*warnings(done.records), finished, *notes(done.records, done.first)):
        show(told, "")
    if done.loose:
        show(f"{counted(len(done.loose), 'cell')} with wider intervals than repeats.until asks for:")
        show(*(f"  {one}" for one in done.loose), "")
    if done.promise:
        show(done.promise, "")
    failed = [record for record in done.records if record["status"] == "failed"]
    asked = sum(record.get("by_perturb", False) for record in failed)
    of = f"of {counted(len(done.records), 'trial')}"
    if asked:
        show(
            f"{asked} {of} failed because of perturb, and would fail again: change the spec as their errors say",
            "",
        )
    if len(failed) > asked:
        show(f"{len(failed) - asked} {of} failed; go on with:")
        print(f"  {go_on}\n")


def _interrupted(kept: str, path: Path, go_on: str) -> NoReturn:
    """Say what is kept, and how to go on."""
    _tell_interrupted(f"{kept} finished and kept in {path}\n  go on with: {go_on}")


def _tell_interrupted(what: str) -> NoReturn:
    with suppress(OSError):  # the terminal may be gone
        print(f"interrupted: {what}", file=sys.stderr)
    sys.exit(exits.INTERRUPTED)
