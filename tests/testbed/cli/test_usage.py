"""Mistakes in the words of a command line, and how help names these words."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from ..conftest import PROFILE, Called

CLI = Callable[..., Called]


@pytest.mark.parametrize(
    ("words", "problem", "fix"),
    [
        (
            "plan",
            "no SPEC is given: the experiment's YAML file",
            "write it as testbed plan SPEC; testbed plan -h explains it",
        ),
        (
            "baseline run",
            "no --out FILE.json is given: file to write",
            "write it as testbed baseline RUN --out FILE.json; testbed baseline -h explains it",
        ),
        (
            "hosts prepare",
            "no --inventory FILE is given: the Ansible inventory",
            "write it as testbed hosts prepare --inventory FILE; testbed hosts prepare -h explains it",
        ),
        ("plan a b", "testbed plan has no place for 'b'", "write it as testbed plan SPEC; quote text that has spaces"),
        ("plan a --pont x", "testbed plan has no option --pont", "did you mean '--point'?"),
        ("run a --repeats 3", "testbed run has no option --repeats", "write it as --set repeats=VALUE"),
        ("plan a --xyz", "testbed plan has no option --xyz", "testbed plan -h lists its options"),
        (
            "new --from",
            "--from has no value",
            "write it as --from TEMPLATE: quickstart, sweep, profile, script or gate",
        ),
        ("report a --out", "--out has no value", "write it as --out FILE: file to write, - for standard output"),
        ("trace show a --nodes", "--nodes has no value", "write it as --nodes N: read at most this many nodes"),
        ("forest ring star --bytes 2", "--bytes 2 is impossible", "give a whole number, at least 4"),
        ("forest ring star --mtu many", "--mtu many is impossible", "give a whole number, at least 576, at most 9000"),
        ("pan", "testbed has no command 'pan'", "did you mean 'plan'?"),
        ("hosts check", "testbed hosts has no command 'check'", "use one of: prepare, collect, reset"),
        (
            "trace export a --trial b --out c --set d=1",
            "--set is of a spec, and a trial ran as it was",
            "leave --set out",
        ),
        (
            "trace export a --arm b --out c --iteration 2",
            "--iteration is of a trial that ran",
            "give --trial, or leave --iteration out",
        ),
        ("plan a --json=3", "option '--json' does not take a value", "testbed plan -h explains it"),
    ],
)
def test_mistakes_are_told_as_all_others(testbed: CLI, words: str, problem: str, fix: str) -> None:
    assert testbed(*words.split()) == Called(2, "", f"error: {problem}\n  fix: {fix}\n")


def test_a_program_is_told_in_json(testbed: CLI) -> None:
    told = json.loads(testbed("plan", "--json").out)["error"]
    assert told["type"] == "UsageError"
    assert told["problem"] == "no SPEC is given: the experiment's YAML file"


@pytest.mark.parametrize("words", [[], ["hosts"]])
def test_a_group_without_a_command_shows_its_help(testbed: CLI, words: list[str]) -> None:
    shown = testbed(*words)
    assert (shown.code, shown.out) == (2, "")
    assert shown.err.startswith("Usage: ")
    assert "Commands:" in shown.err


@pytest.mark.parametrize("command", ["run", "plan", "report", "exec", "compare", "merge"])
def test_help_has_no_types_of_python(testbed: CLI, command: str) -> None:
    shown = testbed(command, "--help")
    assert shown.code == 0
    assert not {"<", "{"} & set(shown.out)


def test_help_says_ranges_in_words(testbed: CLI) -> None:
    shown = " ".join(testbed("forest", "--help").out.split())
    assert "[at least 4]" in shown
    assert "[default: 1500; at least 576, at most 9000]" in shown
    assert "=x" not in testbed("watch", "--help").out


def test_plan_takes_what_run_takes(testbed: CLI, spec_file: Path) -> None:
    spec_file.write_text(PROFILE.replace("batch: 32", "batch: [16, 32], compute: none"))
    every = json.loads(testbed("plan", "spec.yaml", "--json").out)["trials"]
    for option, value in (("--point", "batch=16"), ("--only", every[0]["trial"])):
        assert json.loads(testbed("plan", "spec.yaml", option, value, "--json").out)["trials"] == every[:1]
    assert len(every) == 2
    wrong = testbed("plan", "spec.yaml", "--arm", "PS")
    assert (wrong.code, wrong.err.splitlines()[0]) == (2, "error: --arm PS: there is no such arm")


def test_a_plan_of_a_part_names_the_values_that_are_left(testbed: CLI, spec_file: Path) -> None:
    spec_file.write_text(PROFILE.replace("batch: 32", "batch: 32, compute: none"))
    words = ("plan", "spec.yaml", "--set", "links.rate=[20 Gbit/s, 40 Gbit/s, 80 Gbit/s]")
    assert "\nswept: links.rate (3)\n" in testbed(*words).out
    assert "\nswept: links.rate (2)\n" in testbed(*words, "--point", "rate=20 Gbit/s", "--point", "rate=80 Gbit/s").out
    alone = testbed(*words, "--point", "rate=40e9").out
    assert "\nat links.rate=40 Gbit/s\n" in alone
    assert "swept" not in alone


def test_a_bill_says_of_which_rates_no_part_has_a_price(testbed: CLI) -> None:
    unsold = "no part of 200 Mbit/s has a price: the next faster one is taken, or several of the fastest"
    assert unsold in testbed("topo", "star(hosts=3)", "--rate", "200 Mbit/s").out
    assert "no part of" not in testbed("topo", "star(hosts=3)", "--rate", "10 Gbit/s").out
