"""Trials in simulated time: worked examples, what is done to links, verdicts, and what is refused."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from testbed.base.errors import MemoryLimitError, SchemeError, SpecError, TrialError
from testbed.evidence.referee import Referee
from testbed.execution.execute import Outcome, execute
from testbed.execution.simulated import Simulator
from testbed.execution.simulated_job import due_s
from testbed.experiment.expand import trials
from testbed.experiment.planning import plan
from testbed.experiment.progress import Lines, first_line, sentence
from testbed.experiment.run import Experiment
from testbed.experiment.runner import Here
from testbed.lab.simulator.place import LIMITS
from testbed.spec import read
from testbed.topologies.build import build
from testbed.trial.files import Files
from testbed.trial.model import Trial
from testbed.workloads import kinds
from testbed.workloads.play.player import Player
from testbed.workloads.play.queues import Queues
from testbed.workloads.sync.schemes import begins_by_lot, build_plan, schemes
from testbed.workloads.sync.steps import Jitter
from testbed.workloads.trace import chakra
from testbed.workloads.trace.graph import Collective, Kind, Node

from ..bench import fits_schema

SPEC = """
name: simulated
lab: simulator
seed: 3
links: {rate: 1 Gbit/s}
workload: {kind: profile, model: lenet5, batch: 32, iterations: 10, compute: {mode: paced, pace: {32: 300 ms}}}
arms: [{topology: star(hosts=4), scheme: ring}]
"""


def trial_of(*changes: str) -> Trial:
    return trials(read(SPEC, "spec.yaml", Path(), changes))[0]


def played(folder: Path, *changes: str) -> tuple[Trial, Outcome]:
    trial = trial_of(*changes)
    with Referee() as referee:
        outcome = execute(trial, Simulator(LIMITS), referee, folder, "reno", lambda *_: None)
    fits_schema(outcome)
    assert (outcome.record["status"], outcome.record["error"]) == ("done", None)
    return trial, outcome


def perturbed(folder: Path, *perturb: str, **keys: str) -> tuple[Trial, Outcome]:
    changes = [f"{key.replace('__', '.')}={value}" for key, value in keys.items()]
    return played(folder, f"perturb=[{', '.join(perturb)}]", *changes)


def whole_s(trial: Trial) -> float:
    """The time that the busiest link takes for all bytes at its rate."""
    busiest: float = (trial.job.cost.link_bytes * 8 / np.array(trial.job.cost.link_rate_bps)).max()
    return busiest / trial.network.goodput


def samples_of(outcome: Outcome) -> pd.DataFrame:
    assert outcome.samples is not None
    return outcome.samples


def gst_s(outcome: Outcome) -> list[float]:
    by = samples_of(outcome).groupby("iteration")
    return list(by["sum_s"].max() - by["ready_s"].max())


def test_updates_of_an_asynchronous_scheme_are_played_and_judged(tmp_path: Path) -> None:
    slow = "{kind: rate, links: [h0-s0], share: 10 %, at: iteration 4}"
    arms = "[{topology: star(hosts=5), scheme: 'ssp(staleness=1,servers=2)'}]"
    _, outcome = perturbed(tmp_path, slow, arms=arms)
    record, samples = outcome.record, samples_of(outcome)
    assert record["fidelity"]["verdict"] == "SIMULATED"
    assert record["metrics"]["staleness_max"] <= 3 * 2
    assert sorted(samples["update"]) == list(range(30))
    (event,) = record["events"]
    twelfth = samples[samples["update"] == 11].iloc[0]
    assert twelfth["ready_s"] < event["begun_s"] < twelfth["sum_s"], "four of each of three workers are applied"
    own = samples[samples["rank"] == 0]
    took_s, is_late = own["sum_s"] - own["ready_s"] - own["held_s"], own["ready_s"] > event["begun_s"]
    assert took_s[is_late].min() > 5 * took_s[own["sum_s"] < event["begun_s"]].max()


@pytest.mark.parametrize(
    ("scheme", "stale"), [("mlfabric_a", 39), ("mlfabric_ssp(staleness=1,servers=2)", 6), ("mlfabric_s", None)]
)
def test_trials_of_a_scheduler_are_played_and_judged(scheme: str, stale: int | None, tmp_path: Path) -> None:
    slow = "{kind: rate, links: [h0-s0], share: 10 %, at: iteration 4}"
    arms = f"[{{topology: star(hosts=6), scheme: '{scheme}'}}]"
    trial, outcome = perturbed(tmp_path, slow, arms=arms)
    record, samples = outcome.record, samples_of(outcome)
    assert record["fidelity"]["verdict"] == "SIMULATED"
    assert len(samples) == 10 * trial.job.world
    (event,) = record["events"]
    own = samples[samples["rank"] == 0]
    took_s, is_late = own["sum_s"] - own["ready_s"], own["ready_s"] > event["begun_s"]
    assert took_s[is_late].min() > 2 * took_s[own["sum_s"] < event["begun_s"]].max()
    if stale is not None:
        assert record["metrics"]["staleness_max"] <= stale
    assert "scheduler_median_s" not in record["metrics"] or record["metrics"]["scheduler_median_s"] is None


def test_a_scheduler_hears_what_flows_of_others_leave(tmp_path: Path) -> None:
    """A flow takes half of h1's link, so one of four transfers in an iteration takes twice as long."""
    arms = "[{topology: star(hosts=4), scheme: mlfabric_s}]"
    flow = "{kind: background, from: h1, to: h0, rate: 47 Mbit/s}"
    calm = played(tmp_path, f"arms={arms}", "links.rate=100 Mbit/s")[1]
    trial, beside = perturbed(tmp_path, flow, arms=arms, links__rate="100 Mbit/s")
    assert beside.record["fidelity"]["verdict"] == "SIMULATED"
    took_s = [samples_of(each).groupby("iteration")["sum_s"].max().diff().median() - 0.3 for each in (calm, beside)]
    assert took_s[1] == pytest.approx(1.25 * took_s[0], rel=0.05)
    assert len(samples_of(beside)) == 10 * trial.job.world


def test_a_replica_of_a_scheduler_is_played_and_judged(tmp_path: Path) -> None:
    trial, outcome = played(tmp_path, "arms=[{topology: star(hosts=6), scheme: 'mlfabric_a(divergence_updates=2)'}]")
    assert outcome.record["fidelity"]["verdict"] == "SIMULATED"
    assert outcome.record["metrics"]["replica_behind_max"] <= 2
    assert outcome.record["metrics"].get("replica_error") is None, "there are no weights"
    assert samples_of(outcome)["behind"].max() <= 2
    (check,) = (each for each in outcome.record["fidelity"]["checks"] if each["name"] == "divergence")
    assert check["ok"]
    assert len(samples_of(outcome)) == 10 * trial.job.world


