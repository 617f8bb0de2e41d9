"""A box in a real lab: sums, weights, the bytes of each NIC, and what happens when a worker dies."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from testbed.execution.execute import Outcome

from ..bench import Bench
from ..records import carried_what_the_forest_says

pytestmark = pytest.mark.lab

TRAINED = """
name: phub
links: {rate: 1 Gbit/s}
workload:
  model: resnet8
  dataset: digits
  batch: 4
  iterations: 6
  learning_rate: 0.05
  momentum: 0.5
  overlap: layer
  compute: {mode: paced, pace: {4: 0.1 s}}
arms:
  - {label: PBox, topology: star(hosts=4), scheme: pbox}
  - {label: PShard, topology: star(hosts=3), scheme: "pbox(colocated=true,key_bytes=4096)"}
  - {label: NICs, topology: "star(hosts=4,server_nics=2,routing=every_nic)", scheme: "pbox(cores=2,aggregation=wide)"}
  - {label: by worker, topology: "star(hosts=4,server_nics=2,routing=every_nic)", scheme: pbox(affinity=worker)}
  - label: racks
    topology: "spine_leaf(racks=2,hosts_per_rack=3,spines=1,server_nics=2,routing=every_nic)"
    scheme: pbox(boxes=rack,across=ps)
  - {label: ring, topology: "spine_leaf(racks=3,hosts_per_rack=2,spines=1)", scheme: "pbox(boxes=rack,across=ring)"}
timeout: 20 s
retries: 0
quiet: 0 s
"""
PLAYED = """
name: played
links: {rate: 40 Gbit/s}
workload:
  {kind: profile, model: resnet50, batch: 32, iterations: 4, scale: 200, compute: {mode: paced, pace: {32: 0.1 s}}}
arms:
  - {label: PBox, topology: "star(hosts=4,server_nics=3,routing=every_nic)", scheme: pbox}
  - {label: wide, topology: "star(hosts=4,server_nics=3,routing=every_nic)", scheme: pbox(aggregation=wide)}
  - {label: PShard, topology: star(hosts=4), scheme: pbox(colocated=true)}
  - {label: by worker, topology: "star(hosts=4,server_nics=3,routing=every_nic)", scheme: pbox(affinity=worker)}
  - {label: NICs, topology: "star(hosts=4,server_nics=3,routing=every_nic)", scheme: pbox(key_bytes=0)}
  - label: racks
    topology: "spine_leaf(racks=2,hosts_per_rack=3,spines=1,server_nics=2,routing=every_nic)"
    scheme: pbox(boxes=rack)
retries: 0
quiet: 0 s
"""


REHEARSED = [pytest.param(label, marks=pytest.mark.rehearse) for label in ("PShard", "by worker", "ring")]
"""Arms whose sums over connections of this machine ``test_processes.py`` holds, too."""


@pytest.fixture(scope="module")
def trained(bench: Bench, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Outcome]:
    """Run the arm of a label, once."""

    @cache
    def ran(label: str) -> Outcome:
        (outcome,) = bench.run(TRAINED, tmp_path_factory.mktemp("phub"), labels=[label])
        return outcome

    return ran


@pytest.mark.parametrize("label", ["PBox", "NICs", "racks", *REHEARSED])
def test_weights_are_the_references(trained: Callable[[str], Outcome], label: str) -> None:
    record = trained(label).record
    assert (record["status"], record["error"]) == ("done", None)
    assert record["accuracy"]["weights_equal"] is True
    assert record["sums"]["checked_sums"] == 6
    assert record["sums"]["sums_error"] <= record["sums"]["sums_allowed"]
    carried_what_the_forest_says(record)


def test_samples_tell_when_each_layer_was_ready_pushed_and_back(trained: Callable[[str], Outcome]) -> None:
    samples = trained("PBox").samples
    assert samples is not None
    ready, pushed, back = (samples.filter(regex=rf"^{what}_s_\d+$") for what in ("ready", "pushed", "back"))
    assert ready.shape == pushed.shape == back.shape
    assert ready.shape[1] == 17, "convolutions, normalisations and the linear layer of ResNet-8"
    assert not np.isnan(back).any(axis=None)
    assert (ready.to_numpy() <= pushed.to_numpy()).all()
    assert (pushed.to_numpy() <= back.to_numpy()).all()
    for last, moment in ((ready, "ready_s"), (back, "sum_s")):  # a busy machine may stop a worker between the two
        assert (last.max(axis=1) - samples[moment]).abs().median() < 1e-3, "GST ends with the last layer"


def test_a_box_takes_nesterovs_step_as_the_reference_does(bench: Bench, tmp_path: Path) -> None:
    """By worker, another core may take the next step, and has the velocity from the one before."""
    arms = "".join(f"{line}\n" for line in TRAINED.splitlines() if "label: PBox" in line or "label: by worker" in line)
    spec = TRAINED[: TRAINED.index("arms:")].replace("momentum: 0.5", "momentum: 0.5\n  optimiser: nesterov")
    outcomes = bench.run(f"{spec}arms:\n{arms}timeout: 20 s\nretries: 0\nquiet: 0 s\n", tmp_path)
    assert len(outcomes) == 2
    for outcome in outcomes:
        record = outcome.record
        assert (record["status"], record["error"]) == ("done", None)
        assert record["accuracy"]["weights_equal"] is True


@pytest.mark.parametrize(
    "labels", [("PBox", "wide", "racks"), pytest.param(("PShard", "by worker", "NICs"), marks=pytest.mark.rehearse)]
)
def test_sums_of_a_profile_are_right(bench: Bench, tmp_path: Path, labels: tuple[str, ...]) -> None:
    outcomes = bench.run(PLAYED, tmp_path, labels=labels)
    assert len(outcomes) == len(labels)
    for outcome in outcomes:
        record = outcome.record
        assert (record["status"], record["error"]) == ("done", None)
        assert record["sums"]["wrong_elements"] == 0
        assert record["metrics"]["gst_median_s"] > 0
        carried_what_the_forest_says(record)
        assert all(link["theory_bytes"] for link in record["links"]), "no NIC is dark"


WAITS = r"h3\.core\d made no progress for 2 s; it waits for (key \d+ from )?(h0, )?h1( to take what is theirs)?"


@pytest.mark.parametrize(
    ("event", "said"),
    [
        pytest.param("kind: kill, nodes: h1", "the worker on h1 was killed by SIGKILL", marks=pytest.mark.rehearse),
        ("kind: kill, nodes: h3", r"the process h3\.(core\d|manager) was killed by SIGKILL"),
        ("kind: freeze, hosts: [h1], until: 60 s", WAITS),
        pytest.param("kind: down, links: [h1], until: 60 s", WAITS, marks=pytest.mark.rehearse),
    ],
)
def test_whoever_dies_or_stands_still_fails_the_trial_by_name(
    bench: Bench, tmp_path: Path, event: str, said: str
) -> None:
    """A worker that is killed, frozen, or cut off; and the box, whose processes end at once: whichever is seen first is
    named."""
    (arm,) = (line for line in PLAYED.splitlines() if "pbox}" in line and "PBox" in line)
    spec = PLAYED[: PLAYED.index("arms:")] + f"perturb: [{{{event}, at: 0.3 s}}]\narms:\n{arm}\n"
    spec = spec.replace("iterations: 4", "iterations: 40") + "timeout: 2 s\nretries: 0\nquiet: 0 s\n"
    (outcome,) = bench.run(spec, tmp_path)
    assert outcome.record["status"] == "failed"
    assert re.search(said, outcome.record["error"])
