"""When two trials are the same, so that one need not run again; and what is built for them."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from testbed.base.errors import SpecError
from testbed.experiment import built as building
from testbed.experiment.expand import trials
from testbed.run_directory.resolved import resolved
from testbed.spec import read
from testbed.trial.model import Trial
from testbed.workloads.kinds.asynchronous.plan import Asynchronous
from testbed.workloads.sync.forest import ABSENT, ROOT, FixedPoint, Forest

from ..conftest import SPEC

TWO_WAYS = """
from testbed.topologies.model import Link, Node, Topology
from testbed.topologies.shortest import ShortestPaths

def two_ways(rate_bps, delay_s):
    nodes = [Node("h0", "host", 0), Node("h1", "host", 0), *(Node(f"s{i}", "switch", 1) for i in range(4))]
    ends = [(0, 2), (2, 3), (3, 5), (2, 4), (4, 5), (5, 1)]
    used = [0] * 6
    links = []
    for a, b in ends:
        links.append(Link(a, used[a], b, used[b], rate_bps, delay_s))
        used[a], used[b] = used[a] + 1, used[b] + 1
    return Topology("two_ways", {}, tuple(nodes), tuple(links), ShortestPaths(ecmp=False))
"""


def identity(folder: Path, *overrides: str) -> str:
    arms = "arms=[{topology: ./net.py:two_ways, scheme: ring}]"
    return trials(read(SPEC, "spec.yaml", folder, [arms, *overrides]))[0].identity


def test_other_routes_make_another_trial(tmp_path: Path) -> None:
    """A user's router is code: nodes and links stay the same when it changes."""
    (tmp_path / "net.py").write_text(TWO_WAYS)
    before = identity(tmp_path)
    assert identity(tmp_path) == before
    assert identity(tmp_path, "name=other", "timeout=30 s") == before
    assert identity(tmp_path, "seed=2") != before
    (tmp_path / "net.py").write_text(TWO_WAYS.replace("ecmp=False", "ecmp=True"))
    assert identity(tmp_path) != before


def test_an_arm_at_a_rate_of_its_own_is_the_trial_that_all_links_of_that_rate_make() -> None:
    """Links that have their own keep it."""
    own = "links={rate: 200 Mbit/s, h0: {rate: 10 Mbit/s}}"
    first, second = trials(read(SPEC, "spec.yaml", Path(), [own, "arms.0.rate=1 Gbit/s"]))
    assert sorted(link.rate_bps for link in first.topology.links) == [10**7, 10**9, 10**9]
    assert sorted(link.rate_bps for link in second.topology.links) == [10**7, 2 * 10**8, 2 * 10**8]
    everywhere, _ = trials(read(SPEC, "spec.yaml", Path(), [own, "links.rate=1 Gbit/s"]))
    assert first.identity == everywhere.identity
    assert first.job.gst_theory_s == everywhere.job.gst_theory_s


PINNED = """
name: pinned
links: {rate: 10 Gbit/s}
workload: {kind: profile, model: vgg19, batch: 32, iterations: 3, scale: 2000}
arms:
  - {topology: star(hosts=4), scheme: ring}
  - {topology: star(hosts=4), scheme: ps, perturb: [{kind: slow, workers: h1, slowdown: 2}]}
  - {topology: "patch_panel(servers=4,degree=2,rings=[1])", scheme: "multi_ring(strides=[1,3])"}
  - {topology: star(hosts=4), scheme: async_ps}
"""
IDENTITIES = ["2f5fc7abb4019a38", "127c8054359f96af", "f9bfcb0aaa39d10e", "b5b80eac19afa03e"]
"""As they were before arms could have jobs, strategies or a memory."""


def test_trials_without_jobs_and_strategies_keep_their_identities() -> None:
    """So that a run that an earlier version began can go on."""
    assert [trial.identity[:16] for trial in trials(read(PINNED, "spec.yaml", Path()))] == IDENTITIES


TRAINED = """
name: pinned
links: {rate: 10 Gbit/s}
workload: {model: resnet8, dataset: digits, batch: 4, iterations: 3, compute: {mode: paced, pace: {4: 0.1 s}}}
arms:
  - {topology: star(hosts=4), scheme: ring}
  - {topology: star(hosts=4), scheme: async_ps}
"""


def test_trials_of_sgd_keep_their_identities() -> None:
    """As they were before there was another optimiser, which makes other trials; runs of before can go on."""
    assert "optimiser" not in resolved(read(TRAINED, "spec.yaml", Path()))["workload"]
    found = [trial.identity[:16] for trial in trials(read(TRAINED, "spec.yaml", Path()))]
    assert found == ["453e12e46558f880", "9b68d309a4dae4a5"]
    asked = ["workload.optimiser=[sgd,nesterov]"]
    swept = [trial.identity[:16] for trial in trials(read(TRAINED, "spec.yaml", Path(), asked))]
    assert len({*swept}) == 4
    assert {*found} < {*swept}


FIELDS: dict[str, Any] = {
    "scheme": "another",
    "nodes": ("h0", "h1", "h2", "s1"),
    "workers": (0, 2, 1),
    "share": np.array([2, 1, 1]),
    "reduce": np.array([[ROOT, 0, 1, ABSENT], [1, ROOT, 1, ABSENT], [2, 2, ROOT, ABSENT]], np.int32),
    "broadcast": np.array([[ROOT, 0, 1, ABSENT]], np.int32),
    "aligned": True,
    "fixed": FixedPoint(1e6, 4),
    "window": 3,
    "run_by": Asynchronous(staleness=2),
    "members": np.array([[True, True, True, False]]),
}


