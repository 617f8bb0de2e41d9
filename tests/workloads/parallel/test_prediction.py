"""Predictions against times worked out by hand, and against what they must add up to."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings

from testbed.base.errors import SpecError
from testbed.topologies.build import build
from testbed.topologies.model import Topology
from testbed.topologies.topoopt.finder import find
from testbed.workloads.parallel.models import operators_of
from testbed.workloads.parallel.network import Network, of_found
from testbed.workloads.parallel.operators import Model, Operator, model
from testbed.workloads.parallel.prediction import Machine, iteration_s, predict
from testbed.workloads.parallel.strategy import Strategy, data_parallel, demand_of, fitting, gradients, mp_bytes, read
from tests.workloads.parallel.small import CHAIN, MB, TABLES
from tests.workloads.parallel.test_strategy import strategies

GBPS = 10**9
SLOW = Machine(flop_per_s=1e9, chunk_bytes=1000)
PAIR = model(Model("pair", (Operator("a", (), (4 * MB,), 500, 250), Operator("b", ("a",), (8 * MB,), 1000, 1)), 1000))
"""A batch of 1,000 samples: forward 1 ms of ``a`` and 2 ms of ``b`` on SLOW; 1 MB of outputs of ``a``: 8 ms."""


def star(hosts: int) -> Network:
    return Network(build(f"star(hosts={hosts})", rate_bps=GBPS))


def panel(expression: str) -> Topology:
    return build(f"patch_panel({expression})", rate_bps=GBPS)


def test_one_server_after_another_by_hand() -> None:
    """Both servers' samples: forward 2 and 4 ms, backward 8 and 4 ms; 2 MB between them take 16 ms and a chunk."""
    found = predict(PAIR, read(PAIR, 2, {"a": [0], "b": [1]}), star(2), SLOW)
    chunk_s = 1000 * 8 / GBPS
    assert found.iteration_s == pytest.approx(0.002 + 0.016 + chunk_s + 0.004 + 0.008 + 0.016 + chunk_s + 0.004)
    assert [(step.what, step.where) for step in found.critical_path] == [
        ("forward a", "h0"),
        ("output of a", "h0-s0"),
        ("output of a", "s0-h1"),
        ("forward b", "h1"),
        ("backward b", "h1"),
        ("gradient of a", "h1-s0"),
        ("gradient of a", "s0-h0"),
        ("backward a", "h0"),
    ]
    assert found.pair_bytes.tolist() == [[0, 2 * MB], [2 * MB, 0]]
    assert found.critical_path[-1].end_s == found.iteration_s


def test_allreduce_overlaps_with_computation_by_hand() -> None:
    """Data parallel on two servers: b's 8 MB (64 ms each way) start at 7 ms, and a's 4 MB follow at once: 96 ms."""
    found = predict(PAIR, data_parallel(PAIR, 2), star(2), SLOW)
    assert found.iteration_s == pytest.approx(0.001 + 0.002 + 0.004 + 0.064 + 0.032)
    assert [step.what for step in found.critical_path] == [
        "forward a", "forward b", "backward b", "AllReduce of b", "AllReduce of a",
    ]  # fmt: skip
    assert found.link_bytes.tolist() == [12 * MB] * 4


def test_allreduce_after_all_passes_by_hand() -> None:
    """Both AllReduces start when the last pass has ended: at 3 ms forward and 6 ms backward; together they take 96 ms.
    With ``a`` on one server, the other has its gradient of b when its passes are done, the first one 6 ms later."""
    last = replace(SLOW, overlaps=False)
    found = predict(PAIR, data_parallel(PAIR, 2), star(2), last)
    assert found.iteration_s == pytest.approx(0.009 + 0.096)
    placed = read(PAIR, 2, {"a": [0], "b": "all"})
    passes_s = predict(
        replace(PAIR, operators=(PAIR.operators[0], replace(PAIR.operators[1], tensors=()))), placed, star(2), SLOW
    )
    assert predict(PAIR, placed, star(2), last).iteration_s == pytest.approx(passes_s.iteration_s + 0.064)


