"""``testbed run``, ``plan`` and ``report``: an experiment, what it would do, and what it said."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from testbed.base import exits, interrupt
from testbed.base.columns import columns
from testbed.cli.compare import AcceptFailures, AcceptInconclusive, Allow, Metrics, Thresholds
from testbed.cli.output import AsJson, print_json, rich_table
from testbed.lab import BUILT_IN

if TYPE_CHECKING:
    from rich.console import Console

    from testbed.comparison.gate import Gate
    from testbed.experiment.progress import Lines
    from testbed.experiment.run import Experiment, Run
    from testbed.lab.base import Lab
    from testbed.lab.place import Opening
    from testbed.spec import Spec
    from testbed.trial.model import Trial

SpecFile = Annotated[Path, typer.Argument(metavar="SPEC", help="The experiment's YAML file.")]
Overrides = Annotated[
    list[str],
    typer.Option("--set", metavar="KEY=VALUE", help="Change a setting: workload.iterations=5, arms.0.scheme=ring."),
]

*_FIRST, _LAST = BUILT_IN  # packages may add others, and looking for them takes time
Backend = Annotated[
    str | None,
    typer.Option(
        metavar="LAB", help=f"{', '.join(_FIRST)} or {_LAST}, in place of the spec's lab.", show_default=False
    ),
]


Retries = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="Measure a trial again that is INVALID only because of the machine, N times at most; default 2.",
        show_default=False,
    ),
]
Quiet = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="Wait so long before a trial until others leave the cores, 0 never; default 30 s.",
        show_default=False,
    ),
]
STANDARD_OUTPUT = Path("-")
Inventory = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Ansible inventory of the machines to use.", show_default=False)
]
AllowMissing = Annotated[bool, typer.Option("--allow-missing", help="Leave out hosts that cannot be reached.")]


def with_backend(overrides: list[str], backend: str | None) -> list[str]:
    """``--backend`` is short for ``--set lab=``."""
    return overrides if backend is None else [*overrides, f"lab={backend}"]


def patience(retries: int | None, quiet: str | None) -> list[str]:
    """``--retries`` and ``--quiet`` are short for ``--set``, too."""
    given = {"retries": retries, "quiet": quiet}
    return [f"{name}={value}" for name, value in given.items() if value is not None]


def run(
    spec: Annotated[Path | None, typer.Argument(metavar="SPEC", help="The experiment's YAML file.")] = None,
    overrides: Overrides = [],  # noqa: B006  # typer wants the default's type; never changed
    out: Annotated[Path | None, typer.Option(help="New directory; default runs/NAME-TIME.")] = None,
    resume: Annotated[Path | None, typer.Option(metavar="RUN", help="Go on with a run that was cut off.")] = None,
    backend: Backend = None,
    inventory: Inventory = None,
    allow_missing: AllowMissing = False,
    part: Annotated[str | None, typer.Option(metavar="I/N", help="Run only part I of N; see testbed merge.")] = None,
    retries: Retries = None,
    quiet: Quiet = None,
    baseline: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Compare with this baseline or run, and exit with 3 if slower.")
    ] = None,
    thresholds: Thresholds = [],  # noqa: B006
    metrics: Metrics = [],  # noqa: B006
    allow: Allow = [],  # noqa: B006
    accept_inconclusive: AcceptInconclusive = False,
    accept_failures: AcceptFailures = False,
    as_json: AsJson = False,
) -> None:
    """Run an experiment and write its report.

    Every arm runs with every batch size, at every point of a sweep; then come the comparison and the path of the
    report. With --baseline, more rounds run where too few trials are VALID, up to twice as many; what looks slower is
    measured once more, and the exit code says whether it is.
    """
    with interrupt.exit_at_once():
        from rich.console import Console

        from testbed.experiment.progress import reporter

        import_module("testbed.experiment.run")  # half a second; those that need it take it from there
    console = Console(stderr=as_json)
    interrupt.raise_once()
    opening = machines(inventory, allow_missing)
    lab = lab_named(backend, inventory)
    repeated = _words(
        {
            "--inventory": inventory,
            "--allow-missing": allow_missing,
            "--baseline": baseline,
            "--threshold": thresholds,
            "--metric": metrics,
            "--allow": allow,
            "--accept-inconclusive": accept_inconclusive,
            "--accept-failures": accept_failures,
        }
    )
    overrides = with_backend(overrides, lab if spec else backend)
    patient = patience(retries, quiet)
    gate = _gate(baseline, thresholds, metrics, allow, accept_inconclusive, accept_failures)
    if gate and spec:
        overrides = gate.prepared(spec, overrides)
    with _experiment(spec, overrides, out, resume, opening, part, gate, patient) as experiment:
        go_on = shlex.join(["testbed", "run", "--resume", str(experiment.directory.path), *repeated])
        try:
            done = experiment.go(lambda left: reporter(left, console))
            page = _report(done)
        except KeyboardInterrupt:
            _interrupted(experiment, go_on)
    told: dict[str, Any] = {"run": str(done.path), "report": str(page), "trials": done.records}
    if not as_json:
        _print_comparison(done, console, go_on)
        print(f"\nreport: {page}")
    ended = exits.TRIAL_FAILED if done.failed else exits.OK
    if gate:
        open_lab = _opener(opening, experiment.source.spec)
        found, ended = _gated(gate, accept_inconclusive, done, experiment, open_lab, console, go_on)
        told["comparison"] = found
    if as_json:
        print_json(told)
    raise typer.Exit(ended)


def plan(
    spec: SpecFile,
    overrides: Overrides = [],  # noqa: B006
    backend: Backend = None,
    as_json: AsJson = False,
) -> None:
    """Check an experiment and say what it would do.

    Its trials, their least GST and duration, and what would be built; nothing is touched.
    """
    from testbed.experiment import planning
    from testbed.spec import load

    found = planning.plan(load(spec, with_backend(overrides, backend)))
    if as_json:
        print_json(found)
    else:
        print(planning.text(found))


def report(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="A run's directory, or several.")],
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where it goes, - for standard output; default: into RUN.")
    ] = None,
    form: Annotated[str, typer.Option("--format", metavar="FORMAT", help="html, md or latex.")] = "html",
    as_json: AsJson = False,
) -> None:
    """Write a run's report again, as a page, as Markdown or as a LaTeX table; or one of several.

    Several runs stand side by side, with what their specs and environments differ in.
    """
    from analysis.report import text
    from testbed.base.errors import UsageError
    from testbed.experiment.run import write_report

    if len(runs) > 1 and out is None:
        raise UsageError("a report of several runs belongs to none of them", fix="say where it goes: --out FILE")
    if out == STANDARD_OUTPUT:
        if as_json:
            raise UsageError("--out - and --json both write to standard output", fix="leave one of the two out")
        print(text(runs, form), end="")
        return
    page = write_report(runs, out, form)
    if as_json:
        print_json({"runs": [str(run) for run in runs], "report": str(page)})
    else:
        print(f"report: {page}")


def machines(inventory: Path | None, allow_missing: bool) -> Opening:
    """How a lab is opened, as far as the command line says.

    Raises:
        UsageError: hosts may be missing of no inventory.
    """
    from testbed.base.errors import UsageError
    from testbed.lab.place import Opening

    if allow_missing and inventory is None:
        raise UsageError("--allow-missing is about hosts of an inventory", fix="add --inventory FILE")

    def tell(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    return Opening(inventory=inventory, allow_missing=allow_missing, tell=tell)


def lab_named(backend: str | None, inventory: Path | None) -> str | None:
    """The lab that ``--backend`` names, or that an inventory is for; None leaves the spec's.

    Raises:
        UsageError: the lab takes no inventory.
    """
    from testbed.lab.choice import of_inventory

    return of_inventory(backend).name if inventory else backend


def _opener(opening: Opening, spec: Spec) -> Callable[[], Lab]:
    """What opens a spec's lab.

    Raises:
        UsageError: there is an inventory, and the lab takes none.
    """
    from testbed.lab.choice import opener

    lab_named(spec.lab, opening.inventory)
    return opener(spec.lab, replace(opening, options=spec.lab_options))


def _experiment(
    spec: Path | None,
    overrides: list[str],
    out: Path | None,
    resume: Path | None,
    opening: Opening,
    part: str | None = None,
    gate: Gate | None = None,
    patient: Sequence[str] = (),
) -> Experiment:
    """``patient`` are overrides that a run may also go on with that has its own spec."""
    from testbed.base.errors import UsageError
    from testbed.experiment.directory import source_of
    from testbed.experiment.run import Experiment
    from testbed.spec import load

    if resume and out:
        raise UsageError("--out and --resume exclude each other", fix="a resumed run stays in its directory")
    if resume and overrides and not spec:
        raise UsageError("--set and --backend need the SPEC that they change", fix="name it, or resume without them")
    if resume and part:
        raise UsageError("--part and --resume exclude each other", fix="a resumed run stays the part that it was")
    overrides = [*overrides, *patient]
    lacking = gate.lacking if gate else None
    if resume:
        source = load(spec, overrides) if spec else source_of(resume, patient) if patient else None
        open_lab = _opener(opening, (source or source_of(resume)).spec) if opening.inventory else None
        return Experiment.resumed(resume, source, open_lab, lacking=lacking)
    if not spec:
        raise UsageError("no SPEC is given", fix="testbed run experiments/quickstart.yaml")
    source = load(spec, overrides)
    open_lab = _opener(opening, source.spec)
    return Experiment.new(source, out, open_lab, _part(part) if part else None, lacking=lacking)


def _part(text: str) -> tuple[int, int]:
    """``2/3`` as its numbers.

    Raises:
        UsageError: it is none, or there is no such part.
    """
    from testbed.base.errors import UsageError

    match = re.fullmatch(r"(\d{1,6})/(\d{1,6})", text)
    number, count = (int(match[1]), int(match[2])) if match else (0, 0)
    if not 1 <= number <= count:
        raise UsageError(f"--part {text}: not a part", fix="write it as 2/3, for the second of three")
    return number, count


def merge(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="The directories of parts of one experiment.")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="New directory for the whole.")],
    run_code: Annotated[
        bool, typer.Option("--run-code", help="Run the files that the parts' spec names topologies or schemes in.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Make one run of parts that ran on several machines.

    Parts are made with testbed run SPEC --part 1/2. What no part has run, testbed run --resume DIR runs.
    """
    from testbed.comparison.merge import merged

    done = merged(runs, out, run_code)
    page = _report(done.run)
    if as_json:
        print_json({"run": str(out), "report": str(page), "missing": done.missing, "kept": done.kept})
        return
    print(f"{len(done.run.records)} trials of {len(runs)} parts in {out}")
    for trial, path in done.kept.items():
        print(f"  {trial} ran more than once: that in {path} is kept")
    if done.missing:
        print(f"{len(done.missing)} trials are missing; run them: testbed run --resume {shlex.quote(str(out))}")
    print(f"report: {page}")