@pytest.mark.parametrize("name", [one.name for one in fields(Forest)])
def test_whatever_workers_get_of_a_forest_makes_another_trial(trial: Trial, name: str) -> None:
    """A scheme of one's own may change any of it."""
    network, job = trial.network, trial.job
    if name == "scheme":
        network = replace(network, arm=network.arm.model_copy(update={"scheme": FIELDS[name]}))
    else:
        job = replace(job, plan=replace(job.plan, **{name: FIELDS[name]}))
    assert replace(trial, network=network, jobs=(job,)).identity != trial.identity
    assert replace(trial, repeat=3).identity == trial.identity


def test_whatever_workers_get_besides_makes_another_trial(trial: Trial) -> None:
    """What is drawn of stragglers, and how the gradient is cut, follow from code, too."""
    slow = "perturb=[{kind: jitter, sigma: 20 ms}]"
    (drawn, _) = trials(read(SPEC, "spec.yaml", Path(), [slow, "workload.compute=real"]))
    before = drawn.identity
    again = replace(drawn, jobs=(replace(drawn.job),))
    assert again.job.stragglers is not None
    again.job.stragglers.extra_s[1, 1] += 0.001
    assert again.identity != before
    cut = replace(trial.job, gradient=replace(trial.job.gradient, buckets=((0, 4), (4, 8))))
    assert replace(trial, jobs=(cut,)).identity != trial.identity


def test_a_network_is_built_once_however_many_trials_use_it(monkeypatch: pytest.MonkeyPatch) -> None:
    built: Counter[str] = Counter()

    def counted(name: str) -> None:
        original = getattr(building, name)

        def build(expression: str, *arguments: Any, **settings: Any) -> Any:
            built[f"{name} {expression}"] += 1
            return original(expression, *arguments, **settings)

        monkeypatch.setattr(building, name, build)

    counted("build_topology")
    counted("build_plan")
    overrides = ["seed=1..3", "workload.chunk=[32 KiB, 1 MiB]", "workload.batch=[2, 4]", "repeats=3"]
    found = trials(read(SPEC, "spec.yaml", Path(), overrides))
    assert len(found) == 2 * 3 * 2 * 2 * 3
    assert built == {"build_topology star(hosts=3)": 1, "build_plan ps": 1, "build_plan ring": 1}
    built.clear()
    trials(
        read(SPEC, "spec.yaml", Path(), ["links.rate=[100 Mbit/s, 200 Mbit/s]", "arms.1.topology=star(hosts=[3,4])"])
    )
    assert built == {
        "build_topology star(hosts=3)": 2,
        "build_topology star(hosts=4)": 2,
        "build_plan ps": 2,
        "build_plan ring": 4,
    }


def test_points_that_read_alike_have_ids_of_their_own() -> None:
    paces = ", ".join(f"{{mode: paced, pace: {{2: {pace} s}}}}" for pace in (0.1, 0.2))
    overrides = [f"workload.compute=[{paces}]", "timeout=1..2 min"]
    found = trials(read(SPEC, "spec.yaml", Path(), overrides))
    assert len({trial.id for trial in found}) == len(found) == 8
    assert len({trial.name for trial in found}) == 4
    assert len({trial.identity for trial in found}) == 4  # a timeout changes no result
    assert all(len(trial.id) < 200 for trial in found)


@pytest.mark.parametrize("lab", ["baremetal", "machines"])
def test_open_mpi_on_machines_is_refused_before_anything_is_touched(tmp_path: Path, lab: str) -> None:
    """Its daemons would have to reach each other by ssh."""
    arms = "arms=[{topology: star(hosts=3), scheme: openmpi}]"
    assert trials(read(SPEC, "spec.yaml", tmp_path, [arms]))
    told = rf"arms.0: scheme openmpi: mpirun reaches the other hosts by ssh from the first one, and the lab {lab} has"
    with pytest.raises(SpecError, match=told):
        trials(read(SPEC, "spec.yaml", tmp_path, [arms, f"lab={lab}"]))


def test_a_scheme_in_a_file_makes_the_same_trial_from_wherever_the_spec_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that goes on reads its spec from the run directory, and its files from the folder that it recorded."""
    code = (
        "from testbed.workloads.sync.schemes.ring import ring\n\ndef my(net, tensor_sizes):\n    return ring(net, [])"
    )
    (tmp_path / "mine.py").write_text(code)
    text = SPEC.replace("scheme: ring", 'scheme: "./mine.py:my"')
    monkeypatch.chdir(tmp_path)
    here, there = (trials(read(text, "spec.yaml", folder))[-1] for folder in (Path(), tmp_path))
    assert here.network.arm.scheme == "./mine.py:my"
    assert here.identity == there.identity


def test_links_that_take_longer_to_measure_than_the_timeout_are_refused() -> None:
    with pytest.raises(SpecError) as error:
        trials(read(SPEC, "spec.yaml", Path(), ["links.rate=50 kbit/s", "timeout=90 s", "workload.model=lenet5"]))
    assert "the timeout of 1 min 30 s is shorter than" in str(error.value)