def test_mp_transfers_go_ahead_of_allreduce() -> None:
    """The gradient of a's output is not behind b's AllReduce, which ends as late as if it were."""
    strategy = read(PAIR, 2, {"a": [0], "b": "all"})
    found = predict(PAIR, strategy, star(2), SLOW)
    chunk_s = 1000 * 8 / GBPS
    outputs_s = 0.002 + 0.008 + chunk_s
    backward_b_s = outputs_s + 0.002 + 0.004
    assert found.iteration_s == pytest.approx(backward_b_s + 0.064 + 0.008)
    assert found.critical_path[-1].end_s == found.iteration_s
    assert {step.what for step in found.critical_path} >= {"AllReduce of b", "gradient of a"}


def test_parallel_circuits_share_a_transfer() -> None:
    strategy = read(PAIR, 2, {"a": [0], "b": [1]})
    times = [
        predict(PAIR, strategy, Network(panel(f"servers=2,degree={d},circuits={c}")), SLOW)
        for d, c in ((1, "[[0-1]]"), (2, "[[0-1],[0-1]]"))
    ]
    assert times[0].iteration_s - times[1].iteration_s == pytest.approx(0.016, rel=1e-9)
    assert times[1].link_bytes.tolist() == [MB] * 8


def test_a_link_with_a_delay_is_late_once_for_each_transfer() -> None:
    slow = Network(build("star(hosts=2)", rate_bps=GBPS, delay_s=0.5))
    strategy = read(PAIR, 2, {"a": [0], "b": [1]})
    quick_s = predict(PAIR, strategy, star(2), SLOW).iteration_s
    assert predict(PAIR, strategy, slow, SLOW).iteration_s == pytest.approx(quick_s + 2 * 2 * 0.5)
    both = [predict(PAIR, data_parallel(PAIR, 2), one, SLOW).iteration_s for one in (star(2), slow)]
    assert both[1] == pytest.approx(both[0] + 2 * 2 * 0.5)  # two rounds, of two links each


def test_rounds_end_after_transfers_that_came_later_on_the_link() -> None:
    """The gradient of a's output holds up the AllReduces of c and b. The delays of their two rounds follow all."""
    third = Operator("c", ("b",), (MB,), 1000, 1)
    chain = model(Model("chain", (*PAIR.operators, third), 1000))
    slow = Network(build("star(hosts=2)", rate_bps=8 * MB, delay_s=0.1))
    assert slow.allreduce((0, 1)).rounds_s == pytest.approx(0.4)
    found = predict(chain, read(chain, 2, {"a": [0], "b": "all", "c": "all"}), slow, SLOW)
    # h1 has a's output (1 s, a chunk, two delays) and computes; then 1 MB of c, 1 MB of the gradient, and 8 MB of b.
    reduced_s = 0.002 + 1 + 0.001 + 0.2 + 0.002 + 0.002 + 0.004
    assert found.iteration_s == pytest.approx(reduced_s + 10 + 0.4)
    on_link = [(step.what, step.start_s, step.end_s) for step in found.critical_path if step.where == "s0-h0"]
    gradient_s = reduced_s + 0.004 + 0.001 + 0.1
    assert [what for what, _, _ in on_link] == ["AllReduce of c", "gradient of a", "AllReduce of c", "AllReduce of b"]
    assert [start_s for _, start_s, _ in on_link] == pytest.approx(
        [reduced_s, gradient_s, gradient_s + 1, reduced_s + 2]
    )
    assert on_link[-1][2] == found.iteration_s


def test_what_does_not_fit_takes_for_ever() -> None:
    small = Machine(memory_bytes=12 * MB)
    found = predict(PAIR, data_parallel(PAIR, 2), star(2), small)
    assert found.iteration_s == iteration_s(PAIR, data_parallel(PAIR, 2), star(2), small) == math.inf
    assert found.critical_path == ()
    assert not found.link_bytes.any()