def test_keys_of_a_box_are_played_and_judged(tmp_path: Path) -> None:
    slow = "{kind: rate, links: [h0-s0], share: 10 %, at: iteration 4}"
    arms = "[{topology: 'star(hosts=5,server_nics=3,routing=every_nic)', scheme: 'pbox(cores=2)'}]"
    trial, outcome = perturbed(tmp_path, slow, arms=arms)
    assert outcome.record["fidelity"]["verdict"] == "SIMULATED"
    for link in outcome.record["links"]:
        assert link["bytes"] == pytest.approx(link["theory_bytes"], rel=1e-3)
    took_s = gst_s(outcome)
    assert took_s[0] == pytest.approx(1.12 * whole_s(trial), rel=0.03), "windows are small at first"
    assert min(took_s[5:]) > 5 * took_s[0]


def test_jobs_share_a_box(tmp_path: Path) -> None:
    """Two jobs of two workers get a bit apart, and each takes less than twice as long on a box as one alone: 0.355 and
    0.220 s in the lab ``netns``, 0.38 and 0.219 s here."""
    _, alone = played(tmp_path, "arms=[{topology: star(hosts=3), scheme: pbox}]")
    jobs = ", ".join(f"{{name: {name}, scheme: service, hosts: 2}}" for name in "ab")
    _, shared = played(tmp_path, f"arms=[{{topology: star(hosts=5), service: pbox, jobs: [{jobs}]}}]")
    for job in shared.record["jobs"]:
        assert job["metrics"]["gst_median_s"] == pytest.approx(1.73 * float(np.median(gst_s(alone))), rel=0.03)
        assert job["fidelity"]["verdict"] == "SIMULATED"


def test_iterations_take_their_computing_and_the_time_of_the_busiest_link(tmp_path: Path) -> None:
    trial, outcome = played(tmp_path)
    assert outcome.record["metrics"]["jct_s"] == pytest.approx(10 * (0.3 + whole_s(trial)))
    assert len(samples_of(outcome)) == 40
    for link in outcome.record["links"]:
        assert link["bytes"] == pytest.approx(link["theory_bytes"], abs=2)


def test_numbers_are_simulated_and_never_valid(tmp_path: Path) -> None:
    _, outcome = played(tmp_path)
    judged = outcome.record["fidelity"]
    assert {number["verdict"] for number in judged["numbers"].values()} == {judged["verdict"]} == {"SIMULATED"}
    assert not any(number["certified"] for number in judged["numbers"].values())


def test_bytes_that_are_not_those_of_theory_make_it_invalid(tmp_path: Path) -> None:
    class Twice(Simulator):
        def run(self, *told: Any) -> Any:
            seen = super().run(*told)
            seen.counters = [type(one)(one.directed_link, 2 * one.bytes, 0, 0) for one in seen.counters]
            return seen

    with Referee() as referee:
        outcome = execute(trial_of(), Twice(LIMITS), referee, tmp_path, "reno", lambda *_: None)
    assert outcome.record["fidelity"]["numbers"]["gst"]["spoilt_by"] == ["bytes on the wire"]


def counted(monkeypatch: pytest.MonkeyPatch) -> tuple[list[Any], list[tuple[float, int]]]:
    """Lists of the plays that begin from now on, and of the iterations of workers that are played."""
    begun, ended = list[Any](), list[tuple[float, int]]()

    class Counted(Player):
        def told(self, *arguments: Any) -> Iterator[tuple[float, int]]:
            begun.append(arguments)
            for each in super().told(*arguments):
                ended.append(each)
                yield each

    monkeypatch.setattr("testbed.execution.simulated.Player", Counted)
    return begun, ended


def test_iterations_that_are_alike_are_played_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, _ = counted(monkeypatch)
    unequal = "arms=[{topology: star(hosts=64), scheme: ring}]"  # its chunks differ by a float, and so its beginnings
    _, outcome = played(tmp_path, unequal, "workload.iterations=100")
    assert len(begun) == 1
    assert outcome.record["fidelity"]["verdict"] == "SIMULATED", "all links carried a hundred times as much"
    assert gst_s(outcome) == pytest.approx([gst_s(outcome)[0]] * 100)


