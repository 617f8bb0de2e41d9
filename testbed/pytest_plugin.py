"""A pytest plugin: a test that runs an experiment, and fails where synchronisation got slower than in a baseline.

::

    @pytest.mark.testbed("experiments/mine.yaml", baseline="baseline.json")
    def test_gst_is_as_before(testbed_run):
        ...  # after the gate; testbed_run, if you want it, is the run's directory

Worse is a failure, and so is a run that fails or cannot be compared; inconclusive is a skip, with the reason. A process
of its own decides: ``testbed run SPEC --baseline FILE``. Paths are relative to pytest's root directory. ``metrics``
(default ``"gst"``), ``threshold``, ``set`` and ``allow`` are texts, or lists of texts, for the options of that
command.

Nothing of size is imported, and nothing runs, where no test has the mark.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from testbed.exits import OK, UNDECIDED

MARK = "testbed"
FIXTURE = "testbed_run"
OPTIONS = {"metrics": "--metric", "threshold": "--threshold", "set": "--set", "allow": "--allow"}


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        f"{MARK}(spec, baseline, metrics='gst', threshold=(), set=(), allow=()): run a testbed experiment, and fail if "
        "it is slower than its baseline",
    )


@pytest.fixture
def testbed_run(tmp_path: Path) -> Path:
    """The directory of the run that the mark ``testbed`` asks for: trials' records, samples, comparison.json."""
    return tmp_path / "testbed"


def pytest_itemcollected(item: pytest.Item) -> None:
    """Every marked test has the run's directory, whether it asks for it or not."""
    if item.get_closest_marker(MARK) and isinstance(item, pytest.Function) and FIXTURE not in item.fixturenames:
        item.fixturenames.append(FIXTURE)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    mark = item.get_closest_marker(MARK)
    if mark is not None and isinstance(item, pytest.Function):
        try:
            words = arguments(*mark.args, **mark.kwargs)
        except TypeError as error:  # Python's own words for an argument too many or too few
            pytest.fail(f"mark {MARK}: {error}", pytrace=False)
        _gate(item, words)
    return (yield)


def arguments(spec: str, *, baseline: str, metrics: str | list[str] = "gst", **others: Any) -> list[str]:
    """Those of ``testbed`` that a mark stands for."""
    words = ["run", str(spec), "--baseline", str(baseline)]
    for name, values in {"metrics": metrics, **others}.items():
        if name not in OPTIONS:
            pytest.fail(f"mark {MARK}: there is no {name!r}; it takes baseline, {', '.join(OPTIONS)}", pytrace=False)
        for value in [values] if isinstance(values, str) else values:
            words += [OPTIONS[name], value]
    return words


def _gate(item: pytest.Function, words: list[str]) -> None:
    """Run it, and end the test where it does not pass."""
    out = Path(str(item.funcargs[FIXTURE]))
    done = subprocess.run(
        [sys.executable, "-m", "testbed", *words, "--out", str(out)],
        cwd=item.config.rootpath,
        capture_output=True,
        text=True,
        check=False,
    )
    told = done.stdout + done.stderr
    if done.returncode == OK:
        return
    if done.returncode == UNDECIDED and (out / "comparison.json").exists():
        pytest.skip("; ".join(line for line in told.splitlines() if line.startswith("inconclusive")))
    pytest.fail(f"testbed {' '.join(words)}: exit code {done.returncode}\n{told}", pytrace=False)
