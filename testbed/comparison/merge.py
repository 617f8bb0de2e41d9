"""Merge of parts, which ran on several machines, into one run: every trial once, each part's environment by its
name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from testbed.analysis.load import check_run
from testbed.base.errors import OutputError, UsageError
from testbed.experiment import provenance
from testbed.experiment.repeats import Planned, Record
from testbed.experiment.run import Run
from testbed.files.foreign import UnfitError, copy
from testbed.files.writing import named_errors
from testbed.run_directory.access import check_idle
from testbed.run_directory.directory import RunDirectory
from testbed.run_directory.layout import files_of
from testbed.run_directory.resolved import differences
from testbed.run_directory.stored import environment as environment_of
from testbed.run_directory.stored import made, most_rounds, records, source_of
from testbed.topologies.load import no_code
from testbed.trial.inputs import in_words

FIX = "add --run-code if you trust whoever made the parts; or put them side by side: testbed report RUN RUN --out FILE"
ITS_OWN = ("part", "planned", "folder", "most_rounds", "overrides", "retries", "quiet_s")
"""Keys in which resolved.json of parts may differ: where they ran, how their settings were given, and how patient they
were."""


@dataclass(frozen=True)
class Merged:
    """Outcome of merging: the run, the trials that none of the parts has finished, and, of trials that are in several,
    whose was kept."""

    run: Run
    missing: list[str]
    kept: dict[str, Path]


def merged(parts: Sequence[Path], out: Path, run_code: bool = False) -> Merged:
    """Make the run directory ``out`` of parts, which stay as they are.

    Args:
        run_code: run the files that the parts' spec names topologies and schemes in, as a run does.

    Raises:
        UsageError: a part is given twice. OutputError: one is no run directory, is still being written or damaged, they
        are of different experiments, hold a
            trial with different settings, or ``out`` cannot be made.
        SpecError: the spec is not taken by this version, or names code in a file that is not to be
            run.
    """
    with nullcontext() if run_code else no_code("testbed merge", FIX):
        return _merged(parts, out)


def _merged(parts: Sequence[Path], out: Path) -> Merged:
    for i, part in enumerate(parts):
        check_run(part)
        if part.resolve() in [one.resolve() for one in parts[:i]]:
            raise UsageError(f"{part} is given twice", fix="give each part once")
        check_idle(part)
        _check_same(parts[0], part)
    found_in = {part: records(part) for part in parts}
    chosen = _chosen(found_in)
    # Files that the spec names are looked for in its folder, which may be on one of the machines only.
    source = source_of(next((one for one in parts if Path(made(one).get("folder") or "").is_dir()), parts[0]))
    rounds = max(most_rounds(part) or 0 for part in parts) or None
    planned = Planned(source, most_rounds=rounds)
    by_id = {trial: record for trial, (_, record) in chosen.items()}
    planned.keep_ids(by_id[one] for one in planned.unknown(by_id))
    while planned.another_round(by_id, lambda trial: trial.id in by_id):
        pass
    _check_identities(planned, chosen)
    directory = RunDirectory.create(out, source, len(planned.trials), most_rounds=rounds)
    try:
        for trial, (part, _) in chosen.items():
            _copy(part, out, trial)
        directory.save_environment(provenance.together(_environments(parts)))
        found = planned.sorted(by_id)
        directory.save_table(found)
    finally:
        directory.close()
    missing = [one.id for one in planned.trials if by_id.get(one.id, {"status": ""})["status"] != "done"]
    several = [trial for trial in chosen if sum(trial in one for one in found_in.values()) > 1]
    run = Run(out, source.spec.arms[0].title, found, planned.loose(by_id), planned.promise(by_id))
    return Merged(run, missing, {trial: chosen[trial][0] for trial in several})


def _check_same(first: Path, other: Path) -> None:
    """
    Raises:
        OutputError: they are not parts of one experiment; names what differs.
    """
    found = differences(made(first), made(other), ITS_OWN)
    if found:
        key, ours, theirs = found[0]
        raise OutputError(
            f"{first} and {other} are of different experiments: {key} is {ours} and {theirs}",
            fix="give parts of one spec; testbed report RUN RUN --out FILE puts others side by side",
        )


def _chosen(found_in: Mapping[Path, Mapping[str, Record]]) -> dict[str, tuple[Path, Record]]:
    """Choose for each trial the part it is taken from: the first that has it, or the first in which it was done.

    Raises:
        OutputError: two have it, run with different settings.
    """
    found: dict[str, tuple[Path, Record]] = {}
    for part, of in found_in.items():
        for trial, record in of.items():
            other, known = found.setdefault(trial, (part, record))
            if known["identity"] != record["identity"]:
                raise OutputError(
                    f"{other} and {part} both hold {trial}, run with different settings"
                    + in_words(known.get("inputs"), record.get("inputs")),
                    fix="see what differs in files that the spec names, and remove the one that is wrong",
                )
            if known["status"] != "done" and record["status"] == "done":
                found[trial] = (part, record)
    return found


def _check_identities(planned: Planned, chosen: Mapping[str, tuple[Path, Record]]) -> None:
    """
    Raises:
        OutputError: a trial is not of this experiment, or ran with other settings than it has here.
    """
    ours = {trial.id: trial for trial in planned.trials}
    for trial, (part, record) in chosen.items():
        if trial not in ours:
            raise OutputError(f"{part} holds {trial}, which the spec does not have", fix=f"remove it from {part}")
        if ours[trial].identity != record["identity"]:
            raise OutputError(
                f"{part} holds {trial}, run with other settings than the spec gives here"
                + in_words(record.get("inputs"), ours[trial].inputs),
                fix="have the same version of testbed, and of files that the spec names, on all machines",
            )


def _environments(parts: Sequence[Path]) -> dict[str, dict[str, Any]]:
    """Environments of the parts, by their names; a part that was merged itself has several."""
    names = [part.resolve().name for part in parts]
    unique = len(set(names)) == len(names)
    found: dict[str, dict[str, Any]] = {}
    for part, name in zip(parts, names, strict=True):
        who = name if unique else str(part)
        own = provenance.apart(environment_of(part), who)
        found |= own if len(own) == 1 else {f"{who}/{inner}": one for inner, one in own.items()}
    return found


def _copy(part: Path, out: Path, trial: str) -> None:
    """Copy a trial's files, of a part that somebody else may have made: no link in it is followed.

    Raises:
        OutputError: one is a link, or no regular file; or ``out`` cannot be written.
    """
    for name in files_of(part, trial):
        with named_errors(out):
            (out / name).parent.mkdir(parents=True, exist_ok=True)
            try:
                copy(part / name, out / name, part)
            except UnfitError as error:
                raise OutputError(f"{part / name}: {error}", fix="remove it from the part") from None
