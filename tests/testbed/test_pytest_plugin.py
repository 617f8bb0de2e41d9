"""The mark in somebody else's suite: what passes, fails and skips, and that it costs nothing where it is not used."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

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
{comparison}
print("inconclusive: ring, batch 2: GST: too few repeats")
sys.exit({code})
"""


def run_suite(folder: Path, code: int, *, comparison: bool = True, more: str = "", after: str = "") -> str:
    """Run a suite in which ``python -m testbed`` is a program that ends with ``code``; what pytest says."""
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
    written = '(out / "comparison.json").write_text("{}")' if comparison else ""
    (package / "__main__.py").write_text(STUB.format(comparison=written, code=code))
    (folder / "test_mine.py").write_text(SUITE.format(more=more) + after)
    (folder / "pytest.ini").write_text("[pytest]\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "testbed.pytest_plugin", "-rs", "--strict-markers", "-v"],
        cwd=folder,
        env={"PYTHONPATH": str(folder / "stub"), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PATH": "/usr/bin:/bin"},
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
    assert "testbed run spec.yaml --baseline baseline.json --metric gst: exit code 3" in told
    assert "too few repeats" in told
    assert "Traceback" not in told


def test_inconclusive_is_a_skip_with_its_reason(tmp_path: Path) -> None:
    told = run_suite(tmp_path, 4)
    assert "1 passed, 1 skipped" in told
    assert "inconclusive: inconclusive" not in told
    assert "ring, batch 2: GST: too few repeats" in told


@pytest.mark.parametrize(("code", "comparison"), [(4, False), (1, True), (2, False)])
def test_what_ran_into_trouble_or_cannot_be_compared_fails(tmp_path: Path, code: int, comparison: bool) -> None:
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
    assert "\nmark testbed: threshold is 0.2; it takes text such as '5%', or a list of texts\n" in told
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
            {"baseline": "b.json", "set": {"seed": 2}},
            "set is {'seed': 2}; it takes text such as 'workload.iterations=5', or a list of texts",
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


def test_the_plugin_imports_nothing_of_size() -> None:
    code = "import sys, pytest, testbed.pytest_plugin; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"numpy", "pandas", "scipy", "torch", "typer", "yaml", "pydantic"} & set(done.stdout.split())


def test_the_plugin_is_registered() -> None:
    """As what an installation brings, whatever is installed here."""
    import tomllib

    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {"testbed": "testbed.pytest_plugin"}
