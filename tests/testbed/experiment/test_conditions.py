"""What a plan says that trials meet, and of what it warns."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

from testbed.base.errors import SpecError
from testbed.experiment import provenance
from testbed.experiment.planning import plan, text
from testbed.spec import read

from ..conftest import SPEC


def planned(*overrides: str) -> dict[str, Any]:
    return plan(read(SPEC, "spec.yaml", Path(), overrides))


def met(found: dict[str, Any]) -> list[str]:
    """The lines below the table."""
    return text(found).partition("all trials meet\n")[2].splitlines()


@pytest.fixture(autouse=True)
def bbr(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine whose default is another congestion control than ours."""
    monkeypatch.setattr("testbed.experiment.planning.sysctl", lambda _: "bbr")
    monkeypatch.setattr(provenance, "sysctl", lambda _: "reno cubic bbr")


def test_trials_that_may_become_more_are_at_least_so_many() -> None:
    first, second, *_ = text(planned("repeats={until: 3 %, least: 2, most: 6}")).splitlines()
    assert first.startswith(
        "small: at least 4 trials (2 cells, 2 repeats of each; the table has the first) in lab netns, "
    )
    assert second.startswith("repeated until intervals are narrow enough: at most 12 trials, about ")
    for fixed in ("repeats=2", "repeats={until: 3 %, least: 2, most: 2}"):
        assert text(planned(fixed)).startswith("small: 4 trials (2 cells, ")


def test_what_is_the_same_for_all_trials_is_said_once() -> None:
    assert met(planned()) == [
        "  warm-up             1 of 3 iterations",
        "  queue               64 MiB",
        "  congestion control  reno (this machine's default is bbr)",
        "  MTU                 1500 B",
        "  chunk               128 KiB",
    ]
    assert "  congestion control  bbr" in met(planned("links.congestion_control=bbr"))


def test_what_differs_is_said_by_its_values() -> None:
    paced = "workload.compute={mode: paced, pace: {2: 0.1 s}}"
    found = planned(
        paced, "links.queue=[64 KiB, 1 MiB]", "arms.1.perturb=[{kind: kill, nodes: h1, at: iteration 2}, C1]"
    )
    lines = met(found)
    assert lines[lines.index("some trials meet") + 1 :] == [
        "  perturbations       none (PS-b2-queue64KiB, PS-b2-queue1MiB)",
        "  perturbations       kill: at iteration 2, nodes h1; C1: straggle, probability 0.1, slowdown 2.0 "
        "(ring-b2-queue64KiB, ring-b2-queue1MiB)",
        "  draws               none (PS-b2-queue64KiB, PS-b2-queue1MiB)",
        "  draws               the same in all arms with as many workers, and the same in all repeats (seed 1) "
        "(ring-b2-queue64KiB, ring-b2-queue1MiB)",
        "  strikes             none (PS-b2-queue64KiB, PS-b2-queue1MiB)",
        "  strikes             C1 strikes 2 of 9 iterations of 3 workers (ring-b2-queue64KiB, ring-b2-queue1MiB)",
        "  queue               64 KiB (PS-b2-queue64KiB, ring-b2-queue64KiB)",
        "  queue               1 MiB (PS-b2-queue1MiB, ring-b2-queue1MiB)",
    ]
    assert found["trials"][1]["meets"]["queue_bytes"] == 65536


def test_a_simulated_trial_has_messages_and_memory_and_no_kernel() -> None:
    paced = "workload={kind: profile, model: lenet5, batch: 2, iterations: 2, compute: {mode: paced, pace: {2: 0.1 s}}}"
    found = planned("lab=simulator", paced)
    assert met(found) == [
        "  warm-up             1 of 2 iterations",
        "  chunk               128 KiB",
        "  memory              at most 99.6 KiB for the messages of an iteration",
    ]
    assert text(found).splitlines()[3].split()[:4] == ["trial", "workers", "messages", "links"]
    assert found["trials"][0]["builds"] == {"hosts": 3, "switches": 1, "links": 3, "rate_bps": 200_000_000}


