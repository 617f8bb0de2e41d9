"""Gloo's bcube."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from testbed.base.errors import SchemeError
from testbed.topologies.model import Topology
from testbed.workloads.sync.cost import cost
from testbed.workloads.sync.flows import flows
from testbed.workloads.sync.schemes import build
from testbed.workloads.sync.verify import verify

Build = Callable[..., Topology]


@pytest.mark.parametrize(
    ("hosts", "base", "steps"),
    [(1, 2, 0), (2, 2, 1), (4, 4, 1), (3, 4, 1), (8, 2, 3), (8, 4, 2), (12, 4, 2), (27, 3, 3)],
)
def test_steps_and_bound(topology: Build, hosts: int, base: int, steps: int) -> None:
    net = topology(f"star(hosts={hosts})")
    forest = build(f"bcube(base={base})", net, [])
    verify(forest, net)
    found = cost(forest, net, 1e9 / 8)
    assert found.rounds == 2 * steps
    assert found.bound_s() == pytest.approx(2 * (hosts - 1) / hosts)


def test_base_two_is_halving_doubling(topology: Build) -> None:
    net = topology("star(hosts=8)")
    assert np.array_equal(build("bcube", net, []).reduce, build("halving_doubling", net, []).reduce)


def test_base_n_on_bcube_is_the_first_thread_of_bml(topology: Build) -> None:
    net = topology("bcube(n=3,k=2)")
    assert np.array_equal(build("bcube(base=3)", net, []).reduce, build("bml", net, []).reduce[:9])


def test_in_step_i_a_node_sends_a_bth_to_the_ith(topology: Build) -> None:
    """PHub thesis section 1.1.5: S/B^i in round i, to each of B - 1 peers, each way."""
    traffic = flows(build("bcube(base=3)", topology("star(hosts=9)"), []), 9.0)
    sent = {receiver: count for sender, receiver, count in traffic if sender == 0}
    assert sent == pytest.approx({1: 6, 2: 6, 3: 2, 6: 2})


@pytest.mark.parametrize(
    ("form", "text"),
    [
        (
            "bcube",
            "bcube: the 6 hosts of star(hosts=6) are not c x 2^x with c up to 2\n  fix: take a base that fits: 3, 6",
        ),
        ("bcube(base=1)", "bcube: base is 1\n  fix: give base 2 or more"),
    ],
)
def test_texts(topology: Build, form: str, text: str) -> None:
    with pytest.raises(SchemeError) as caught:
        build(form, topology("star(hosts=6)"), [])
    assert str(caught.value) == text
