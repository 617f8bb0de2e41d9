"""Settings as names and values."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from testbed.analysis.load import load
from testbed.analysis.report import settings

Edit = Callable[[Path, Callable[[dict[str, Any]], object]], None]


def test_the_machine_the_kernel_and_the_packages(run_dir: Path) -> None:
    parts = dict(settings.environment(load(run_dir)))
    assert list(parts) == ["Machine", "Kernel settings", "Packages"]
    machine = dict(parts["Machine"])
    assert machine["cpu.model"] == "AMD EPYC"
    assert machine["memory"] == "8 GiB"
    assert machine["git.dirty"] == "no"
    assert dict(parts["Packages"])["torch"] == "2.13.0+cpu"


def test_what_the_kernel_said_of_a_network(run_dir: Path) -> None:
    ((trial, pairs),) = settings.labs(load(run_dir))
    assert trial == "ps-b16"
    assert pairs == (
        ("nodes.host", "9"),
        ("mtu", "1,500"),
        ("shapes.0.rate_bps", "200,000,000"),
        ("shapes.0.qdisc", "htb, one class, bfifo leaf"),
        ("congestion_controls", "cubic, reno"),
        ("ipv4/ip_forward", "0 (at 9), 1 (at 1)"),
    )


def test_trials_whose_networks_were_the_same_share_an_entry(run_dir: Path, edit: Edit) -> None:
    edit(run_dir / "env.json", lambda env: env["lab"].update({"ring-b16": env["lab"]["ps-b16"], "bml-b16": {}}))
    assert [trials for trials, _ in settings.labs(load(run_dir))] == ["ps-b16, ring-b16"]


def test_no_kernel_said_anything_of_a_network_in_simulated_time(run_dir: Path, edit: Edit) -> None:
    edit(run_dir / "env.json", lambda env: env.update(lab={"ps-b16": {"lab": "simulator"}}))
    assert settings.labs(load(run_dir)) == ()


def test_what_is_empty_or_unknown_is_said_to_be(run_dir: Path, edit: Edit) -> None:
    edit(run_dir / "env.json", lambda env: env.update(git=None, lab={"a": {"routes": []}}))
    run = load(run_dir)
    assert ("git", "not known") in dict(settings.environment(run))["Machine"]
    assert settings.labs(run) == (("a", (("routes", "none"),)),)


def test_what_was_done_to_a_trial_and_when(run_dir: Path, edit: Edit) -> None:
    assert settings.events(load(run_dir)) == ()
    moments = {"planned_s": 1.0, "begun_s": 1.001, "done_s": 1.0024, "error": None}
    events = [
        {"kind": "rate", "what": "h0 at 20 Mbit/s", **moments},
        {"kind": "down", "what": "h1 down", **moments, "error": "the kernel refused"},
        {"kind": "kill", "what": "h2 killed", "planned_s": None, "begun_s": None, "done_s": None, "error": None},
        {"kind": "circuits", "what": "flip of all", **moments, "done_s": 2.0124, "takes_s": 1.0, "free_s": None},
        {"kind": "circuits", "what": "to rings=[3]", **moments, "begun_s": 2.02, "done_s": 3.03, "takes_s": 1.0}
        | {"free_s": 2.0124},
        {"kind": "interruption", "what": "nothing came to node2", "planned_s": None, "begun_s": 1.5, "done_s": 3.62},
    ]
    edit(run_dir / "trials" / "ps-b16.json", lambda trial: trial.update(events=events))
    ((title, pairs),) = settings.events(load(run_dir))
    assert title.startswith("PS on fat-tree")
    assert pairs == (
        ("1.00 s", "rate: h0 at 20 Mbit/s (in effect after 2.4 ms)"),
        ("1.00 s", "down: h1 down (failed: the kernel refused)"),
        ("never", "kill: h2 killed (the trial ended first)"),
        ("1.00 s", "circuits: flip of all (took 1.011 s of 1 s)"),
        ("1.00 s", "circuits: to rings=[3] (could begin 1.01 s later, took 1.010 s of 1 s)"),
        ("1.50 s", "interruption: nothing came to node2 (for 2.1 s)"),
    )


def test_how_the_others_went_on_when_a_node_had_died(run_dir: Path, edit: Edit) -> None:
    one = {"without": ["h4"], "first": 5, "world": 7, "scheme": "rina, leaf0 adding", "behind": [], "called_s": 10.8}
    rounds = [one | {"recovered_s": 3.03}, one | {"without": [], "recovered_s": None}]
    edit(run_dir / "trials" / "ps-b16.json", lambda trial: trial.update(failover={"recoveries": rounds}))
    ((_, pairs),) = settings.events(load(run_dir))
    assert pairs == (
        ("10.80 s", "without h4, 7 workers go on from iteration 5 (done after 3.03 s) with rina, leaf0 adding"),
        (
            "10.80 s",
            "no worker made progress: 7 workers go on from iteration 5 (no worker was left) with rina, leaf0 adding",
        ),
    )


def test_when_the_others_noticed_that_a_node_was_lost(run_dir: Path, edit: Edit) -> None:
    one = {"node": "h4", "processes": ["h4"], "how": "SIGKILL", "hit_s": 2.0, "noticed_s": 2.04}
    lost = [one | {"recovered_s": 0.07}, one | {"node": "h5", "noticed_s": None, "recovered_s": None}]
    edit(run_dir / "trials" / "ps-b16.json", lambda trial: trial.update(failover={"losses": lost}))
    ((_, pairs),) = settings.events(load(run_dir))
    assert pairs == (
        ("2.04 s", "the others noticed that h4 was lost; weights changed next: 0.07 s later"),
        ("not known", "the others noticed that h5 was lost; weights changed next: not known"),
    )