def _report(done: Run) -> Path:
    from testbed.experiment.run import write_report

    return write_report([done.path])


def _words(given: Mapping[str, object]) -> list[str]:
    """Options as they are written on the command line; those that are None, False or empty are not."""
    each = [(name, one) for name, value in given.items() for one in (value if isinstance(value, list) else [value])]
    return [word for name, one in each if one for word in ([name] if one is True else [name, str(one)])]


def _print_comparison(done: Run, console: Console, go_on: str) -> None:
    from testbed.comparison.closing_table import fitting, notes, table

    print()
    header, rows = table(done.records, done.first)
    if console.is_terminal:
        shown = fitting(header, rows, console.width)
        console.print(rich_table([header[i] for i in shown], [[row[i] for i in shown] for row in rows]))
    else:
        print(columns(header, rows))
    told = notes(done.records, done.first)
    if told:
        print("", *told, sep="\n")
    if done.loose:
        print(f"\nnot as narrow as repeats.until wants, {len(done.loose)} of the cells:")
        print("\n".join(f"  {one}" for one in done.loose))
    failed = [record for record in done.records if record["status"] == "failed"]
    asked = sum(record.get("by_perturb", False) for record in failed)
    if asked:
        what = "failed because of what perturb does, and would again: change the spec as their errors say"
        print(f"\n{asked} of {len(done.records)} trials {what}")
    if len(failed) > asked:
        print(f"\n{len(failed) - asked} of {len(done.records)} trials failed; run them again: {go_on}")


