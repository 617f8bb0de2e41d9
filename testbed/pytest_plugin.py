"""A pytest plugin: a test that runs an experiment, and fails where synchronisation got slower than in a baseline.

::

    @pytest.mark.testbed("experiments/mine.yaml", baseline="baseline.json")
    def test_gst_is_as_before(testbed_run):
        ...  # after the gate; testbed_run, if you want it, is the run's directory

Worse is a failure, whose first line is the verdict, and so is a run that fails or cannot be compared; inconclusive is a
skip, with the reason. A test that takes ``testbed_run`` without the mark is an error. A process of its own decides:
``testbed run SPEC --baseline FILE``, where FILE may also be a run. Paths start at the folder of the test's file, or,
where that has no such file, at pytest's root directory. ``metrics`` (default ``"gst"``), ``threshold``, ``set`` and
``allow`` are texts, or lists of texts, for the options of that command. ``set`` and ``threshold`` may also be dicts, as
``testbed.run`` and ``testbed.compare`` take them.

Nothing of size is imported, and nothing runs, where no test has the mark.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import pytest

from testbed.base.exits import OK, UNDECIDED
from testbed.base.python import module_command

MARK = "testbed"
FIXTURE = "testbed_run"
FILES = ("spec", "baseline")
OPTIONS = {"metrics": "--metric", "threshold": "--threshold", "set": "--set", "allow": "--allow"}
BY_KEY = ("threshold", "set")
"""Options that may be a dict."""
COMPARISON = "comparison.json"
_DIFFER = re.compile(r"^the conditions of .* differ: ")
"""Names of files that would fill a summary's line before what differs."""
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
    """Give every marked test the run's directory, whether it asks for it or not."""
    if item.get_closest_marker(MARK) and isinstance(item, pytest.Function) and FIXTURE not in item.fixturenames:
        item.fixturenames.append(FIXTURE)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    mark = item.get_closest_marker(MARK)
    if mark is not None and isinstance(item, pytest.Function):
        try:
            _gate(item, arguments(*mark.args, folders=(item.path.parent, item.config.rootpath), **mark.kwargs))
        except pytest.fail.Exception as error:
            item.user_properties.append((MARK, str(error).split("\n")[0]))
            raise
    return (yield)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Write the verdicts that pytest's own summary cuts or leaves out, because a test's id is long."""
    failed = [(test.nodeid, *test.user_properties) for test in terminalreporter.getreports("failed")]
    width = shutil.get_terminal_size().columns
    lines = [(name, verdict) for name, *properties in failed for key, verdict in properties if key == MARK]
    cut = [(name, verdict) for name, verdict in lines if len(f"FAILED {name} - Failed: {verdict}") > width]
    if cut:
        terminalreporter.section(MARK)
    for name, verdict in cut:
        terminalreporter.write_line(f"{name}:\n  {verdict}")


def arguments(*specs: Any, folders: Sequence[Path] = (), **options: Any) -> list[str]:
    """Return the arguments of ``testbed`` that a mark stands for. Its files are in the first of ``folders`` that has
    them; with no folders, they are taken as they are written.

    Raises:
        pytest.fail.Exception: the mark has a mistake.
    """
    unknown = [name for name in options if name not in (*FILES, *OPTIONS)]
    if unknown:
        _refuse(f"there is no {unknown[0]!r}; it takes {', '.join((*FILES[1:], *OPTIONS))}")
    given = [*specs, *([options["spec"]] if "spec" in options else [])]
    if len(given) != 1:
        _refuse(f"takes one spec, such as {EXAMPLES['spec']!r}, and has {len(given) or 'none'}")
    spec, baseline = _file("spec", given[0], folders), _file("baseline", options.get("baseline"), folders)
    words = ["run", spec, "--baseline", baseline]
    for name, values in {"metrics": "gst", **options}.items():
        if name in OPTIONS:
            words += [word for text in _texts(name, values) for word in (OPTIONS[name], text)]
    return words


def _file(name: str, value: Any, folders: Sequence[Path]) -> str:
    if not isinstance(value, str | Path):
        problem = "is missing" if value is None else f"is {value!r}"
        _refuse(f"{name} {problem}; it takes a path such as {EXAMPLES[name]!r}")
    places = [folder / value for folder in dict.fromkeys(folders)]
    may_be_a_run = name == "baseline"
    there = next((place for place in places if place.is_file() or (may_be_a_run and place.is_dir())), None)
    if places and there is None:
        _refuse(f"there is no {name} {str(value)!r}; looked for {' and '.join(map(str, dict.fromkeys(places)))}")
    return str(value if there is None else there)


def _texts(name: str, values: Any) -> Sequence[str]:
    several = [values] if isinstance(values, str) else values
    if isinstance(values, Mapping) and name in BY_KEY:
        several = _changes(values) if name == "set" else [f"{key}={value}" for key, value in values.items()]
    if not isinstance(several, list | tuple) or not all(isinstance(one, str) for one in several):
        form = ", a list of texts, or a dict" if name in BY_KEY else ", or a list of texts"
        _refuse(f"{name} is {values!r}; it takes text such as {EXAMPLES[name]!r}{form}")
    return several


def _changes(changes: Mapping[str, Any]) -> Sequence[str]:
    """Return what stands after ``--set``, written as ``testbed.run`` writes it."""
    from testbed.api.spec import change  # here, for it imports PyYAML, and most suites have no mark
    from testbed.base.errors import SpecError

    written: list[str] = []
    problem = ""
    try:
        written = [change(key, value) for key, value in changes.items()]
    except SpecError as error:
        problem = error.problem
    if problem:
        _refuse(problem)
    return written


def _refuse(problem: str) -> NoReturn:
    raise pytest.fail.Exception(f"mark {MARK}: {problem}", pytrace=False)


def _gate(item: pytest.Function, words: list[str]) -> None:
    """Run the experiment of a mark, and end the test where it does not pass."""
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
    if done.returncode == UNDECIDED and (out / COMPARISON).exists():
        pytest.skip("; ".join(line for line in told.splitlines() if line.startswith(("inconclusive", "not compared"))))
    command = f"testbed {shlex.join(words)}: exit code {done.returncode}"
    pytest.fail("\n".join([_verdict(out, told), command, told]), pytrace=False)


def _verdict(out: Path, told: str) -> str:
    """Say in a line why a test fails: what is worse than in the baseline, or the first error that was told. The verdict
    is at its beginning, since pytest cuts the line at the terminal's width."""
    found: dict[str, Any] = json.loads((out / COMPARISON).read_text()) if (out / COMPARISON).exists() else {}
    worse = [one for one in found.get("judged", ()) if one["verdict"] == "worse"]
    says = [_worse(one) for one in sorted(worse, key=_slowdown, reverse=True)]
    says += [_failed(one) for one in found.get("failures", ()) if not one["accepted"]]
    lines = told.replace(":\n  ", ": ").splitlines()  # what differs is below "the conditions of A and B differ:"
    errors = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
    says += [_DIFFER.sub("conditions differ: ", line) for line in errors]
    says += [line for line in lines if ": FAILED: " in line]
    more = f" (and {len(says) - 1} more)" if len(says) > 1 else ""
    return f"{says[0]}{more}" if says else "testbed run ended without a verdict"


def _slowdown(one: Mapping[str, Any]) -> float:
    ratio: float = one["ratio"]["value"]
    return ratio if one["metric"] in ("gst", "jct") else 1 / ratio


def _worse(one: Mapping[str, Any]) -> str:
    metric = {"gst": "GST", "jct": "JCT"}.get(one["metric"], "samples/s")
    value, low, high = (one["ratio"][key] for key in ("value", "low", "high"))
    between = "" if low is None or high is None else f" ({low:.3g} to {high:.3g} of the baseline)"
    return f"{metric} {value:.3g}x, worse: {_cell(one)}{between}"


def _failed(one: Mapping[str, Any]) -> str:
    now, before = (f"{one[side]['failed']} of {one[side]['trials']}" for side in ("new", "base"))
    return f"{now} FAILED: {_cell(one)} ({before} in the baseline)"


def _cell(one: Mapping[str, Any]) -> str:
    batch = f"batch {one['batch']}" if one["batch"] else ""
    return ", ".join(filter(None, [one["arm"], batch, *(f"{key}={value}" for key, value in one["point"].items())]))
