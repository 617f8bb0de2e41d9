"""A command in a process of its own: its progress, its errors, and how it is interrupted. Scripts stand for it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import testbed
from testbed.api import process
from testbed.base.errors import SpecError, TestbedError, TrialError
from tests.analysis.conftest import write_run


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command runs the Python that is its first word."""
    monkeypatch.setattr(process, "COMMAND", (sys.executable, "-c"))


pytestmark = pytest.mark.usefixtures("script")


def test_progress_is_shown_and_the_answer_given(capsys: pytest.CaptureFixture[str]) -> None:
    assert process.call("import sys; print('1 of 2', file=sys.stderr); print('{\"run\": 1}')") == {"run": 1}
    assert capsys.readouterr().err == "1 of 2\n"


def test_an_error_is_raised_and_not_shown_as_well(capsys: pytest.CaptureFixture[str]) -> None:
    told = '{"error": {"type": "SpecError", "problem": "no", "fix": "yes"}}'
    with pytest.raises(SpecError) as error:
        process.call(f"import sys; print({told!r}); print('before\\nerror: no\\n  fix: yes', file=sys.stderr); exit(2)")
    assert str(error.value) == "no\n  fix: yes"
    assert capsys.readouterr().err == "before\n"


def test_an_error_that_is_told_as_text_alone_is_raised() -> None:
    with pytest.raises(TestbedError, match="too little memory"):
        process.call("exit('error: too little memory')")


def test_a_process_that_was_killed_is_told() -> None:
    with pytest.raises(TrialError, match="was ended by signal 9"):
        process.call("import os; os.kill(os.getpid(), 9)")
    with pytest.raises(TrialError, match="ended with exit code 7"):
        process.call("exit(7)")


def test_a_run_with_failed_trials_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = write_run(tmp_path / "run")
    script = f'print(\'{{"run": "{directory}"}}\'); exit(1)'
    monkeypatch.setattr(process, "COMMAND", (sys.executable, "-c", script))
    assert testbed.run("mine.yaml").failed == ("ps-b64",)


@pytest.mark.usefixtures("interruptible")
def test_an_interruption_is_passed_on_and_raised_at_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    """Once it is ready, somebody presses Ctrl-C, and again while it ends."""
    script = """
import os, signal, sys, time
def end(*_):
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.kill(os.getppid(), signal.SIGINT)
    time.sleep(0.5)
    print("kept; go on with: testbed run --resume", file=sys.stderr)
    sys.exit(130)
signal.signal(signal.SIGINT, end)
os.kill(os.getppid(), signal.SIGINT)
time.sleep(60)
"""
    with pytest.raises(KeyboardInterrupt):
        process.call(script)
    assert capsys.readouterr().err == "kept; go on with: testbed run --resume\n"
