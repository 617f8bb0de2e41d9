"""Whether a run may be gone on with: its spec is the one that is asked for, and so are the trials that it holds."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from shlex import quote
from typing import Any

from testbed.analysis.cell import cell_of
from testbed.base.errors import SpecError
from testbed.base.listing import shortened
from testbed.experiment.repeats import Planned
from testbed.run_directory import stored
from testbed.run_directory.resolved import chosen, differences, resolved
from testbed.spec import Source
from testbed.spec.sought import Chosen
from testbed.trial.inputs import in_words
from testbed.trial.model import PATIENCE, Trial

MAY_CHANGE = {"schema", "repeats", *PATIENCE, "overrides", "folder", "planned", "part", "most_rounds"}
"""Settings of a spec that may be others when a run goes on: no trial's result depends on them. That all trials which
ran are still asked for is seen by their ids."""
TOLD = 3
"""The most differences that a message names."""


def as_began(run: Path, source: Source) -> Source:
    """Add to a spec to go on with what was chosen when the run began: a scale, paces, and what was found for arms.

    Raises:
        OutputError, SpecError: the directory is damaged, or the spec cannot be.
    """
    began = chosen(stored.made(run))
    arms = {number: one for number, one in began.arms.items() if number in source.sought}
    wanted = Chosen(began.scale if source.wants_fit else None, arms, began.pace_s if source.wants_pace else {})
    return source if wanted == Chosen() else source.as_chosen(wanted)


def with_found_of(run: Path, source: Source) -> Source:
    """Add to a spec to begin with what was found for its arms when another run of it began, such as another part.

    Raises:
        SpecError: the run is of another experiment.
        OutputError: the directory is damaged.
    """
    if not source.sought:
        return source
    taken = as_began(run, source)
    check_same(run, taken, "give a run of this spec, or leave out --found")
    return taken


def check_same(run: Path, source: Source, fix: str = "") -> None:
    """
    Raises:
        SpecError: ``source`` is of another experiment than the run; names what differs.
        OutputError: the directory is damaged.
    """
    asked = json.loads(json.dumps(resolved(source)))  # as it would be read
    found = differences(stored.made(run), asked, MAY_CHANGE)
    if found:
        told = [f"{key} was {ours}, and {theirs} is asked for" for key, ours, theirs in found]
        raise SpecError(
            f"{run} is a run of another experiment than {source.name}: {shortened(told, TOLD, '; ', 'more settings')}",
            fix=fix
            or f"start a new run with --out DIR, or go on without a spec: testbed run --resume {quote(str(run))}",
        )


def keep_ids(run: Path, planned: Planned) -> None:
    """Let trials that ran under other ids keep these: an earlier version of testbed may have begun the run.

    Raises:
        OutputError: a record is damaged.
    """
    unknown = planned.unknown(path.stem for path in sorted((run / "trials").glob("*.json")))
    if unknown:
        records = (stored.read_record(run, run / "trials" / f"{one}.json") for one in unknown)
        planned.keep_ids(one for one, name in zip(records, unknown, strict=True) if one["id"] == name)


def check_asked_for(run: Path, planned: Planned) -> None:
    """
    Raises:
        SpecError: a trial was run that is none of the experiment's.
    """
    ran = [path.stem for path in sorted((run / "trials").glob("*.json"))]
    unknown = planned.unknown(ran)
    if unknown:
        record = stored.read_record(run, run / "trials" / f"{unknown[0]}.json")
        for trial in planned.trials:  # one of several that shorten alike has a piece of its identity in its id
            if trial.cell == cell_of(record) and trial.identity != record["identity"]:
                raise _changed(run, record, trial)
        raise SpecError(
            f"{run} holds {shortened(unknown, TOLD)}, which the spec does not have with {planned.repeats}",
            fix=f"start a new run with --out DIR, or remove from {run}/trials what does not belong there",
        )


def finished(run: Path, trials: Sequence[Trial]) -> dict[str, dict[str, Any]]:
    """Read the records of those of ``trials`` that are done already, by id.

    Raises:
        SpecError: one of them ran with other settings.
        OutputError: a record is damaged, or is another trial's.
    """
    found = {}
    for trial in trials:
        record = stored.record(run, trial.id)
        if record is None:
            continue
        if record["identity"] != trial.identity:
            raise _changed(run, record, trial)
        if record["status"] == "done":
            found[trial.id] = record
    return found


def _changed(path: Path, record: Mapping[str, Any], trial: Trial) -> SpecError:
    told = in_words(record.get("inputs"), trial.inputs)
    if "inputs" not in record or (not told and record["id"] != trial.id):
        told = ", or by an earlier version of testbed"
    return SpecError(
        f"{path} holds {record['id']}, run with other settings than the spec has now{told}",
        fix=f"{'put that back, or ' if told.startswith(':') else ''}run into a new directory, without --resume",
    )
