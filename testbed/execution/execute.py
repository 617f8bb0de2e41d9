"""One trial: have it run in a place, and make its record, its tables and its verdict of what was seen there."""

from __future__ import annotations

import time
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from testbed.base.errors import DiskFullError, TrialError
from testbed.evidence.referee import Referee
from testbed.execution.accounting import account, told_by_processes
from testbed.execution.observed import Outcome
from testbed.execution.place import Place
from testbed.execution.several import blank_trial, joined
from testbed.execution.so_far import Tick
from testbed.execution.working_files import blame_full_disk, check_room, needed_bytes, working_files
from testbed.trial.inputs import check_unchanged
from testbed.trial.model import Trial

__all__ = ["Outcome", "Tick", "blank_trial", "execute"]


def execute(
    trial: Trial, place: Place, referee: Referee, run_dir: Path, congestion_control: str, tick: Tick
) -> Outcome:
    """Run a trial, and call ``tick`` while it runs. A trial that fails has an Outcome too, with ``status`` failed and
    the reason, and its place is closed.

    Raises:
        PrivilegeError, DiskFullError, OutputError: an error that would fail every other trial as well.
        ChangedError: a file that the trial reads was changed since it was planned, or while it ran.
    """
    check_unchanged(trial)
    started, began_s = datetime.now(UTC), time.monotonic()
    record = blank_trial(trial) | {"started": started.isoformat(timespec="seconds")}
    outcome = Outcome({})
    check_room(run_dir, needed_bytes(trial))
    with working_files(run_dir, trial) as files:
        try:
            seen = place.run(trial, files, congestion_control, tick)
            outcome.lab, ran = seen.lab, seen.trial
            record |= {"found": list(ran.found)} if ran.found else {}
            record |= {"not_kept": list(seen.not_kept)} if seen.not_kept else {}
            accounts = {job.name: account(ran, job, seen, referee, files) for job in ran.jobs}
            with told_by_processes():
                outcome = joined(ran, accounts, seen)
            record |= outcome.record
            if outcome.error:
                raise outcome.error
            record["status"] = "done"
            record["strikes"] = list(map(asdict, ran.strikes(record["metrics"]["jct_s"])))
        except DiskFullError:
            raise
        except TrialError as error:
            place.close()
            blame_full_disk(trial, run_dir)
            record |= {"found": list(error.found)} if error.found else {}
            record |= {"not_kept": list(error.not_kept)} if error.not_kept else {}
            record |= {"error": str(error), "events": list(error.events), "by_perturb": error.by_perturb}
    check_unchanged(trial)
    outcome.record = record | {"duration_s": round(time.monotonic() - began_s, 3)}
    return outcome