def test_repeated_iterations_have_the_times_of_those_that_are_played(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arm = "arms=[{topology: star(hosts=6), scheme: tree}]"
    _, once = played(tmp_path, arm)
    monkeypatch.setattr("testbed.execution.simulated_alone.Alone._is_repeated", lambda *_: False)
    _, each = played(tmp_path, arm)
    for name in ("start_s", "ready_s", "sum_s"):
        assert samples_of(once)[name].tolist() == pytest.approx(samples_of(each)[name].tolist(), abs=1e-9)


@pytest.mark.parametrize("scheme", ["ps", "tree", "halving_doubling", "rina(slots=12)"])
def test_workers_that_compute_nothing_do_not_wait_for_each_other(tmp_path: Path, scheme: str) -> None:
    network = "'spine_leaf(racks=2,hosts_per_rack=4,spines=1,ina=all)'"
    arm = f"arms=[{{topology: {network}, scheme: '{scheme}'}}]"
    _, outcome = played(tmp_path, arm, "workload.compute=none", "workload.iterations=5")
    samples = samples_of(outcome)
    for _, own in samples.groupby("rank"):
        assert own["start_s"].tolist()[1:] == own["end_s"].tolist()[:-1]
    assert outcome.record["fidelity"]["verdict"] == "SIMULATED"


HYBRID = (
    "workload={kind: profile, model: dlrm_tiny, batch: 16, iterations: 4, scale: 4, "
    "compute: {mode: paced, pace: {16: 50 ms}}}",
    "arms=[{topology: star(hosts=4), scheme: ring, strategy: {e0: [0], e1: [1, 3], e2: [0, 2], rest: all}}]",
    "links.rate=100 Mbit/s",
)
OVERLAPPING = [
    ["arms=[{topology: star(hosts=64), scheme: ring}]"],  # unequal chunks: the same comes every fifth time
    ["arms=[{topology: star(hosts=6), scheme: ps}]"],
    HYBRID,
]


@pytest.mark.parametrize("changes", OVERLAPPING, ids=["ring", "ps", "hybrid"])
def test_iterations_that_begin_before_the_last_one_ends_go_on_as_those_that_were_played(
    changes: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, ended = counted(monkeypatch)
    asked = *changes, "workload.compute=none", "workload.iterations=41"
    _, some = played(tmp_path, *asked)
    count = len(ended)
    monkeypatch.setattr("testbed.execution.simulated_alone.Alone._cycle", lambda *_: range(0))
    _, every = played(tmp_path, *asked)
    samples, expected = samples_of(some), samples_of(every)
    assert 0 < 2 * count < len(samples) == len(expected)
    for name in ("start_s", "ready_s", "sum_s", "end_s"):
        np.testing.assert_allclose(samples[name], expected[name], rtol=1e-6, atol=1e-9)
    for link, other in zip(some.record["links"], every.record["links"], strict=True):
        assert link["bytes"] == pytest.approx(other["bytes"], abs=2)


LAYERS = (
    "workload={kind: profile, model: candle_dedicated, batch: 256, scale: 5000, overlap: layer, iterations: 30, "
    "compute: {mode: paced, pace: {256: 1.03 s}}}",
    "links.rate=100 Gbit/s",
)


def test_iterations_of_layers_that_differ_by_some_floats_are_played_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With 64 workers they go around in a circle of seven, in which a worker's end differs by four floats."""
    _, ended = counted(monkeypatch)
    ring = *LAYERS, "arms=[{topology: star(hosts=64), scheme: ring}]"
    _, some = played(tmp_path, *ring)
    assert len(ended) <= 5 * 64
    monkeypatch.setattr("testbed.execution.simulated_alone.Alone._is_repeated", lambda *_: False)
    _, every = played(tmp_path, *ring)
    assert gst_s(some) == pytest.approx(gst_s(every), rel=1e-5)
    assert some.record["metrics"]["jct_s"] == pytest.approx(every.record["metrics"]["jct_s"], rel=1e-5)


def test_iterations_that_differ_by_more_than_floats_explain_are_played(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers of parameter servers whose layers leave early never come to begin alike."""
    _, ended = counted(monkeypatch)
    _, outcome = played(tmp_path, *LAYERS, "arms=[{topology: star(hosts=16), scheme: ps}]")
    assert len(ended) == 30 * 16
    took_s = samples_of(outcome).groupby("iteration")["end_s"].max().diff()
    assert took_s[10:].max() / took_s[10:].min() > 1.001


def test_iterations_over_parallel_circuits_are_played_once_if_their_turns_are_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, _ = counted(monkeypatch)
    arm = "arms=[{topology: 'patch_panel(servers=4,degree=4,rings=[1,1])', scheme: ring}]"
    _, once = played(tmp_path, arm, "workload.iterations=40")
    assert len(begun) < 10
    monkeypatch.setattr("testbed.execution.simulated_alone.Alone._is_repeated", lambda *_: False)
    _, each = played(tmp_path, arm, "workload.iterations=40")
    assert samples_of(once)["sum_s"].tolist() == pytest.approx(samples_of(each)["sum_s"].tolist(), rel=1e-6)
    for link, other in zip(once.record["links"], each.record["links"], strict=True):
        assert link["bytes"] == pytest.approx(other["bytes"], rel=1e-3)


def test_a_float_in_each_round_is_no_difference_over_parallel_circuits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some classes have one float more than others, and each is one chunk."""
    begun, _ = counted(monkeypatch)
    arm = "arms=[{topology: 'patch_panel(servers=60,degree=4,rings=[1,1])', scheme: ring}]", "workload.scale=20"
    _, once = played(tmp_path, *arm, "workload.iterations=20")
    assert len(begun) == 1
    monkeypatch.setattr("testbed.execution.simulated_alone.Alone._is_repeated", lambda *_: False)
    _, each = played(tmp_path, *arm, "workload.iterations=20")
    assert np.ptp(gst_s(each)) > 1e-5 * np.median(gst_s(each)), "the iterations do differ"
    assert samples_of(once)["sum_s"].tolist() == pytest.approx(samples_of(each)["sum_s"].tolist(), rel=3e-4)


def test_the_same_trial_has_the_same_samples_to_the_last_bit(tmp_path: Path) -> None:
    tables = []
    for _ in range(2):
        table = io.BytesIO()
        samples_of(perturbed(tmp_path, "{kind: straggle, probability: 0.3, slowdown: 2}")[1]).to_parquet(table)
        tables.append(table.getvalue())
    assert tables[0] == tables[1]


def test_gst_counts_from_the_last_gradient_of_a_straggler(tmp_path: Path) -> None:
    trial, outcome = perturbed(tmp_path, "{kind: slow, workers: [h2], slowdown: 2}")
    ready_s = samples_of(outcome).query("iteration == 0").set_index("rank")["ready_s"]
    assert ready_s.tolist() == pytest.approx([0.3, 0.3, 0.6, 0.3])
    assert gst_s(outcome)[0] <= whole_s(trial) * (1 + 1e-9)


def test_a_link_that_halves_doubles_the_rest_of_a_synchronisation(tmp_path: Path) -> None:
    trial = trial_of()
    begin_s = 0.3 + whole_s(trial) / 2
    change = f"{{kind: rate, links: [h0], share: 50 %, at: {begin_s} s, until: 1.4 s}}"
    _, outcome = perturbed(tmp_path, change)
    took_s = gst_s(outcome)
    assert took_s[0] == pytest.approx(1.5 * whole_s(trial), rel=1e-3)
    assert took_s[1] == pytest.approx(2 * whole_s(trial))
    assert took_s[2:] == pytest.approx([whole_s(trial)] * 8)
    events = outcome.record["events"]
    assert [event["begun_s"] for event in events] == pytest.approx([begin_s, 1.4], abs=1e-6)
    assert outcome.record["fidelity"]["verdict"] == "SIMULATED"


def test_a_change_comes_when_rank_0_has_done_its_iterations(tmp_path: Path) -> None:
    trial, outcome = perturbed(tmp_path, "{kind: rate, share: 50 %, at: iteration 2, until: iteration 5}")
    assert [round(took_s / whole_s(trial)) for took_s in gst_s(outcome)] == [1, 1, 2, 2, 2, 1, 1, 1, 1, 1]


@pytest.mark.parametrize(("until_ms", "costs_s"), [(450, 0.2), (550, 0.7)])
def test_a_blocked_link_that_comes_back_costs_time_until_tcp_sends_again(
    until_ms: int, costs_s: float, tmp_path: Path
) -> None:
    trial, outcome = perturbed(tmp_path, f"{{kind: down, links: [h0], at: 300 ms, until: {until_ms} ms}}")
    assert gst_s(outcome)[0] == pytest.approx(costs_s + whole_s(trial))


def test_a_link_that_stays_blocked_fails_the_trial(tmp_path: Path) -> None:
    trial = trial_of("perturb=[{kind: down, links: [h0], at: 300 ms}]")
    with pytest.raises(TrialError, match=r"nothing moves after 0\.\d+ s .* wait for the links h0-s0"):
        Simulator(LIMITS).run(trial, Files(tmp_path, tmp_path), "reno", lambda *_: None)


@pytest.mark.parametrize("lack", [MemoryError, MemoryLimitError("the simulator gets no more memory")])
def test_a_trial_without_memory_fails_and_the_next_one_runs(
    lack: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = Player.told

    def limited(player: Player, *arguments: Any) -> Iterator[tuple[float, int]]:
        if len(player.arena.carried_bytes()) > 8:
            raise lack
        return told(player, *arguments)

    monkeypatch.setattr(Player, "told", limited)
    racks = "{topology: 'spine_leaf(racks=2,hosts_per_rack=2,spines=1)', scheme: ring}"
    arms = f"arms=[{racks}, {{topology: star(hosts=4), scheme: ring}}]"
    source = read(SPEC, "spec.yaml", Path(), [arms])
    with Experiment.new(source, tmp_path / "run", partial(Here, partial(Simulator, LIMITS))) as experiment:
        records = experiment.go(lambda few: Lines(few, Console(quiet=True))).records
    assert [record["status"] for record in records] == ["failed", "done"]
    assert "gets no more memory after 0 iterations" in records[0]["error"]


def test_rates_that_change_by_chance_without_end_come_to_an_end(tmp_path: Path) -> None:
    change = "{kind: rates, every: 100 ms, shares: {20 %: 0.5, 60 %: 0.5}, links: [h0]}"
    _, outcome = perturbed(tmp_path, change)
    assert len(outcome.record["events"]) > 10


def test_each_delay_of_a_link_adds_to_each_round_of_a_ring(tmp_path: Path) -> None:
    trial, outcome = played(tmp_path, "links={rate: 1 Gbit/s, delay: 1 ms}", "workload.chunk=1 GB")
    assert gst_s(outcome)[0] == pytest.approx(whole_s(trial) + 6 * 2 * 0.001)


def test_layers_overlap_with_computing(tmp_path: Path) -> None:
    trial, outcome = played(tmp_path, "workload.overlap=layer", "links.rate=10 Mbit/s", "workload.iterations=2")
    ready_s = due_s(trial.job)
    assert ready_s.shape == (2, 4, len(trial.job.gradient.buckets))
    assert (np.diff(ready_s) > 0).all()
    assert ready_s[:, :, -1] == pytest.approx(0.3)
    assert ready_s[0, 0, 0] > 0.1, "the forward pass takes a third"
    assert 0 < gst_s(outcome)[0] < whole_s(trial)


LAYERED = (
    "workload={kind: profile, model: vgg19, batch: 32, iterations: 12, scale: 100, overlap: both, "
    "compute: {mode: paced, pace: {32: 700 ms}}}",
    "links={rate: 10 Gbit/s}",
)
"""Layers of which the largest is the second but last, so that it is sent early and needed late."""


def test_a_forward_pass_begins_with_the_sums_that_are_there(tmp_path: Path) -> None:
    trial, outcome = played(tmp_path, *LAYERED, "workload.priority=layer")
    samples = samples_of(outcome)
    own = samples[samples["rank"] == 0].set_index("iteration")
    begun_s, ended_s = own["start_s"].to_numpy()[1:], own["end_s"].to_numpy()[:-1]
    assert (begun_s < own["sum_s"].to_numpy()[:-1]).all(), "before all sums are there"
    assert (ended_s >= begun_s + 0.7 / 3 - 1e-9).all(), "an iteration ends with the next one's forward pass"
    assert own["ready_s"].to_numpy()[1:] == pytest.approx(ended_s + 0.7 * 2 / 3)
    assert outcome.record["metrics"]["jct_s"] > trial.job.iterations * 0.7


@pytest.mark.parametrize(("scheme", "faster"), [("ps", 0.95), ("ring", 0.95), ("two_level", 0.99)])
def test_layers_that_are_needed_first_overtake_others(scheme: str, faster: float, tmp_path: Path) -> None:
    arms = f"arms=[{{topology: 'spine_leaf(racks=2,hosts_per_rack=2,spines=1)', scheme: {scheme}}}]"
    both = played(tmp_path, *LAYERED, arms)[1].record
    ordered = played(tmp_path, *LAYERED, arms, "workload.priority=layer")[1].record
    assert ordered["metrics"]["jct_s"] < faster * both["metrics"]["jct_s"]
    assert ordered["links"] == both["links"], "the same bytes take the same links"
    assert ordered["fidelity"]["numbers"]["gst"]["error"] is None, "no error is known of such trials"


def test_iterations_that_come_again_and_again_are_played_once_where_passes_begin_early(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, outcome = played(tmp_path, *LAYERED, "workload.priority=layer")
    monkeypatch.setattr("testbed.execution.simulated_alone.Alone._cycle", lambda *_: range(0))
    _, each = played(tmp_path, *LAYERED, "workload.priority=layer")
    moments = ["start_s", "ready_s", "sum_s", "end_s"]
    assert np.abs(samples_of(outcome)[moments] - samples_of(each)[moments]).to_numpy().max() < 1e-4


@pytest.mark.parametrize("repeats", ["5", "{until: 5 %, least: 3, most: 9}"])
def test_repeats_that_would_be_the_same_are_left_out_and_this_is_said(repeats: str, tmp_path: Path) -> None:
    source = read(
        SPEC, "spec.yaml", Path(), [f"repeats={repeats}", "perturb=[{kind: straggle, probability: 0.3, slowdown: 2}]"]
    )
    said = "repeats would have the same numbers in the lab simulator, so each trial runs once"
    assert said in first_line(trials(source))
    assert f"all trials: {said}" in plan(source)["warnings"]
    with Experiment.new(source, tmp_path / "run", partial(Here, partial(Simulator, LIMITS))) as experiment:
        assert len(experiment.go(lambda few: Lines(few, Console(quiet=True))).records) == 1


def beginnings_s(outcome: Outcome) -> list[float]:
    """When workers began, by rank."""
    assert outcome.samples is not None
    first = outcome.samples[outcome.samples["iteration"] == 0].sort_values("rank")
    began_s: list[float] = first["start_s"].tolist()
    return began_s


def test_where_order_decides_workers_begin_by_lot_and_repeats_have_other_numbers(tmp_path: Path) -> None:
    changes = "repeats=3", "workload.iterations=2", "arms=[{topology: star(hosts=5), scheme: ssp(staleness=1)}]"
    every = trials(read(SPEC, "spec.yaml", Path(), changes))
    assert [trial.repeat for trial in every] == [0, 1, 2]
    assert "same numbers" not in first_line(every)
    began_s = []
    for trial in [*every, every[-1]]:
        with Referee() as referee:
            outcome = execute(trial, Simulator(LIMITS), referee, tmp_path, "reno", lambda *_: None)
        began_s.append(beginnings_s(outcome))
    for each in began_s:
        assert min(each) == 0.0
        assert 0.0 < max(each) < 0.005
    assert len({tuple(each) for each in began_s}) == 3
    assert began_s[-1] == began_s[-2], "the same repeat has the same numbers"


@pytest.mark.parametrize("scheme", ["ring", "pbox", "mlfabric_a"])
def test_elsewhere_workers_begin_at_once(scheme: str, tmp_path: Path) -> None:
    _, outcome = played(
        tmp_path, "workload.iterations=2", f"arms=[{{topology: star(hosts=5), scheme: {scheme}}}]", "repeats=2"
    )
    assert set(beginnings_s(outcome)) == {0.0}


def test_schemes_that_are_known_to_begin_by_lot_are_those_of_kinds_that_do() -> None:
    topology, begin = build("star(hosts=8)", rate_bps=10**9), set[str]()
    for name in schemes():
        with suppress(SchemeError):  # some need racks, and all of those are of kinds that others are of, too
            plan = build_plan(name, topology, [1000])
            if kinds.of(plan).simulation.begins_within_s > 0:
                begin.add(name)
    assert begin == {name for name in schemes() if begins_by_lot(f"{name}(servers=1)")} == {"async_ps", "ssp"}


def test_another_lab_repeats_trials() -> None:
    assert len(trials(read(SPEC, "spec.yaml", Path(), ["repeats=5", "lab=netns"]))) == 5


@pytest.mark.parametrize(("more", "segment_bytes"), [("", 65_536), (", small_queues: 16 KiB", 16_384)])
def test_segments_are_as_large_as_in_other_labs(
    more: str, segment_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At 10 Mbit/s they have what takes 20 ms, and with small queues what these allow."""
    cut: list[tuple[float, float]] = []
    monkeypatch.setattr(Queues, "cut", lambda _, segment, waiting: cut.append((segment, waiting)))
    trial, _ = played(tmp_path, f"links={{rate: 1 Gbit/s{more}}}")
    goodput = trial.network.goodput
    assert cut == ([] if segment_bytes == 65_536 else [(segment_bytes / goodput, segment_bytes / goodput)])
    cut.clear()
    played(tmp_path, f"links={{rate: 10 Mbit/s{more}}}", "workload.iterations=2")
    assert [segment for segment, _ in cut] == [min(25_000, segment_bytes) / goodput]


def test_a_number_has_the_worst_error_that_is_known_of_its_scheme(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("testbed.fidelity.judgement.known_errors", lambda: {"ring": {"median": 0.01, "worst": 0.02}})
    _, outcome = played(tmp_path)
    errors = {name: number["error"] for name, number in outcome.record["fidelity"]["numbers"].items()}
    assert errors.pop("gst") == 0.02
    assert set(errors.values()) == {None}
    assert "SIMULATED (GST of this scheme was off by 2.0 % at most)" in sentence(outcome.record)
    _, outcome = played(tmp_path, "arms=[{topology: star(hosts=4), scheme: ps}]")
    assert outcome.record["fidelity"]["numbers"]["gst"]["error"] is None
    assert "SIMULATED (error unknown)" in sentence(outcome.record)


def test_gloo_takes_the_time_of_the_ring_that_it_is(tmp_path: Path) -> None:
    """A gradient of 12.5 MiB has 16 segments among 4 hosts, 4 for each: none is as long as a mebibyte."""
    trial, outcome = played(tmp_path, "arms=[{topology: star(hosts=4), scheme: gloo}]")
    assert gst_s(outcome) == pytest.approx([whole_s(trial)] * 10, rel=0.02)
    assert outcome.record["fidelity"]["numbers"]["gst"] == {
        **outcome.record["fidelity"]["numbers"]["gst"],
        **{"verdict": "SIMULATED", "error": None},
    }


@pytest.mark.parametrize("network", ["star(hosts=4)", "patch_panel(servers=4,degree=4,rings=[1,1])"])
def test_servers_of_a_strategy_compute_exchange_and_sum(network: str, tmp_path: Path) -> None:
    """The kind checks that each sends each other one the bytes of the plan, to the byte, and fails the trial
    otherwise. Two servers have two connections where circuits are parallel."""
    trial, outcome = played(tmp_path, *HYBRID, f"arms.0.topology={network}")
    metrics, samples = outcome.record["metrics"], samples_of(outcome)
    assert outcome.record["fidelity"]["numbers"]["gst"]["verdict"] == "SIMULATED"
    for link in outcome.record["links"]:
        assert link["bytes"] == pytest.approx(link["theory_bytes"], rel=1e-3, abs=2000)
    ends_s = samples.groupby("iteration")["end_s"].max().to_numpy()
    assert np.diff(ends_s)[1] == pytest.approx(metrics["iteration_predicted_s"], rel=0.05)
    waits_s, paces_s = samples[["mp_wait_forward_s", "mp_wait_backward_s"]].sum(axis=1), trial.job.pace_s[:, 0]
    passes_s = samples["ready_s"] - samples["start_s"]
    np.testing.assert_allclose(passes_s, waits_s + paces_s[samples["rank"]])


def test_others_wait_for_the_messages_of_a_server_that_computes_for_longer(tmp_path: Path) -> None:
    waited_s = []
    for name, slowdown in (("calm", 1.0), ("slow", 3.0)):
        (tmp_path / name).mkdir()
        slow = f"perturb=[{{kind: slow, workers: [h0], slowdown: {slowdown}}}]"
        _, outcome = played(tmp_path / name, *HYBRID, *[slow] * (slowdown > 1))
        samples = samples_of(outcome)
        waited_s.append(samples[samples["rank"] != 0]["mp_wait_forward_s"].mean())
    assert waited_s[1] > 1.2 * waited_s[0]


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        (["workload={model: lenet5, dataset: digits, batch: 32, iterations: 3}"], "nothing is trained"),
        (["workload={model: lenet5, dataset: digits, batch: 32, iterations: 3, compute: none}"], "nothing is trained"),
        (
            ["workload={kind: command, command: sleep 1, inputs: []}", "arms=[{topology: star(hosts=4)}]"],
            "runs no programs",
        ),
        (
            [
                "arms=[{topology: star(hosts=6), jobs: [{name: a, scheme: pbox, hosts: [h0, h1, h2]}, "
                "{name: b, scheme: ring, hosts: [h3, h4]}]}]"
            ],
            r"cannot play the job a \(pbox\) beside the job b \(ring\)",
        ),
        (
            ["arms=[{topology: star(hosts=4), scheme: pbox}]", "workload.overlap=layer"],
            "overlap: layer is not simulated",
        ),
        (
            ["workload.overlap=layer", "arms=[{topology: star(hosts=4), scheme: ssp}]"],
            "sends gradients only as a whole",
        ),
        (["arms=[{topology: star(hosts=4), scheme: openmpi}]"], "cannot play openmpi of kind library"),
        (
            ["arms=[{topology: star(hosts=4), scheme: gloo}]", "workload.overlap=layer"],
            "overlap: layer is not simulated",
        ),
        (
            ["arms=[{topology: star(hosts=1500), scheme: ring}]", "workload.overlap=both"],
            "overlap: both is not simulated with ring on 1,500 hosts",
        ),
        (
            [
                "arms=[{topology: star(hosts=1500), scheme: ring}]",
                "workload.overlap=layer",
                "workload.priority=layer",
            ],
            "priority: layer is not simulated with ring on 1,500 hosts",
        ),
        (["links={rate: 1 Gbit/s, loss: 1 %}"], "links.loss: the lab simulator has no packets"),
        (["links={rate: 1 Gbit/s, queue: 64 KiB}"], "links.queue: the lab simulator has no packets"),
        (["perturb=[{kind: kill, nodes: [h1], at: 1 s}]"], "nothing is killed in the lab simulator"),
        (["perturb=[{kind: freeze, hosts: [h1], at: 1 s, until: 2 s}]"], "nothing stands still in the lab simulator"),
        (["perturb=[{kind: hog, hosts: [h1]}]"], "hog: the lab simulator changes rates and delays of links"),
        (["perturb=[{kind: queue, size: 64 KiB}]"], "queue: the lab simulator changes rates and delays of links"),
        (
            ["perturb=[{kind: impair, delay: 1 ms, loss: 1 %}]"],
            "has no packets that are lost, overtake others or jitter",
        ),
    ],
)
def test_what_is_not_simulated_is_refused(changes: list[str], problem: str) -> None:
    with pytest.raises(SpecError, match=problem):
        Simulator(LIMITS).require(trial_of(*changes))


TRACE = """
name: traced
lab: simulator
links: {rate: 100 Mbit/s}
workload: {kind: trace, file: x.%d.et, iterations: 3, scale: 10}
arms: [{topology: star(hosts=4), scheme: ring}]
"""


def traced(folder: Path, ranks: Sequence[Sequence[Node]], *changes: str) -> Outcome:
    """Play a trace; its bytes on each link are judged."""
    for rank, nodes in enumerate(ranks):
        with (folder / f"x.{rank}.et").open("wb") as file:
            chakra.write(file, rank, nodes, {})
    (trial,) = trials(read(TRACE, "spec.yaml", folder, changes))
    simulator = Simulator(LIMITS)
    simulator.require(trial)
    with Referee() as referee:
        outcome = execute(trial, simulator, referee, folder, "reno", lambda *_: None)
    fits_schema(outcome)
    assert outcome.record["status"] == "done", outcome.record["error"]
    assert outcome.record["fidelity"]["verdict"] == "SIMULATED"
    return outcome


def summed(size: int, **more: Any) -> Node:
    return Node(2, "", Kind.COMM_COLL, (1,), bytes=size, collective=Collective.ALL_REDUCE, **more)


def test_a_trace_computes_and_sums_in_the_time_of_its_bytes(tmp_path: Path) -> None:
    pytest.importorskip("google.protobuf")
    nodes = [Node(1, "", Kind.COMP, duration_us=300_000), summed(12_500_000)]
    record = traced(tmp_path, [nodes] * 2, "arms=[{topology: star(hosts=2), scheme: ring}]").record
    assert record["metrics"]["gst_median_s"] == pytest.approx(1.0456, rel=1e-3)
    assert record["logged"]["iteration_s"] == [[pytest.approx(1.3456, rel=1e-3)] * 3] * 2
    assert record["fidelity"]["numbers"]["gst"]["error"] is None


@pytest.mark.parametrize(
    "arm",
    [
        "{topology: star(hosts=4), scheme: ring}",
        "{topology: star(hosts=4), scheme: ps}",
        '{topology: "bcube(n=2,k=2)", scheme: bml}',
        '{topology: "star(hosts=4,ina=all)", scheme: switchml}',
        "{topology: star(hosts=4), scheme: halving_doubling}",
    ],
)
def test_every_collective_and_message_of_a_trace_moves_its_bytes(tmp_path: Path, arm: str) -> None:
    pytest.importorskip("google.protobuf")
    kinds = [kind for kind in Collective if kind != Collective.REDUCE_SCATTER_BLOCK]
    ranks = []
    for rank in range(4):
        some = [
            Node(number, "", Kind.COMM_COLL, bytes=400_000, collective=kind, root=2, group=group)
            for number, (kind, group) in enumerate(product(kinds, ("", str(rank // 2))))
        ]
        sent = Node(50, "", Kind.COMM_SEND, bytes=400_000, peer=(rank + 1) % 4, tag=7)
        came = Node(51, "", Kind.COMM_RECV, bytes=400_000, peer=(rank - 1) % 4, tag=7)
        ranks.append([*some, sent, came])
    (tmp_path / "groups.json").write_text('{"0": [0, 1], "1": [2, 3]}')
    outcome = traced(tmp_path, ranks, f"arms=[{arm}]", "workload.groups=groups.json")
    counts = {(row["op"], row["ranks"]): row["count"] for row in outcome.record["collectives"]}
    assert len(counts) == 2 * len(kinds) + 2
    (bytes_check,) = (one for one in outcome.record["fidelity"]["checks"] if one["name"] == "bytes on the wire")
    assert bytes_check["value"] < 1e-4  # block exponents are not counted beforehand


def test_ranks_that_send_before_they_receive_are_named_with_what_they_wait_for(tmp_path: Path) -> None:
    pytest.importorskip("google.protobuf")
    sent = Node(1, "", Kind.COMM_SEND, bytes=40_000_000, tag=7)
    came = Node(2, "", Kind.COMM_RECV, (1,), bytes=40_000_000, tag=7)
    ranks = [[sent._replace(peer=1 - rank), came._replace(peer=1 - rank)] for rank in range(2)]
    told = r"nothing moves after .*: rank 0 waits for node 1 \(send of 40000000 bytes to rank 1, tag 7\); rank 1 waits"
    with pytest.raises(AssertionError, match=told):
        traced(tmp_path, ranks, "arms=[{topology: star(hosts=2), scheme: ring}]")


def test_a_trace_takes_no_gloo_and_meets_its_links(tmp_path: Path) -> None:
    pytest.importorskip("google.protobuf")
    nodes = [Node(1, "", Kind.COMP, duration_us=1000), summed(12_500_000)]
    with pytest.raises(SpecError, match="the lab simulator cannot play gloo: others move its bytes"):
        traced(tmp_path, [nodes] * 2, "arms=[{topology: star(hosts=2), scheme: gloo}]")
    arms = "arms=[{topology: star(hosts=2), scheme: ring}]"
    down = "perturb=[{kind: down, links: [h0-s0], at: 500 ms, until: 1500 ms}]"
    took_s = [traced(tmp_path, [nodes] * 2, arms, *more).record["metrics"]["jct_s"] for more in ((), (down,))]
    assert 1.0 <= took_s[1] - took_s[0] < 2.0, "TCP finds out late that the link is back"


@pytest.mark.parametrize("overlap", ["none", "layer"])
def test_a_trial_of_one_class_has_the_times_and_bytes_of_all_classes(
    overlap: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    change = "arms=[{topology: star(hosts=16), scheme: ring}]", f"workload.overlap={overlap}"
    _, every = played(tmp_path, *change)
    monkeypatch.setattr("testbed.workloads.sync.schemes.MOST_HOSTS", 8)
    trial, one = played(tmp_path, *change)
    assert trial.jobs[0].kind.name == "rotation"
    assert every.samples is not None
    assert one.samples is not None
    for column in ("start_s", "ready_s", "sum_s", "end_s"):
        np.testing.assert_allclose(one.samples[column], every.samples[column], rtol=1e-5, atol=1e-6)
    up, down = one.record["links"]
    assert (up["from"], down["to"]) == ("h0", "h0")
    for mine, other in zip((up, down), every.record["links"], strict=False):
        assert mine["bytes"] == pytest.approx(other["bytes"], rel=1e-5)
    assert one.record["fidelity"]["verdict"] == "SIMULATED"


def test_a_delay_that_grows_adds_to_each_round_of_a_ring_until_it_ends(tmp_path: Path) -> None:
    grown = "{kind: impair, delay: 1 ms, at: iteration 2, until: iteration 5}"
    trial, outcome = perturbed(tmp_path, grown, workload__chunk="1 GB")
    longer_s = [took_s - whole_s(trial) for took_s in gst_s(outcome)]
    assert longer_s[:2] + longer_s[5:] == pytest.approx([0] * 7, abs=1e-6)
    assert longer_s[3:5] == pytest.approx([6 * 2 * 0.001] * 2, abs=1e-6)
    assert outcome.record["fidelity"]["verdict"] == "SIMULATED"


def test_events_stand_in_the_order_in_which_they_began(tmp_path: Path) -> None:
    late, first = "{kind: rate, links: [h1], share: 50 %, at: 1 s}", "{kind: rate, links: [h0], share: 50 %}"
    _, outcome = perturbed(tmp_path, late, first)
    assert [event["begun_s"] for event in outcome.record["events"]] == [0.0, 1.0]


FLOW = "{kind: background, from: h0, to: h1, at: iteration 3, until: iteration 7}"


@pytest.mark.parametrize(
    ("scheme", "keys", "least", "most"),
    [
        ("ring", "", 1.6, 2.05),  # half of each link that they share
        ("ring", ", flows: 3", 3.0, 4.1),
        ("ring", ", rate: 25 Mbit/s", 1.1, 1.3),
        ("ps", "", 1.1, 1.5),  # three connections of four leave h0
    ],
)
def test_a_flow_of_others_takes_its_share_of_links(
    scheme: str, keys: str, least: float, most: float, tmp_path: Path
) -> None:
    arms = f"[{{topology: star(hosts=4), scheme: {scheme}}}]"
    trial, outcome = perturbed(tmp_path, FLOW.replace("}", keys + "}"), arms=arms, links__rate="100 Mbit/s")
    longer = np.array(gst_s(outcome)) / whole_s(trial)
    assert longer[[0, 1, 2, 8, 9]] == pytest.approx([1] * 5, abs=0.02)
    assert least < longer[4] < most
    others = {(link["from"], link["to"]): link["other_bytes"] for link in outcome.record["links"]}
    assert others["h0", "s0"] == others["s0", "h1"] > 10**7
    assert sum(others.values()) == 2 * others["h0", "s0"]
    for link in outcome.record["links"]:
        assert link["bytes"] == pytest.approx(link["theory_bytes"], rel=1e-6)
    judged = outcome.record["fidelity"]
    assert (judged["verdict"], judged["numbers"]["gst"]["error"]) == ("SIMULATED", None), "shares of TCP are not known"


@pytest.mark.parametrize("change", ["{kind: background, from: h0, to: h1}", FLOW])
@pytest.mark.parametrize("scheme", ["ring", "ps", "halving_doubling"])
def test_no_message_overtakes_one_of_an_iteration_before(change: str, scheme: str, tmp_path: Path) -> None:
    """A worker that has all sums of an iteration still sends some on when it begins the next one, over a slow link."""
    arms = f"arms=[{{topology: star(hosts=8), scheme: {scheme}}}]"
    by_layer = "workload.overlap=layer", "workload.priority=layer"
    _, outcome = played(tmp_path, arms, *by_layer, f"perturb=[{change}]", "links.rate=100 Mbit/s")
    assert outcome.record["fidelity"]["verdict"] == "SIMULATED"


def test_a_flow_that_goes_on_to_the_end_is_no_message_to_wait_for(tmp_path: Path) -> None:
    """A link with a rate of 1 % holds megabytes of it then; all that it has sent comes and is counted."""
    slow = "{kind: rate, links: [h1], direction: in, share: 1 %, at: iteration 9}"
    _, outcome = perturbed(tmp_path, "{kind: background, from: h0, to: h1}", slow)
    for link in outcome.record["links"]:
        assert link["bytes"] == pytest.approx(link["theory_bytes"], abs=3)


def test_a_link_that_stays_blocked_beside_a_flow_fails_the_trial(tmp_path: Path) -> None:
    perturb = "perturb=[{kind: down, links: [h0], at: 300 ms}, {kind: background, from: h1, to: h2}]"
    with pytest.raises(TrialError, match=r"nothing moves after .* wait for the links h0-s0"):
        Simulator(LIMITS).run(trial_of(perturb), Files(tmp_path, tmp_path), "reno", lambda *_: None)


@pytest.mark.parametrize("scheme", ["ring", "async_ps"])
def test_changes_without_end_let_no_trial_wait_for_ever(
    scheme: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("testbed.workloads.play.links.MOST_CHANGES", 100)
    endless = "{kind: rates, every: 100 ms, shares: {20 %: 0.5, 60 %: 0.5}, links: [h3]}"
    arms = f"arms=[{{topology: star(hosts=4), scheme: {scheme}}}]"
    perturb = f"perturb=[{endless}, {{kind: down, links: [h0], at: 300 ms}}]"
    with pytest.raises(TrialError, match=r"nothing moves after [12]\d\.\d+ s"):
        Simulator(LIMITS).run(trial_of(arms, perturb), Files(tmp_path, tmp_path), "reno", lambda *_: None)
    down = "{kind: down, links: [h0], at: 300 ms, until: 8 s}"
    perturbed(tmp_path, endless, down, arms=f"[{{topology: star(hosts=4), scheme: {scheme}}}]")


@pytest.mark.parametrize("scheme", ["async_ps", "ssp(staleness=1,servers=2)"])
@pytest.mark.parametrize(
    "change",
    [
        "{kind: background, from: h0, to: h4, flows: 4, at: iteration 2}",
        "{kind: impair, delay: 100 ms, at: iteration 2}",
    ],
)
def test_updates_meet_flows_and_delays(change: str, scheme: str, tmp_path: Path) -> None:
    jct_s = []
    for name, some in (("calm", ()), ("changed", (change,))):
        (tmp_path / name).mkdir()
        arms = f"[{{topology: star(hosts=5), scheme: '{scheme}'}}]"
        _, outcome = perturbed(tmp_path / name, *some, arms=arms)
        assert outcome.record["fidelity"]["verdict"] == "SIMULATED"
        jct_s.append(outcome.record["metrics"]["jct_s"])
    assert jct_s[1] > jct_s[0] + 0.3


MOVED = (
    "topology: 'patch_panel(servers=6,degree=2,rings=[[0,2,4,1,3,5]],technology=mems_3d)', "
    "scheme: 'multi_ring(strides=[1,5])'"
)


@pytest.mark.parametrize(
    ("moves", "dark_s"),
    [
        ("{kind: circuits, at: iteration 3, rings: [1]}", 0.01),
        ("{kind: circuits, at: iteration 3, rings: [1], reconfiguration: 1 s}", 1.0),
        ("{kind: circuits, at: 1600 ms, rings: [1], reconfiguration: 1 s}", 1.0),  # in mid-synchronisation
    ],
)
def test_circuits_that_move_are_dark_and_then_shorter(moves: str, dark_s: float, tmp_path: Path) -> None:
    _, outcome = played(tmp_path, f"arms=[{{{MOVED}, perturb: [{moves}]}}]")
    (event,) = outcome.record["events"]
    assert event["done_s"] - event["begun_s"] == pytest.approx(event["takes_s"]) == pytest.approx(dark_s)
    took_s = gst_s(outcome)
    whole = took_s[-1]
    assert took_s[0] == pytest.approx(4 * whole, rel=0.03), "rings over twice as many circuits, each way"
    samples = samples_of(outcome)
    ends_s = samples.groupby("iteration")["sum_s"].max()
    met = int((ends_s > event["begun_s"]).idxmax())
    assert took_s[met + 2 :] == pytest.approx([whole] * len(took_s[met + 2 :]), rel=0.01)
    assert outcome.record["fidelity"]["verdict"] == "SIMULATED", "each link carried what it should have"
    assert outcome.record["fidelity"]["numbers"]["gst"]["error"] is None


def test_new_circuits_disturb_nobody_before_they_carry_light(tmp_path: Path) -> None:
    """No circuit goes. Iterations in the dark are alike. Those after it begin like them, over a third of the links."""
    move = "{kind: circuits, at: 750 ms, rings: [3, 1], reconfiguration: 2500 ms}"
    arm = f"topology: 'patch_panel(servers=8,degree=4,rings=[3])', scheme: 'multi_ring(strides=[1])', perturb: [{move}]"
    _, outcome = played(tmp_path, f"arms=[{{{arm}}}]", "workload.chunk=1 GB")
    took_s = gst_s(outcome)
    assert took_s[:3] == pytest.approx([took_s[0]] * 3, rel=0.01)
    assert took_s[0] > took_s[3] > took_s[4], "light comes in mid-synchronisation"
    assert took_s[4:] == pytest.approx([took_s[0] / 3] * 6, rel=0.01)
    assert outcome.record["fidelity"]["verdict"] == "SIMULATED", "theory has the old ways in the dark, too"


def test_moves_wait_for_each_other_and_what_looks_ahead_costs_nothing(tmp_path: Path) -> None:
    ahead = "{kind: circuits, at: 1 s, rings: [1], look_ahead: true, reconfiguration: 1 s}"
    flip = "{kind: circuits, at: 1500 ms, flip: all}"
    arm = MOVED.replace("technology=mems_3d", "look_ahead=true")
    _, outcome = played(tmp_path, f"arms=[{{{arm}, perturb: [{ahead}, {flip}]}}]")
    first, second = outcome.record["events"]
    assert (first["begun_s"], first["done_s"]) == (1.0, 2.0)
    assert (second["planned_s"], second["begun_s"], second["done_s"]) == (1.5, 2.0, 2.0)
    assert outcome.record["fidelity"]["verdict"] == "SIMULATED"


def test_a_move_that_has_not_ended_with_the_trial_was_not_carried_out(tmp_path: Path) -> None:
    move = "{kind: circuits, at: 1 s, rings: [1], look_ahead: true, reconfiguration: 100 s}"
    behind = "{kind: circuits, at: 2 s, flip: all}"
    arm = MOVED.replace("technology=mems_3d", "look_ahead=true")
    _, outcome = played(tmp_path, f"arms=[{{{arm}, perturb: [{move}, {behind}]}}]")
    assert outcome.record["fidelity"]["verdict"] == "INVALID"
    (check,) = (one for one in outcome.record["fidelity"]["checks"] if one["name"] == "events")
    assert "2 of 2 failed" in check["detail"]
    moments = [(event["begun_s"], event["done_s"]) for event in outcome.record["events"]]
    assert sorted(moments, key=str) == [(1.0, None), (None, None)]


def test_steps_that_jitter_are_drawn_as_workers_draw_them_and_hold_up_a_ring(tmp_path: Path) -> None:
    """Each of six steps of each worker is late; the chain takes what the latest of them add up to, step by step."""
    jitter = "{kind: jitter, sigma: 50 ms, of: step}"
    trial, outcome = perturbed(tmp_path, jitter, workload__chunk="1 GB", workload__iterations="3")
    engines = [Jitter(trial.job.plan, node, 0.05, (trial.spec.seed, node)) for node in range(4)]
    samples, each_s, took_s = samples_of(outcome), whole_s(trial) / 6, []
    for _, own in samples.groupby("iteration"):
        came_s = ready_s = own.sort_values("rank")["ready_s"].to_numpy()
        due_s = left_s = np.zeros(4)
        for _step in range(6):
            late_s = [max(0.0, engine._random.normal(0.0, 0.05)) for engine in engines]
            due_s = np.maximum(came_s, due_s) + late_s
            left_s = np.maximum(due_s, left_s) + each_s
            came_s = np.roll(left_s, 1)
        took_s.append(came_s.max() - ready_s.max())
    assert gst_s(outcome) == pytest.approx(took_s, rel=0.05)
    assert (samples["end_s"] >= samples["sum_s"]).all()
    assert (samples["end_s"] > samples["sum_s"]).any(), "what jitter holds back leaves before the next iteration"
    judged = outcome.record["fidelity"]
    assert (judged["verdict"], judged["numbers"]["gst"]["error"]) == ("SIMULATED", None)


def test_only_some_workers_steps_jitter(tmp_path: Path) -> None:
    jitter = "{kind: jitter, sigma: 20 ms, of: step, workers: [h2]}"
    trial, outcome = perturbed(tmp_path, jitter, arms="[{topology: star(hosts=4), scheme: tree}]")
    _, calm = played(tmp_path, "arms=[{topology: star(hosts=4), scheme: tree}]")
    longer_s = np.array(gst_s(outcome)) - gst_s(calm)
    assert longer_s.min() > -0.01
    assert longer_s.max() > 0.005
    assert len({round(each_s, 6) for each_s in gst_s(outcome)}) > trial.job.iterations / 2, "each iteration is played"


def test_a_perturbed_trial_has_the_same_samples_to_the_last_bit(tmp_path: Path) -> None:
    changes = "{kind: jitter, sigma: 5 ms, of: step}", FLOW, "{kind: impair, delay: 1 ms, at: 1 s, until: 2 s}"
    tables = []
    for _ in range(2):
        table = io.BytesIO()
        samples_of(perturbed(tmp_path, *changes)[1]).to_parquet(table)
        tables.append(table.getvalue())
    assert tables[0] == tables[1]


def test_a_trace_meets_flows_and_delays(tmp_path: Path) -> None:
    pytest.importorskip("google.protobuf")
    nodes = [Node(1, "", Kind.COMP, duration_us=1000), summed(12_500_000)]
    flow = "{kind: background, from: h0, to: h1, at: 500 ms, until: 1500 ms}"
    delay = "{kind: impair, delay: 100 ms, at: 500 ms}"
    arms = "arms=[{topology: star(hosts=2), scheme: ring}]"
    jct_s = [
        traced(tmp_path, [nodes] * 2, arms, f"perturb=[{change}]").record["metrics"]["jct_s"]
        for change in ("", flow, delay)
    ]
    assert 0.4 < jct_s[1] - jct_s[0] < 0.7, "half of a second's bytes"
    assert jct_s[2] - jct_s[0] > 0.4


@pytest.mark.parametrize("change", ["{kind: background, from: h0, to: h1, flows: 3}", "{kind: impair, delay: 20 ms}"])
def test_servers_of_a_strategy_meet_flows_and_delays(change: str, tmp_path: Path) -> None:
    jct_s = []
    for name, some in (("calm", ()), ("changed", (change.replace("}", ", at: iteration 1}"),))):
        (tmp_path / name).mkdir()
        _, outcome = played(tmp_path / name, *HYBRID, f"perturb=[{', '.join(some)}]")
        assert outcome.record["fidelity"]["verdict"] == "SIMULATED"
        jct_s.append(outcome.record["metrics"]["jct_s"])
    assert jct_s[1] > 1.05 * jct_s[0]
