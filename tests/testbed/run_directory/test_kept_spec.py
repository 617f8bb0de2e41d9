"""A run's ``spec.yaml`` says what ``--set`` changed, and is still the spec."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from testbed.experiment.run import Experiment
from testbed.run_directory import stored
from testbed.run_directory.resolved import with_changes, without_changes
from testbed.spec import read
from testbed.spec.yaml import parse

from ..conftest import SPEC
from ..runner import go, in_memory
from ..sweeps import Made, source

CHANGES = ["links.rate=50 Mbit/s", "arms.0.label=it's"]


def test_a_copy_with_its_command_repeats_the_experiment(made_up: Made, tmp_path: Path) -> None:
    made_up()
    go(Experiment.new(source(SPEC, *CHANGES), tmp_path / "run", in_memory))
    text = (tmp_path / "run" / "spec.yaml").read_text()
    command = next(line for line in text.splitlines() if line.startswith("#   testbed run "))
    changes = shlex.split(command)[5::2]
    assert changes == CHANGES
    copied = read(text, "spec.yaml", Path(), changes)
    assert copied.spec == source(SPEC, *CHANGES).spec
    assert without_changes(text) == SPEC


def test_going_on_writes_it_once(made_up: Made, tmp_path: Path) -> None:
    run = tmp_path / "run"
    made_up()
    go(Experiment.new(source(SPEC, *CHANGES), run, in_memory))
    before = (run / "spec.yaml").read_text()
    again = stored.source_of(run, ["retries=3"])
    go(Experiment.resumed(run, again, in_memory))
    text = (run / "spec.yaml").read_text()
    assert text == before.replace("\n\n", " --set retries=3\n\n", 1)
    go(Experiment.resumed(run, None, in_memory))
    assert (run / "spec.yaml").read_text() == text


@pytest.mark.parametrize("end", ["\n", "\r", "\x85", "\u2028"])
def test_no_value_becomes_a_key(end: str) -> None:
    text = with_changes(SPEC, [f"name=x{end}evil: 1"])
    assert parse(text, "spec.yaml") == parse(SPEC, "spec.yaml")


def test_what_an_earlier_run_changed_is_not_said_of_another() -> None:
    copied = with_changes(SPEC, CHANGES)
    assert with_changes(copied, []) == SPEC
    assert with_changes(copied, ["seed=2"]) == with_changes(SPEC, ["seed=2"])


def test_a_run_keeps_the_name_that_it_has_from_its_file(made_up: Made, tmp_path: Path) -> None:
    made_up()
    unnamed = read(SPEC.partition("\n")[2], "mine.yaml", Path())
    assert unnamed.spec.name == "mine"
    go(Experiment.new(unnamed, tmp_path / "run", in_memory))
    assert stored.source_of(tmp_path / "run").spec.name == "mine"