def _gate(
    baseline: Path | None,
    thresholds: list[str],
    metrics: list[str],
    allow: list[str],
    accept_inconclusive: bool,
    accept_failures: bool,
) -> Gate | None:
    """What a run is held against, if anything; read first, so that nothing runs in vain."""
    from testbed.base.errors import UsageError

    if baseline is None:
        if thresholds or metrics or allow or accept_inconclusive or accept_failures:
            raise UsageError(
                "--threshold, --metric, --allow, --accept-inconclusive and --accept-failures are about a comparison",
                fix="add --baseline FILE",
            )
        return None
    from analysis.measured import read
    from testbed.comparison.gate import Gate
    from testbed.comparison.options import wanted

    return Gate(read(baseline), wanted(thresholds, metrics), allow, accept_failures)


def _gated(
    gate: Gate,
    accept_inconclusive: bool,
    done: Run,
    experiment: Experiment,
    open_lab: Callable[[], Lab],
    console: Console,
    go_on: str,
) -> tuple[dict[str, Any], int]:
    """Hold a run against its baseline and say what came out; the comparison as JSON, and the exit code."""
    from analysis.compare_output import as_json, text
    from testbed.comparison.gate import MeasuringAgainInterrupted
    from testbed.comparison.options import exit_code
    from testbed.experiment.progress import reporter

    def again(left: Sequence[Trial]) -> Lines:
        console.print("\nsuspicious cells are measured once more:", highlight=False)
        return reporter(left, console)

    try:
        found, failed = gate.settle(done.path, experiment.source, open_lab, again)
    except MeasuringAgainInterrupted as cut:
        _interrupted(experiment, go_on, f", and {cut.done} of {cut.planned} of the second measurement,")
    except KeyboardInterrupt:
        _interrupted(experiment, go_on)
    console.print(f"\n{text(found)}", markup=False, highlight=False, soft_wrap=True)
    code = exit_code(found, accept_inconclusive)
    failed = (done.failed or failed) and not gate.accept_failures
    return as_json(found), exits.TRIAL_FAILED if code != exits.REGRESSION and failed else code


def _interrupted(experiment: Experiment, go_on: str, more: str = "") -> NoReturn:
    """Say what is kept, and how to go on."""
    kept = f"{len(experiment.planned) - len(experiment.left)} of {len(experiment.planned)} trials{more}"
    with suppress(OSError):  # the terminal may be gone
        print(
            f"interrupted: {kept} are finished and kept in {experiment.directory.path}\n  go on with: {go_on}",
            file=sys.stderr,
        )
    sys.exit(exits.INTERRUPTED)