@pytest.mark.parametrize(
    ("command", "missing"),
    [
        ("python train.py", ""),
        ("torchrun --nproc_per_node=1 ./train.py --out a.py", ""),
        ("python -u lib/net.py", ""),
        ("python trian.py", "trian.py"),
        ("torchrun --nproc_per_node=1 lib/train.py", "lib/train.py"),
        ("python /opt/train.py", ""),
        ("iperf3 -c h1", ""),
    ],
)
def test_a_script_that_is_not_there_is_refused(command: str, missing: str, tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    for name in ("train.py", "lib/net.py"):
        (tmp_path / name).touch()
    spec = f"links: {{rate: 5 Mbit/s}}\nworkload: {{kind: command, command: {command}}}\n"
    source = read(f"{spec}arms: [{{topology: star(hosts=2), scheme: gloo}}]", "spec.yaml", tmp_path)
    if not missing:
        plan(source)
        return
    with pytest.raises(SpecError, match=f"the spec's folder has no {re.escape(missing)}\n  fix: correct its name"):
        plan(source)


def test_what_chance_does_is_played_and_it_warns_if_that_is_nothing() -> None:
    rare = "perturb=[{kind: straggle, probability: 30 %, slowdown: 4, workers: h1}]"
    paced = "workload.compute={mode: paced, pace: {2: 0.1 s}}"
    found = planned(rare, paced, "workload.iterations=4", "repeats=3")
    lines = met(found)
    assert lines[2:4] == [
        "  draws               the same in all arms with as many workers, and the same in all repeats (seed 1)",
        "  strikes             straggle strikes 0 of 4 iterations of h1",
    ]
    assert found["trials"][0]["strikes"] == [
        {"perturbation": "straggle", "struck": 0, "chances": 4, "of": "iterations of h1"}
    ]
    (warning,) = found["warnings"]
    assert warning.startswith("all trials: straggle strikes 0 of 4 iterations of h1, so it changes nothing; take more")
    assert planned(rare, paced, "workload.iterations=4", "seed=3")["warnings"] == []
    apart = met(planned(rare, paced, "workload.iterations=40", "draws=by arm"))
    assert apart[2] == "  draws               other ones for each arm, and the same in all repeats (seed 1)"


def test_times_rates_and_what_lasts_are_in_words() -> None:
    drop = "{kind: rate, share: 50 %, links: [h0, h1], at: 100 ms, until: 2 s}"
    rates = "{kind: rates, every: 1 s, shares: {50 %: 0.5, 100 %: 0.5}}"
    lines = met(planned(f"perturb=[{drop}, {rates}]"))
    assert lines[1].split(None, 1)[1] == (
        "rate: links h0 h1, at 0.1 s, until 2 s, share 0.5; rates: every 1 s, shares {0.5: 0.5, 1.0: 0.5}"
    )


TOO_SHORT = "GST is too short to be certified within"
SMALL = ["workload={kind: profile, model: lenet5, scale: 100, batch: 2, iterations: 3, compute: none}"]
WARNED: dict[str, tuple[list[str], str]] = {
    "small": ([*SMALL, "links.rate=100 Gbit/s"], "all trials: more than 10% of the bytes pass links at once"),
    "cores": (["workload.compute=real"], "all trials: more workers compute in real time than there are cores here (2)"),
    "one": (["workload.warmup=2"], "all trials: one iteration is left after the warm-up"),
    "some": (
        ["workload.compute=real", "arms.0.topology=star(hosts=2)"],
        "ring-b2: more workers compute in real time than there are cores here (2)",
    ),
    "few chunks": (
        ["arms.0.topology=patch_panel(servers=4,degree=4,rings=[1,1])", "workload.chunk=4 MiB"],
        "PS-b2: parts of the gradient have fewer chunks than parallel circuits join two hosts",
    ),
    "few chunks for NICs": (
        ["arms.0.topology=star(hosts=4,server_nics=2,routing=every_nic)", "workload.chunk=4 MiB"],
        "PS-b2: parts of the gradient have fewer chunks than a server has NICs",
    ),
}


@pytest.mark.parametrize("name", WARNED)
def test_it_warns(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    overrides, told = WARNED[name]
    found = planned(*overrides)
    others = [one for one in found["warnings"] if TOO_SHORT not in one]
    assert [one[: len(told)] for one in others] == [told]
    assert f"\n\nwarning: {told}" in text(found)


def test_it_warns_of_any_job() -> None:
    jobs = "[{name: a, scheme: ring, hosts: [h0, h1]}, {name: b, scheme: ring, hosts: [h2, h3]}]"
    circuits = "[[0-1,2-3],[0-1,2-3]]"
    arm = f"arms=[{{topology: 'patch_panel(servers=4,degree=4,circuits={circuits})', jobs: {jobs}}}]"
    assert planned(arm)["warnings"] == []
    (warning,) = planned(arm, "workload.chunk=16 MiB")["warnings"]
    assert "parts of the gradient have fewer chunks" in warning


def test_it_does_not_warn_of_what_is_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2})
    assert planned("workload.compute=real")["warnings"] == []
    assert planned("arms.0.topology=patch_panel(servers=4,degree=4,rings=[1,1])")["warnings"] == []
    assert planned(SMALL[0].replace("100", "10"), "links.rate=1 Gbit/s")["warnings"] == []


@pytest.mark.parametrize(
    ("megabit", "scheme", "size"),
    [(100, "ring", None), (1000, "ring", "2.05 MiB"), (100, "gloo", "2.35 MiB"), (1000, "gloo", "4.16 MiB")],
)
def test_it_says_from_which_size_on_a_number_can_be_certified(megabit: int, scheme: str, size: str | None) -> None:
    """Of 1.25 MiB on two hosts. Nobody knows how large the last packets of a library are."""
    short = "workload={kind: profile, model: lenet5, scale: 10, batch: 2, iterations: 3, compute: none}"
    arm = f"arms=[{{topology: star(hosts=2), scheme: {scheme}}}]"
    found = planned(short, f"links.rate={10 * megabit} Mbit/s", arm)["warnings"]
    said = [one.partition("a gradient of ")[2].partition(" on, ")[0] for one in found if TOO_SHORT in one]
    assert said == ([size] if size else [])