@given(strategies())
@settings(max_examples=25)
def test_every_strategy_on_the_network_that_is_found_for_it(strategy: Strategy) -> None:
    """Bytes are those of the strategy; no server or link could be quicker; steps of the critical path touch."""
    if not mp_bytes(TABLES, strategy).any() and not gradients(TABLES, strategy):
        return
    job = demand_of(TABLES, strategy)
    network = of_found(find(job, 4), GBPS)
    found = predict(TABLES, strategy, network, SLOW)
    assert found.pair_bytes.sum() == pytest.approx(job.allreduce_total_bytes + job.mp_total_bytes, rel=1e-6)
    into = [link for link in range(len(found.link_bytes)) if link in network.topology.circuits]
    out = [network.topology.circuits[link] for link in into]
    assert np.array_equal(found.link_bytes[into], found.link_bytes[out])
    assert found.iteration_s >= found.link_bytes.max() * 8 / GBPS * (1 - 1e-9)
    computed_s = 6 * sum(one.multiply_adds for one in TABLES.operators) * TABLES.samples / SLOW.flop_per_s
    assert found.iteration_s >= computed_s * (1 - 1e-9)  # if all servers computed at once
    path = found.critical_path
    assert path[0].start_s == 0
    assert path[-1].end_s == found.iteration_s == iteration_s(TABLES, strategy, network, SLOW)
    for one, other in pairwise(path):
        assert one.start_s <= other.start_s <= one.end_s + 1e-9
        assert other.end_s >= one.end_s - 1e-9


def test_a_group_uses_its_rings_both_ways_and_all_links_alike() -> None:
    dlrm = operators_of("dlrm")
    strategy = read(dlrm, 16, {"e0": [0], "e1": [3], "e2": [8], "e3": [13], "rest": "all"})
    network = of_found(find(demand_of(dlrm, strategy), 6), 25 * GBPS)
    group = network.allreduce(tuple(range(16)))
    assert len(group.links) == 16 * 6
    assert group.link_bytes == pytest.approx([2 * 15 / 16 / 6] * 96)
    found = predict(dlrm, strategy, network, Machine())
    assert found.link_bytes.sum() / 2 / found.pair_bytes.sum() == pytest.approx(1.041, abs=0.0005)


def test_a_group_without_rings_takes_its_members_in_order() -> None:
    network = star(6)
    forest = network.forest((1, 3, 4))
    assert forest.reduce[0].tolist() == [-2, -1, -2, 4, 1, -2, -2]  # 3 to 4 to 1, which is the root
    sent = network.allreduce((1, 3, 4)).pair_bytes
    assert np.argwhere(sent).tolist() == [[1, 3], [1, 4], [3, 1], [3, 4], [4, 1], [4, 3]]
    assert sent[sent > 0] == pytest.approx([2 / 3] * 6)


@pytest.mark.parametrize("setting", ["flop_per_s", "memory_bytes", "chunk_bytes"])
def test_machines_that_cannot_be(setting: str) -> None:
    for value in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(SpecError, match=f"{setting} is"):
            Machine(**{setting: value})


def test_the_same_prediction_twice() -> None:
    strategy = read(CHAIN, 4, {"a": [0], "b": [0, 1], "c": "all"})
    network = star(4)
    one, two = (predict(CHAIN, strategy, network, SLOW) for _ in range(2))
    assert one.iteration_s == two.iteration_s
    assert one.critical_path == two.critical_path


@pytest.mark.parametrize(
    ("name", "iteration", "sent"),
    [
        ("dlrm", "0x1.935dc90ad4f49p+1", "0x1.19fffffefffffp+37"),
        ("candle_testbed", "0x1.677bbfb4fb65ap-4", "0x1.86167fffffffep+35"),
        ("dlrm_dedicated", "0x1.1b8e55bc9ef16p-3", "0x1.2272bffffffffp+36"),
    ],
)
def test_predictions_stay_the_same_to_the_last_bit(name: str, iteration: str, sent: str) -> None:
    """Whatever makes them faster; as written down before they were made so."""
    asked = operators_of(name)
    strategy = fitting(asked, 16, Machine().memory_bytes, place_tables=True)
    network = of_found(find(demand_of(asked, strategy), 6), 25 * GBPS)
    found = predict(asked, strategy, network, Machine())
    assert (found.iteration_s.hex(), math.fsum(found.link_bytes).hex()) == (iteration, sent)
