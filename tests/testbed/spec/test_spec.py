"""Specs that are right: defaults, overrides, shorthands; and trials made from them."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.base.errors import SpecError
from testbed.experiment.expand import trials
from testbed.spec import Source, read
from testbed.trial.model import Trial

from ..conftest import PROFILE, SPEC


def with_overrides(*overrides: str) -> Source:
    return read(SPEC, "spec.yaml", Path(), overrides)


def test_what_is_not_given_has_the_documented_default(source: Source) -> None:
    spec = source.spec
    assert (spec.lab, spec.repeats, spec.links.mtu, spec.links.delay_s) == ("netns", 1, 1500, 0.0)
    assert (spec.workload.warmup, spec.workload.momentum, spec.workload.overlap) == (1, 0.9, "none")
    assert spec.links.congestion_control is None
    assert spec.workload.compute.mode == "none"


def test_one_batch_needs_no_list() -> None:
    assert with_overrides("workload.batch=4").spec.workload.batch == [4]


@pytest.mark.parametrize(
    ("override", "value"),
    [
        ("workload.iterations=7", lambda spec: spec.workload.iterations == 7),
        ("arms.1.scheme=ps(place=tensor)", lambda spec: spec.arms[1].scheme == "ps(place=tensor)"),
        ("links.rate=1 Gbit/s", lambda spec: spec.links.rate_bps == 10**9),
        ("links.mtu=9000", lambda spec: spec.links.mtu == 9000),
        ("links.rate=2e8 bit/s", lambda spec: spec.links.rate_bps == 200_000_000),
        ("workload.learning_rate=1e-3", lambda spec: spec.workload.learning_rate == 0.001),
        ("workload.compute={mode: paced, pace: {2: 1 ms}}", lambda spec: spec.workload.compute.pace_s == {2: 0.001}),
    ],
)
def test_set_changes_one_setting(override: str, value) -> None:
    assert value(with_overrides(override).spec)


def test_set_reaches_a_pace_by_its_batch() -> None:
    paced = with_overrides("workload.compute={mode: paced, pace: {2: 1 s}}", "workload.compute.pace.2=3 ms")
    assert paced.spec.workload.compute.pace_s == {2: 0.003}


def test_operations_per_second_give_the_times_that_a_pace_does_not_have() -> None:
    """vgg16 has 15.47 G multiply-adds: two operations each, and twice as many in the backward pass."""
    text = PROFILE.replace("vgg19, batch: 32", "vgg16, batch: [8, 16]").replace(
        "scale: 200", "scale: 200, compute: {flops: 10 TFLOP/s, pace: {16: 2 s}}"
    )
    compute = read(text, "spec.yaml", Path()).spec.workload.compute
    assert compute.pace_s == {8: pytest.approx(6 * 15.47e9 * 8 / 10e12, rel=1e-3), 16: 2.0}
    assert "flop_per_s" not in compute.model_dump()  # it follows from the times, so identities have it already


def test_every_arm_runs_with_every_batch_side_by_side() -> None:
    ids = [trial.id for trial in trials(with_overrides("workload.batch=[2, 4]"))]
    assert ids == ["PS-b2", "ring-b2", "PS-b4", "ring-b4"]


def test_repeats_are_interleaved_and_numbered() -> None:
    ids = [trial.id for trial in trials(with_overrides("repeats=2"))]
    assert ids == ["PS-b2-r1", "ring-b2-r1", "ring-b2-r2", "PS-b2-r2"]


def test_arms_that_shorten_alike_still_have_ids_of_their_own() -> None:
    arms = "arms=[{topology: 'fat_tree(k=4,routing=ecmp)', scheme: ring}, {topology: 'fat_tree(k=4)', scheme: ring}]"
    ids = [trial.id for trial in trials(with_overrides(arms))]
    assert ids == ["ring-fat-tree4-ecmp-b2", "ring-fat-tree4-b2"]


def test_arms_that_shorten_alike_are_told_apart_by_their_digest(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "mine.py").write_text("from testbed.workloads.sync.schemes.ring import ring\n")
    arms = ", ".join(f"{{topology: star(hosts=3), scheme: './{folder}/mine.py:ring'}}" for folder in ("a", "b"))
    found = trials(read(SPEC, "spec.yaml", tmp_path, [f"arms=[{arms}]"]))
    assert len({trial.id for trial in found}) == 2
    assert [trial.id for trial in found] == [f"mine-ring-star3-b2-{trial.identity[:6]}" for trial in found]


def test_identity_is_that_of_what_the_result_depends_on(trial: Trial) -> None:
    def identity(*overrides: str) -> str:
        return trials(with_overrides(*overrides))[0].identity

    same = ["timeout=30 s", "name=other", "repeats=2", "workload.batch=[2, 8]", "arms.0.label=other"]
    other = ["seed=2", "links.rate=1 Gbit/s", "workload.iterations=4", "arms.0.topology=star(hosts=4)"]
    assert {identity(one) for one in same} == {trial.identity}
    assert len({identity(one) for one in other} | {trial.identity}) == len(other) + 1


def test_identity_sees_a_change_inside_a_users_scheme(tmp_path: Path) -> None:
    def identity(broadcast_root: int) -> str:
        (tmp_path / f"s{broadcast_root}.py").write_text(
            "import numpy as np\nfrom testbed.workloads.sync.forest import ABSENT as A, ROOT as R, Forest\n"
            "def tree(topology, tensor_sizes):\n"
            f"    root = {broadcast_root}\n"
            "    row = np.array([[R if i == root else root for i in range(3)] + [A]], np.int32)\n"
            "    return Forest('t', tuple(n.name for n in topology.nodes), (0, 1, 2), np.array([1]), row, row)\n"
        )
        arm = f"arms=[{{topology: star(hosts=3), scheme: './s{broadcast_root}.py:tree'}}]"
        (trial,) = trials(read(SPEC, "spec.yaml", tmp_path, [arm]))
        return trial.identity

    assert identity(0) != identity(1)


def test_theory_is_that_of_the_most_loaded_link() -> None:
    ps, ring = trials(with_overrides())
    gradient_bits = 8 * 4 * 3_274_634
    early_s = 0.001 + 1024 * 8 / (200e6 * 1448 / 1514)  # a bucket of 1 ms, and the last packet
    expected_s = 2 * 2 / 3 * gradient_bits / (200e6 * 1448 / 1514) - early_s  # 2(N-1)/N, three workers
    assert ps.job.gst_theory_s == pytest.approx(expected_s, rel=1e-4)
    assert ring.job.gst_theory_s == pytest.approx(expected_s, rel=1e-4)
    assert ps.jct_theory_s == pytest.approx(3 * expected_s, rel=1e-4)


def test_jct_is_not_predicted_where_computing_takes_what_it_takes() -> None:
    assert trials(with_overrides("workload.compute=real"))[0].jct_theory_s is None


def test_the_shipped_quickstart_is_right(root: Path) -> None:
    from testbed.spec import load

    found = trials(load(root / "experiments" / "quickstart.yaml", ["workload.compute.pace={16: 0.3 s, 64: 0.8 s}"]))
    assert {trial.network.arm.scheme for trial in found} == {"ps", "ring", "bml"}
    assert {trial.job.world for trial in found} == {9}
    assert len({trial.job.batch for trial in found}) == 2
    assert len(found) == 6


def test_the_shipped_sweep_is_right_and_short(root: Path) -> None:
    from testbed.experiment.planning import plan
    from testbed.spec import load

    planned = plan(load(root / "experiments" / "sweep.yaml"))
    assert len(planned["trials"]) == 28
    assert planned["sweep"]["topology.hosts"] == [2, 4, 8]
    assert planned["duration_s"] < 120


def test_a_files_name_that_cannot_name_a_directory_is_refused() -> None:
    with pytest.raises(SpecError) as error:
        read(SPEC.partition("\n")[2], "my spec.yaml", Path())
    assert error.value.problem == "my spec.yaml: it has no name, and its file's cannot name a directory"
    assert "name: mine" in str(error.value.fix)
