"""``testbed new``: specs to begin with."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest

from testbed.experiment.planning import plan
from testbed.spec import load
from testbed.spec.json_schema import TEMPLATE_NAMES, TEMPLATES
from testbed.spec.yaml import parse

from ..bench import Bench
from ..conftest import Called

CLI = Callable[..., Called]


@pytest.mark.parametrize("template", TEMPLATE_NAMES)
def test_every_template_can_be_planned_and_edited(template: str, testbed: CLI, tmp_path: Path) -> None:
    called = testbed("new", "own", "--from", template)
    beside = "train.py, testbed.schema.json" if template == "script" else "testbed.schema.json"
    assert (called.code, called.out) == (
        0,
        f"spec: own.yaml\nbeside it: {beside}\nnext:\n  testbed plan own.yaml\n  testbed run own.yaml\n",
    )
    source = load(tmp_path / "own.yaml")
    assert source.spec.name == "own"
    assert [one for one in plan(source)["warnings"] if "cores" not in one] == []
    text = (tmp_path / "own.yaml").read_text()
    assert f"{template}.yaml" not in text
    first = text.splitlines()[0]
    schema = json.loads((tmp_path / first.removeprefix("# yaml-language-server: $schema=")).read_text())
    assert list(jsonschema.Draft7Validator(schema).iter_errors(parse(text, "own.yaml"))) == []


def test_the_template_of_a_script_compares_gloo_with_a_ring() -> None:
    planned = plan(load(TEMPLATES / "script.yaml"))
    assert [(one["scheme"], one["topology"]) for one in planned["trials"]] == [
        ("gloo", "star(hosts=4)"),
        ("ring", "star(hosts=4)"),
    ]


def test_there_are_no_other_templates() -> None:
    assert {path.stem for path in TEMPLATES.glob("*.yaml")} == set(TEMPLATE_NAMES)


@pytest.mark.lab
def test_one_of_them_runs(bench: Bench, testbed: CLI, tmp_path: Path) -> None:
    """As it is, but for fewer iterations and rounds."""
    testbed("new", "own", "--from", "gate")
    text = (tmp_path / "own.yaml").read_text()
    short = text.replace("iterations: 12", "iterations: 3").replace("repeats: 10", "repeats: 1")
    assert short.count("3\n") > text.count("3\n")
    assert [one.record["status"] for one in bench.run(short, tmp_path)] == ["done", "done"]


def test_nothing_is_overwritten(testbed: CLI, tmp_path: Path) -> None:
    assert testbed("new").code == 0
    before = (tmp_path / "mine.yaml").read_bytes()
    again = testbed("new")
    assert (again.code, again.err.splitlines()[0]) == (2, "error: mine.yaml: is there already")
    assert (tmp_path / "mine.yaml").read_bytes() == before
    (tmp_path / "train.py").write_text("mine")
    there = testbed("new", "other", "--from", "script")
    assert (there.code, there.err) == (
        *(2, "error: train.py: is there already\n  fix: change to an empty directory, or move it\n"),
    )
    assert not (tmp_path / "other.yaml").exists()
    assert (tmp_path / "train.py").read_text() == "mine"
    (tmp_path / "testbed.schema.json").write_text("{}")
    assert "no schema of testbed" in testbed("new", "third").err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--from", "sweeep"], "error: --from sweeep: there is no such template\n  fix: did you mean 'sweep'?\n"),
        (["../x"], "error: '../x' cannot name an experiment\n"),
    ],
)
def test_mistakes_are_told(words: list[str], told: str, testbed: CLI, tmp_path: Path) -> None:
    called = testbed("new", *words)
    assert (called.code, called.err[: len(told)]) == (2, told)
    assert list(tmp_path.iterdir()) == []
