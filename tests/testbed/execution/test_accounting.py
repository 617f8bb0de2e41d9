"""Accounts of jobs, and what a trial comes to by them: of trials that were played, and then spoilt."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from testbed.base.errors import WorkerError
from testbed.evidence.referee import Referee
from testbed.execution import execute
from testbed.execution.accounting import account, rate_changes
from testbed.execution.observed import Observed, Outcome
from testbed.execution.several import joined
from testbed.experiment.expand import trials
from testbed.spec import read
from testbed.testing import IdealPlace
from testbed.trial.files import Files
from testbed.trial.model import Trial
from testbed.workloads.kinds.asked import Change

from ..conftest import SPEC
from ..test_testing import JOBS


def seen_of(text: str, folder: Path) -> tuple[Trial, Observed, Callable[[], Outcome]]:
    """A trial, what was seen of it, and what it comes to, which is worked out when it is asked for."""
    trial, files = trials(read(text, "spec.yaml", Path()))[0], Files(folder, folder)
    seen = IdealPlace().run(trial, files, "reno", lambda *_: None)

    def outcome() -> Outcome:
        return joined(trial, {job.name: account(trial, job, seen, Referee(), files) for job in trial.jobs}, seen)

    return trial, seen, outcome


def test_a_job_whose_lines_do_not_go_together_fails_alone(tmp_path: Path) -> None:
    _, seen, outcome = seen_of(JOBS, tmp_path)
    for line in (line for name, lines in seen.lines.items() if name.startswith("a/") for line in lines):
        line.pop("sum", None)
    a, b = outcome().record["jobs"]
    assert (a["status"], b["status"]) == ("failed", "done")
    assert "what the workers wrote does not go together" in a["error"]
    assert outcome().error is None


def test_a_trial_fails_if_all_its_jobs_do(tmp_path: Path) -> None:
    _, seen, outcome = seen_of(JOBS, tmp_path)
    seen.failed = {name: WorkerError(f"{name} died", fix="mend it") for name in ("a", "b")}
    assert str(outcome().error) == "a died\n  fix: mend it"


def test_a_job_that_is_alone_is_the_trial(tmp_path: Path) -> None:
    trial, seen, outcome = seen_of(SPEC, tmp_path)
    whole = outcome()
    assert "jobs" not in whole.record
    assert whole.samples is not None
    assert len(whole.samples) == trial.job.world * trial.iterations
    for lines in seen.lines.values():
        lines.clear()
    assert isinstance(outcome().error, Exception)


def test_the_middle_of_a_trial_is_short() -> None:
    text = Path(execute.__file__).read_text()
    imports = [one for one in ast.walk(ast.parse(text)) if isinstance(one, ast.Import | ast.ImportFrom)]
    assert len(text.splitlines()) <= 200
    assert len(imports) <= 20


def event(done_s: float | None, rate_bps: dict[str, int], **more: Any) -> dict[str, Any]:
    links = {"rate_bps": rate_bps, "blocked": more.pop("blocked", {})}
    return {"begun_s": 0.0, "done_s": done_s, "error": None, "links": links, **more}


def test_changes_are_in_the_order_in_which_they_were_done() -> None:
    found = rate_changes([event(2.0, {"3": 5}), event(1.0, {"3": 7, "4": 8}), {"begun_s": 0.5, "links": None}])
    assert found == [Change(1.0, {3: 7.0, 4: 8.0}), Change(2.0, {3: 5.0})]


def test_what_never_began_changed_nothing() -> None:
    assert rate_changes([event(None, {"3": 5}, begun_s=None)]) == []


@pytest.mark.parametrize(
    "other", [event(1.0, {}, blocked={"3": True}), event(None, {"3": 5}), event(1.0, {"3": 5}, error="tc failed")]
)
def test_nothing_is_predicted_where_nobody_knows_the_rates(other: dict[str, Any]) -> None:
    assert rate_changes([event(1.0, {"3": 5}), other]) is None
