"""A pytest plugin: a test that runs an experiment, and fails where synchronisation got slower than in a baseline.

::

    @pytest.mark.testbed("experiments/mine.yaml", baseline="baseline.json")
    def test_gst_is_as_before(testbed_run):
        ...  # after the gate; testbed_run, if you want it, is the run's directory

Worse is a failure, and so is a run that fails or cannot be compared; inconclusive is a skip, with the reason. A test
that takes ``testbed_run`` without the mark is an error. A process of its own decides: ``testbed run SPEC --baseline
FILE``. Paths are relative to pytest's root directory. ``metrics`` (default ``"gst"``), ``threshold``, ``set`` and
``allow`` are texts, or lists of texts, for the options of that command.

Nothing of size is imported, and nothing runs, where no test has the mark.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

import pytest

from testbed.base.exits import OK, UNDECIDED
from testbed.base.python import module_command

MARK = "testbed"
FIXTURE = "testbed_run"
FILES = ("spec", "baseline")
OPTIONS = {"metrics": "--metric", "threshold": "--threshold", "set": "--set", "allow": "--allow"}
EXAMPLES = {
    "spec": "experiments/mine.yaml",
    "baseline": "baseline.json",
    "metrics": "gst",
    "threshold": "5%",
    "set": "workload.iterations=5",
    "allow": "kernel",
}


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        f"{MARK}(spec, baseline, metrics='gst', threshold=(), set=(), allow=()): run a testbed experiment, and fail if "
        "it is slower than its baseline",
    )


@pytest.fixture
def testbed_run(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The directory of the run that the mark ``testbed`` asks for: trials' records, samples, comparison.json.

    Raises:
        pytest.fail.Exception: the test has no such mark, so nothing would run.
    """
    if request.node.get_closest_marker(MARK) is None:
        raise pytest.fail.Exception(
            f"{request.node.name} takes {FIXTURE} and has no mark, so no experiment runs: "
            f'@pytest.mark.{MARK}("{EXAMPLES["spec"]}", baseline="{EXAMPLES["baseline"]}")',
            pytrace=False,
        )
    return tmp_path / "testbed"


def pytest_itemcollected(item: pytest.Item) -> None:
    """Every marked test has the run's directory, whether it asks for it or not."""
    if item.get_closest_marker(MARK) and isinstance(item, pytest.Function) and FIXTURE not in item.fixturenames:
        item.fixturenames.append(FIXTURE)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    mark = item.get_closest_marker(MARK)
    if mark is not None and isinstance(item, pytest.Function):
        _gate(item, arguments(*mark.args, **mark.kwargs))
    return (yield)


def arguments(*specs: Any, **options: Any) -> list[str]:
    """Those of ``testbed`` that a mark stands for.

    Raises:
        pytest.fail.Exception: the mark has a mistake.
    """
    unknown = [name for name in options if name not in (*FILES, *OPTIONS)]
    if unknown:
        _refuse(f"there is no {unknown[0]!r}; it takes {', '.join((*FILES[1:], *OPTIONS))}")
    given = [*specs, *([options["spec"]] if "spec" in options else [])]
    if len(given) != 1:
        _refuse(f"takes one spec, such as {EXAMPLES['spec']!r}, and has {len(given) or 'none'}")
    words = ["run", _file("spec", given[0]), "--baseline", _file("baseline", options.get("baseline"))]
    for name, values in {"metrics": "gst", **options}.items():
        if name in OPTIONS:
            words += [word for text in _texts(name, values) for word in (OPTIONS[name], text)]
    return words


def _file(name: str, value: Any) -> str:
    if not isinstance(value, str | Path):
        problem = "is missing" if value is None else f"is {value!r}"
        _refuse(f"{name} {problem}; it takes a path such as {EXAMPLES[name]!r}")
    return str(value)


def _texts(name: str, values: Any) -> Sequence[str]:
    several = [values] if isinstance(values, str) else values
    if not isinstance(several, list | tuple) or not all(isinstance(one, str) for one in several):
        _refuse(f"{name} is {values!r}; it takes text such as {EXAMPLES[name]!r}, or a list of texts")
    return several


def _refuse(problem: str) -> NoReturn:
    raise pytest.fail.Exception(f"mark {MARK}: {problem}", pytrace=False)


def _gate(item: pytest.Function, words: list[str]) -> None:
    """Run it, and end the test where it does not pass."""
    out = Path(str(item.funcargs[FIXTURE]))
    done = subprocess.run(
        module_command("testbed", *words, "--out", str(out)),
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
