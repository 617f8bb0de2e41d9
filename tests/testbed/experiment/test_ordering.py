"""Orders of ranks that arms ask for: what follows the ranks, and what stays with the hosts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from testbed.base.errors import SpecError
from testbed.execution import programs, scripts, stage
from testbed.experiment.expand import trials
from testbed.experiment.planning import plan
from testbed.spec import read
from testbed.topologies.addressing import plan as addresses_of
from testbed.topologies.call import parse
from testbed.trial import job_files
from testbed.trial.files import Files
from testbed.trial.model import Trial
from testbed.workloads.job import WorkerJob
from testbed.workloads.rank_job import RankJob
from testbed.workloads.ranks.costs import build
from testbed.workloads.ranks.probed import decide

HOSTS = "[h2, h0, h3, h1]"
RANKS = (2, 0, 3, 1)
HEAD = """\
name: ordered
links: {rate: 100 Mbit/s}
workload: {kind: profile, model: lenet5, scale: 10, batch: 16, iterations: 4, compute: {pace: {16: 10 ms}}}
"""
SCRIPT = HEAD[: HEAD.index("workload")] + "workload: {kind: command, command: python rank.py}\n"


def of(keys: str, head: str = HEAD, topology: str = "star(hosts=4)", folder: Path = Path()) -> Trial:
    (found,) = trials(read(f"{head}arms: [{{topology: '{topology}', {keys}}}]", "spec.yaml", folder))
    return found


@pytest.mark.parametrize("scheme", ["ring", "gloo", "openmpi", "halving_doubling", "tree", "'bcube(base=4)'"])
def test_ranks_follow_the_order(scheme: str) -> None:
    trial = of(f"scheme: {scheme}, order: {HOSTS}")
    job = trial.job
    assert job.plan.workers == RANKS
    assert [process.name for process in job.members.values()] == ["h2", "h0", "h3", "h1"]
    assert [process.parts[0].rank for process in job.members.values()] == [0, 1, 2, 3]


def test_the_order_of_numbers_moves_the_same_bytes_on_each_link() -> None:
    plain, ordered = of("scheme: ring").job, of("scheme: ring, order: [h0, h1, h2, h3]").job
    assert ordered.plan.workers == plain.plan.workers
    np.testing.assert_array_equal(ordered.cost.link_bytes, plain.cost.link_bytes)
    assert ordered.gst_theory_s == plain.gst_theory_s


def test_neighbours_in_the_order_are_neighbours_in_the_ring() -> None:
    """On two racks, ranks that alternate between them cross the uplinks with every hop."""
    racks = "spine_leaf(racks=2,hosts_per_rack=2,spines=1,oversubscription=2)"
    near, far = (of(f"scheme: ring, order: {order}", topology=racks).job for order in (HOSTS, "[h0, h2, h1, h3]"))
    assert far.cost.cross_rack_bytes == pytest.approx(2 * of("scheme: ring", topology=racks).job.cost.cross_rack_bytes)
    assert near.cost.cross_rack_bytes == far.cost.cross_rack_bytes


def test_a_draw_is_an_order_by_chance_and_always_the_same() -> None:
    hosts = "star(hosts=12)"
    first, again, other = (
        of(f"scheme: ring, order: {order}", topology=hosts).job.plan.workers
        for order in ("random(3)", "random(draw=3)", "random(4)")
    )
    assert first == again != other
    assert sorted(first) == [*range(12)]
    assert first != (*range(12),)


def test_draws_and_percentiles_are_swept() -> None:
    found = trials(
        read(
            f"{HEAD}arms: [{{topology: star(hosts=4), scheme: ring, order: random(draw=1..3)}},"
            "{topology: star(hosts=4), scheme: ring, order: 'percentile(percentile=[10,90])'}]",
            "spec.yaml",
            Path(),
        )
    )
    workers = {trial.point["order.draw"]: trial.job.plan.workers for trial in found if "order.draw" in trial.point}
    assert sorted(workers) == [1, 2, 3]
    assert len({*workers.values()}) > 1
    assert sorted(trial.point["order.percentile"] for trial in found if not trial.point.keys() & {"order.draw"}) == [
        10,
        90,
    ]


def test_the_order_of_numbers_stands_for_one_that_is_found() -> None:
    trial = of("scheme: ring, order: best")
    assert trial.job.plan.workers == (0, 1, 2, 3)
    assert trial.findings[""].probe == "latency"
    assert of("scheme: ring, order: worst(model=linear)").findings[""].probe == "linear"
    assert plan(read(f"{HEAD}arms: [{{topology: star(hosts=4), scheme: ring, order: best}}]", "spec.yaml", Path()))[
        "trials"
    ][0]["to_be_found"] == {"latency": "the order of numbers"}


def racks(rank: dict[str, int]) -> dict[str, list[float]]:
    """Round trips (s) between hosts of racks, by name."""
    return {a: [0.0 if a == b else 1e-4 if rank[a] == rank[b] else 1e-3 for b in rank] for a in rank}


@pytest.mark.parametrize("scheme", ["ring", "gloo", "halving_doubling", "double_binary_tree", "'bcube(base=2)'"])
def test_what_hosts_measure_decides_the_order_of_the_trial_that_runs(scheme: str) -> None:
    """Hosts h0 and h2 share a rack, and so do h1 and h3."""
    measured = racks({"h0": 0, "h1": 1, "h2": 0, "h3": 1})
    best, worst = of(f"scheme: {scheme}, order: best"), of(f"scheme: {scheme}, order: worst")
    ran = stage.decided(best, lambda _: measured)
    (found,) = ran.found
    assert (found["probe"], found["job"]) == ("latency", "")
    search = found["search"]
    assert found["settings"]["order"] == f"[{','.join(search['order'])}]"
    assert [ran.topology.index[name] for name in search["order"]] == list(ran.job.plan.workers)
    assert search["proven"]
    assert search["cost_s"] == search["best_s"] <= search["by_number_s"] <= search["worst_s"]
    assert ran.identity != best.identity, "the record keeps that of the spec as written"
    assert ran.label == best.label == f"{scheme.strip(chr(39))} on star(hosts=4) in order best"
    opposite = stage.decided(worst, lambda _: measured).found[0]["search"]
    assert opposite["cost_s"] == opposite["worst_s"] == search["worst_s"] > search["cost_s"]
    if scheme == "ring":
        assert {*ran.job.plan.workers[:2]} in ({0, 2}, {1, 3}, {0, 1}, {0, 3}, {1, 2}, {2, 3})
        assert search["cost_s"] == pytest.approx((2 * 1e-4 + 2 * 1e-3) / 2)


def test_renamed_hosts_have_the_same_order_renamed_and_lost_pairs_cost_the_most() -> None:
    cost = build(parse("ring", ""), 4)
    measured = racks({"a": 0, "b": 1, "c": 0, "d": 1})
    lost = {name: list(row) for name, row in measured.items()}
    lost["a"][1] = lost["b"][0] = None  # type: ignore[call-overload]
    first, second = (
        decide([*some], some, 0, cost=cost, percentile=0, size_bytes=0)
        for some in (lost, {name.upper(): row for name, row in measured.items()})
    )
    assert [name.upper() for name in first.facts["order"]] == second.facts["order"]
    assert first.facts["cost_s"] == second.facts["cost_s"]


def test_bytes_count_by_both_probes() -> None:
    """All hosts are equally far, and transfers between racks are slow: a tenth of the rate."""
    rate = {"h0": 0, "h1": 1, "h2": 0, "h3": 1}
    alike = {name: [0.0 if name == other else 1e-4 for other in rate] for name in rate}
    both = {name: [*alike[name], *(1e-5 * one for one in row)] for name, row in racks(rate).items()}
    trial = of('scheme: halving_doubling, order: "best(model=linear)"')
    found = stage.decided(trial, lambda _: both).found[0]
    order = found["search"]["order"]
    assert {*order[:2]} in ({"h0", "h2"}, {"h1", "h3"}), "half of the bytes stay in a rack"
    size = trial.job.gradient_bytes
    assert found["search"]["cost_s"] == pytest.approx(2 * 5e-5 + 8 * size * (1e-9 / 2 + 1e-8 / 4))


def test_orders_have_identities_and_names_of_their_own() -> None:
    keys = ["", f", order: {HOSTS}", ", order: random(1)", ", order: random(2)"]
    found = [of(f"scheme: ring{more}") for more in keys]
    assert len({trial.identity for trial in found}) == len(keys)
    assert [trial.label for trial in found] == [
        "ring on star(hosts=4)",
        "ring on star(hosts=4) in order h2, h0, h3, h1",
        "ring on star(hosts=4) in order random(1)",
        "ring on star(hosts=4) in order random(2)",
    ]
    assert [trial.id for trial in found] == [
        *("ring-star4-b16", "ring-star4-h2-h0-h3-h1-b16", "ring-star4-random-1-b16", "ring-star4-random-2-b16")
    ]


def test_what_is_drawn_for_a_host_does_not_depend_on_its_rank() -> None:
    """Slow hosts are slow in any order."""
    draws = "scheme: ring, perturb: [{kind: straggle, probability: 0.5, slowdown: 3}]"
    plain, ordered = of(draws).job, of(f"{draws}, order: {HOSTS}").job
    assert plain.stragglers is not None
    assert ordered.stragglers is not None
    np.testing.assert_array_equal(ordered.stragglers.factor, plain.stragglers.factor[list(RANKS)])
    assert not (ordered.stragglers.factor == plain.stragglers.factor).all()
    slow = "scheme: ring, perturb: [{kind: slow, workers: [h2], slowdown: 3}]"
    np.testing.assert_array_equal(of(f"{slow}, order: {HOSTS}").job.pace_s[:, 0], [0.03, 0.01, 0.01, 0.01])


@pytest.mark.parametrize("scheme", ["ring", "gloo"])
def test_workers_are_told_their_ranks_and_meet_at_the_first(scheme: str, tmp_path: Path) -> None:
    files = Files(tmp_path, tmp_path / "logs")
    jobs = [
        WorkerJob.load(Path(one.job)) for one in job_files.write(of(f"scheme: {scheme}, order: {HOSTS}"), files, "reno")
    ]
    assert {job.name: job.rank for job in jobs} == {"h2": 0, "h0": 1, "h3": 2, "h1": 3}
    if scheme == "gloo":
        (meeting,) = {(job.meeting.hosts, job.meeting.first) for job in jobs if job.meeting}
        assert meeting == (("h2", "h0", "h3", "h1"), next(job.meeting.local for job in jobs if job.meeting))


@pytest.mark.parametrize("keys", ["scheme: ring, ", "scheme: gloo, ", ""])
def test_ranks_of_programs_follow_the_order(keys: str, tmp_path: Path) -> None:
    (tmp_path / "rank.py").write_text("")
    trial = of(f"{keys}order: {HOSTS}", SCRIPT, folder=tmp_path)
    names = {node.name: node.name for node in trial.topology.nodes}
    files = Files(tmp_path, tmp_path, names)
    launches = programs.launches(trial, files)
    told = {one.process: one.program.environment for one in launches if one.program}
    first = addresses_of(trial.topology).of(2, 0)
    assert {name: one["RANK"] for name, one in told.items()} == {"h2": "0", "h0": "1", "h3": "2", "h1": "3"}
    assert {one["MASTER_ADDR"] for one in told.values()} == {first}
    if keys:
        scripts.write(trial, files, "reno")
        job = RankJob.load(files.job("h0"))
        assert (job.rank, job.node, job.addresses[0]) == (1, 0, first)
        assert job.addresses[1] == addresses_of(trial.topology).of(0, 0)


@pytest.mark.parametrize(
    ("keys", "problem", "fix"),
    [
        ("scheme: ring, order: [h0, h0, h1, h2]", "order names h0 twice", "name each of the 4 hosts once"),
        ("scheme: ring, order: [h0, h1]", "order leaves out h2, h3", "name each of the 4 hosts once"),
        (
            "scheme: ring, order: [h0, h1, h2, h9]",
            "order names h9, and star(hosts=4) has no host of that name",
            "name each of the 4 hosts once",
        ),
        ("scheme: ps, order: random(1)", "order: scheme ps is alike in every order", "leave order out"),
        ("scheme: h_ar, order: random(1)", "order: scheme h_ar goes by the places of hosts", "leave order out"),
        ("scheme: ssp, order: random(1)", "order: scheme ssp is alike in every order", "leave order out"),
    ],
)
def test_orders_that_cannot_be(keys: str, problem: str, fix: str) -> None:
    with pytest.raises(SpecError) as error:
        of(keys)
    assert error.value.problem == f"spec.yaml: arms.0: {problem}"
    assert error.value.fix == fix
