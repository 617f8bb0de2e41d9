"""The mark in somebody else's suite: what passes, fails and skips, and that it costs nothing where it is not used."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from testbed.api.spec import words_of
from testbed.pytest_plugin import arguments

SUITE = """
import pytest

@pytest.mark.testbed("spec.yaml", baseline="baseline.json"{more})
def test_gst(testbed_run):
    assert (testbed_run / "resolved.json").exists()

def test_other():
    pass
"""
STUB = """
import json, pathlib, sys
words = sys.argv[1:]
out = pathlib.Path(words[words.index("--out") + 1])
out.mkdir()
(out / "resolved.json").write_text(json.dumps(words))
(out / "comparison.json").write_text({comparison!r}) if {comparison!r} else None
print({told!r})
print("inconclusive: ring, batch 2: GST: too few repeats")
print("not compared: PS, batch 2: GST: INVALID on both sides")
sys.exit({code})
"""


WORSE = {
    "judged": [
        {"arm": "PS", "batch": 2, "point": {}, "metric": "gst", "verdict": "same", "ratio": None},
        {
            **{"arm": "ring", "batch": 2, "point": {"hosts": 3}, "metric": "gst", "verdict": "worse"},
            "ratio": {"value": 1.2512, "low": 1.2401, "high": 1.2604},
        },
    ],
    "failures": [
        {
            **{"arm": "PS", "batch": 2, "point": {}, "accepted": False},
            **{"base": {"failed": 0, "trials": 4}, "new": {"failed": 2, "trials": 4}},
        }
    ],
}


def run_suite(
    folder: Path, code: int, *, comparison: str = "{}", more: str = "", told: str = "", after: str = "", at: str = "."
) -> str:
    """Run a suite in which ``python -m testbed`` is a program that ends with ``code``; what pytest says in 80 columns.
    The test is in the folder ``at``."""
    package = folder / "stub" / "testbed"
    package.mkdir(parents=True)
    root = Path(__file__).parents[2] / "testbed"
    (package / "base").mkdir()
    for name in (
        "__init__",
        "errors",
        "pytest_plugin",
        "base/__init__",
        "base/errors",
        "base/exits",
        "base/marks",
        "base/python",
    ):
        (package / f"{name}.py").write_text((root / f"{name}.py").read_text())
    (package / "__main__.py").write_text(STUB.format(comparison=comparison, told=told, code=code))
    (folder / at).mkdir(exist_ok=True)
    (folder / at / "test_mine.py").write_text(SUITE.format(more=more) + after)
    for name in ("spec.yaml", "baseline.json"):
        if not (folder / at / name).exists():
            (folder / name).touch()
    (folder / "pytest.ini").write_text("[pytest]\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "testbed.pytest_plugin", "-rfs", "--strict-markers", "-v"],
        cwd=folder,
        env={
            "PYTHONPATH": str(folder / "stub"),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "PATH": "/usr/bin:/bin",
            "COLUMNS": "80",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout + done.stderr


def test_a_run_that_is_not_slower_passes(tmp_path: Path) -> None:
    assert "2 passed" in run_suite(tmp_path, 0)


def test_slower_fails_and_says_what_the_command_said(tmp_path: Path) -> None:
    told = run_suite(tmp_path, 3)
    assert "1 failed, 1 passed" in told
    assert f"testbed run {tmp_path}/spec.yaml --baseline {tmp_path}/baseline.json --metric gst: exit code 3" in told
    assert "too few repeats" in told
    assert "Traceback" not in told


def test_the_first_line_of_a_failure_is_the_verdict_and_the_summary_shows_it(tmp_path: Path) -> None:
    told = run_suite(tmp_path, 3, comparison=json.dumps(WORSE), more=", threshold='5 %'")
    assert "--threshold '5 %': exit code 3" in told
    first = "GST 1.25x, worse: ring, batch 2, hosts=3 (1.24 to 1.26 of the baseline) (and 1 more)"
    assert f"\n{first}\ntestbed run " in told


@pytest.mark.parametrize("at", [".", "tests_of_the_network"])
def test_a_summary_of_80_columns_has_the_verdict(tmp_path: Path, at: str) -> None:
    told = run_suite(tmp_path, 3, comparison=json.dumps(WORSE), at=at)
    (summary,) = (line for line in told.splitlines() if line.startswith("FAILED "))
    assert summary.startswith(f"FAILED {Path(at, 'test_mine.py')}::test_gst - Failed: GST 1.25x, worse")
    assert len(summary) <= 80


def test_the_worst_number_comes_first(tmp_path: Path) -> None:
    worse = {**WORSE["judged"][1], "arm": "PS", "metric": "throughput"}
    judged = [*WORSE["judged"], {**worse, "ratio": {"value": 0.5, "low": None, "high": None}}]
    told = run_suite(tmp_path, 3, comparison=json.dumps({**WORSE, "judged": judged}))
    assert "samples/s 0.5x, worse: PS, batch 2, hosts=3 (and 2 more)" in told


def test_a_verdict_beside_which_the_summary_has_no_room_is_written_before_it(tmp_path: Path) -> None:
    at = "tests_of_the_network_and_of_all_schemes_that_train_on_it_in_each_night"
    told = run_suite(tmp_path, 3, comparison=json.dumps(WORSE), at=at)
    summary = told.index("short test summary info")
    verdict = "GST 1.25x, worse: ring, batch 2, hosts=3 (1.24 to 1.26 of the baseline) (and 1 more)"
    assert f"\n{at}/test_mine.py::test_gst:\n  {verdict}\n" in told[:summary]
    assert "GST 1.25x" not in told[summary:]


def test_the_reason_why_runs_cannot_be_compared_is_in_the_verdict(tmp_path: Path) -> None:
    error = "error: the conditions of base and new differ:\n  links.rate: 4 in base, 3 in new"
    told = run_suite(tmp_path, 4, comparison="", told=error)
    before, summary = told.split("short test summary info")
    assert "\ntest_mine.py::test_gst:\n  conditions differ: links.rate: 4 in base, 3 in new\n" in before
    assert " - Failed: conditions differ: links" in summary


def test_a_mistake_in_a_mark_is_written_whole(tmp_path: Path) -> None:
    told = run_suite(tmp_path, 0, more=", metric='gst'")
    verdict = "mark testbed: there is no 'metric'; it takes baseline, metrics, threshold, set, allow"
    assert f"\ntest_mine.py::test_gst:\n  {verdict}\n" in told[: told.index("short test summary info")]


def test_a_verdict_that_the_summary_shows_whole_is_not_written_twice(tmp_path: Path) -> None:
    told = run_suite(tmp_path, 2, comparison="")
    assert "\nFAILED test_mine.py::test_gst - Failed: testbed run ended without a verdict\n" in told
    assert "test_gst:\n" not in told


def test_a_summary_of_80_columns_has_trials_that_failed(tmp_path: Path) -> None:
    told = run_suite(tmp_path, 3, comparison=json.dumps({**WORSE, "judged": []}))
    assert "\n2 of 4 FAILED: PS, batch 2 (0 of 4 in the baseline)\ntestbed run " in told
    assert "\nFAILED test_mine.py::test_gst - Failed: 2 of 4 FAILED: PS, batch 2" in told


def test_files_beside_the_test_come_before_those_of_the_root(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "spec.yaml").touch()
    (tmp_path / "spec.yaml").touch()
    told = run_suite(tmp_path, 3, at="inner")
    assert f"testbed run {tmp_path}/inner/spec.yaml --baseline {tmp_path}/baseline.json" in told


def test_a_baseline_may_be_a_run(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").touch()
    (tmp_path / "runs" / "base").mkdir(parents=True)
    words = arguments("a.yaml", baseline="runs/base", folders=(tmp_path / "x", tmp_path))
    assert words[:4] == ["run", f"{tmp_path}/a.yaml", "--baseline", f"{tmp_path}/runs/base"]
    with pytest.raises(pytest.fail.Exception, match=r"there is no spec 'runs'; looked for "):
        arguments("runs", baseline="runs/base", folders=(tmp_path,))


def test_a_file_that_is_nowhere_is_named_with_where_it_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(pytest.fail.Exception) as failed:
        arguments("a.yaml", baseline="b.json", folders=(tmp_path, tmp_path / "x"))
    assert str(failed.value) == (
        f"mark testbed: there is no spec 'a.yaml'; looked for {tmp_path}/a.yaml and {tmp_path}/x/a.yaml"
    )


def test_inconclusive_is_a_skip_with_its_reason(tmp_path: Path) -> None:
    told = run_suite(tmp_path, 4)
    assert "1 passed, 1 skipped" in told
    assert "inconclusive: inconclusive" not in told
    assert "ring, batch 2: GST: too few repeats; not compared: PS, batch 2: GST: INVALID on both sides" in told


@pytest.mark.parametrize(("code", "comparison"), [(4, ""), (1, "{}"), (2, "")])
def test_what_ran_into_trouble_or_cannot_be_compared_fails(tmp_path: Path, code: int, comparison: str) -> None:
    assert "1 failed, 1 passed" in run_suite(tmp_path, code, comparison=comparison)


def test_the_fixture_without_the_mark_is_an_error_that_says_how_to_mark(tmp_path: Path) -> None:
    told = run_suite(tmp_path, 0, after="\ndef test_unmarked(testbed_run):\n    pass\n")
    assert "2 passed, 1 error" in told
    assert (
        "test_unmarked takes testbed_run and has no mark, so no experiment runs: "
        '@pytest.mark.testbed("experiments/mine.yaml", baseline="baseline.json")'
    ) in told
    assert "Traceback" not in told


def test_a_mark_with_a_mistake_fails_with_a_sentence(tmp_path: Path) -> None:
    told = run_suite(tmp_path, 0, more=", threshold=0.2")
    assert "\nmark testbed: threshold is 0.2; it takes text such as '5%', a list of texts, or a dict\n" in told
    assert "Traceback" not in told
    assert "During handling" not in told


@pytest.mark.parametrize(
    ("specs", "options", "problem"),
    [
        (["a.yaml"], {}, "baseline is missing; it takes a path such as 'baseline.json'"),
        (["a.yaml"], {"baseline": 3}, "baseline is 3; it takes a path such as 'baseline.json'"),
        ([], {"baseline": "b.json"}, "takes one spec, such as 'experiments/mine.yaml', and has none"),
        (["a.yaml", "b.json"], {}, "takes one spec, such as 'experiments/mine.yaml', and has 2"),
        (["a.yaml"], {"spec": "b.yaml"}, "takes one spec, such as 'experiments/mine.yaml', and has 2"),
        ([["a.yaml"]], {}, "spec is ['a.yaml']; it takes a path such as 'experiments/mine.yaml'"),
        (["a.yaml"], {"treshold": "5%"}, "there is no 'treshold'; it takes baseline, metrics, threshold, set, allow"),
        (
            ["a.yaml"],
            {"baseline": "b.json", "set": 3},
            "set is 3; it takes text such as 'workload.iterations=5', a list of texts, or a dict",
        ),
        (
            ["a.yaml"],
            {"baseline": "b.json", "set": {"seed": 2j}},
            "set: seed: cannot be written as YAML: ('cannot represent an object', 2j)",
        ),
        (
            ["a.yaml"],
            {"baseline": "b.json", "metrics": ["gst", None]},
            "metrics is ['gst', None]; it takes text such as 'gst', or a list of texts",
        ),
    ],
)
def test_a_mistake_in_a_mark_is_named(specs: list[object], options: dict[str, object], problem: str) -> None:
    with pytest.raises(pytest.fail.Exception) as failed:
        arguments(*specs, **options)
    assert str(failed.value) == f"mark testbed: {problem}"
    assert failed.value.__context__ is None


def test_a_mark_becomes_the_commands_options() -> None:
    words = arguments("a.yaml", baseline="b.json", metrics=["gst", "jct"], threshold="5%", set=["seed=2"], allow="cpu")
    assert words == [
        *("run", "a.yaml", "--baseline", "b.json", "--metric", "gst", "--metric", "jct"),
        *("--threshold", "5%", "--set", "seed=2", "--allow", "cpu"),
    ]


def test_settings_and_thresholds_may_be_dicts() -> None:
    changes = {"links.rate": "5 Mbit/s", "workload.batch": [2, 4], "perturb": [{"kind": "delay", "hosts": None}]}
    words = arguments("a.yaml", baseline="b.json", set=changes, threshold={"gst": "5%"})
    assert words[words.index("--set") :] == [
        *("--set", "links.rate=5 Mbit/s", "--set", "workload.batch=[2, 4]"),
        *("--set", "perturb=[{kind: delay, hosts: null}]", "--threshold", "gst=5%"),
    ]


def test_settings_of_a_mark_are_written_as_those_of_testbed_run() -> None:
    """Whole numbers as keys, and numbers that JSON writes as YAML's texts, among them."""
    changes = {
        **{"workload.compute.pace": {16: "0.1 s"}, "workload.learning_rate": 1e-05, "links.rate": "5 Mbit/s"},
        **{"name": None, "workload.batch": [2, 4], "arms.0.label": True},
    }
    words = arguments("a.yaml", baseline="b.json", set=changes)
    with words_of("a.yaml", changes) as of_run:
        assert [f"--set={text}" for text in words[words.index("--set") + 1 :: 2]] == of_run[:-2]
    assert "workload.compute.pace={16: 0.1 s}" in words
    assert "workload.learning_rate=1.0e-05" in words


def test_the_plugin_imports_nothing_of_size() -> None:
    code = "import sys, pytest, testbed.pytest_plugin; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"numpy", "pandas", "scipy", "torch", "typer", "yaml", "pydantic"} & set(done.stdout.split())


def test_the_plugin_is_registered() -> None:
    """As what an installation brings, whatever is installed here."""
    import tomllib

    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {"testbed": "testbed.pytest_plugin"}
