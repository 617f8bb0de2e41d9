"""pyroute2 reads what the kernel has: a mistake that our encoder and our decoder make alike is found."""

from __future__ import annotations

import os
import struct
from itertools import permutations
from pathlib import Path

import pytest
from pyroute2.netlink.rtnl.tcmsg import sched_netem

from testbed.base.errors import LabError
from testbed.lab.base import Impairment, LinkChange, LinkSettings
from testbed.lab.netns import NetnsLab
from testbed.lab.netns.network.blueprint import Blueprint, blueprint
from testbed.lab.netns.readings import second_reading
from testbed.topologies.build import build

RATE_BPS = 100_000_000
STAR, RACKS = "star(hosts=2)", "spine_leaf(racks=2,hosts_per_rack=1,spines=1)"
MAKE = """
import sys
if "testbed.lab.netns.launcher" in sys.orig_argv:
    from tests.testbed.lab import mistakes
    mistakes.{kind}()
"""


def up(lab: NetnsLab, expression: str) -> None:
    topology = build(expression, rate_bps=RATE_BPS)
    lab.up(topology, LinkSettings(), permutations(topology.hosts, 2))


@pytest.mark.lab
@pytest.mark.parametrize(
    ("kind", "expression", "said"),
    [
        ("rate", STAR, r"rate \(bit/s\): asked for 100000000, the kernel has 200000000"),
        ("burst", STAR, r"bucket of the rate \(ms\): asked for 1.0, the kernel has 8.0"),
        ("queue", STAR, r"queue \(bytes\): asked for 67108864, the kernel has 134217728"),
        ("address", STAR, r"h.:eth0: address: asked for 10.0.0.[12]/30, the kernel has \['10.0.0.6[56]/30'\]"),
        ("first_segments", RACKS, r"connection begins: asked for \(128, 128\), the kernel has \(256, 256\)"),
        ("route", RACKS, r"route to .*/32: hops: asked for \[\(10.., .*\)\], the kernel has None"),
    ],
)
def test_a_mistake_of_our_encoder_and_decoder_alike(
    kind: str, expression: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text(MAKE.format(kind=kind))
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{Path(__file__).parents[3]}")  # it imports from tests
    with NetnsLab() as lab:
        up(lab, expression)  # ours reads back what it should be
        with pytest.raises(LabError, match=f"{said}, as pyroute2 reads it"):
            lab.verify()


@pytest.mark.lab
def test_changes_that_were_asked_for_are_expected() -> None:
    with NetnsLab() as lab:
        up(lab, STAR)
        lab.adjust([LinkChange(0, rate_bps=20_000_003, queue_bytes=50_000), LinkChange(3, blocked=True)])
        lab.verify()
        assert lab.describe()["second_reading"]["directed_links"] == 4


def netem(latency_ticks: int, jitter_ticks: int, loss: int) -> sched_netem.options:
    """A netem's options as a kernel lists them: struct tc_netem_qopt, in ticks of 64 ns."""
    body = struct.pack("=IIIIII", latency_ticks, 1000, loss, 0, 0, jitter_ticks)
    options = sched_netem.options(data=struct.pack("=HH", 4 + len(body), 2) + body)
    options.decode()
    return options


def test_delays_are_read_in_the_kernels_ticks() -> None:
    asked = Impairment(0.005, 0.001, loss=0.5)
    second_reading.check_netem("h0 -> s0", asked, netem(78_125, 15_625, 2**31))
    for wrong, said in (
        (netem(78_125_000, 15_625, 2**31), "delay .* 5000.0"),
        (netem(78_125, 0, 2**31), "jitter"),
        (netem(78_125, 15_625, 0), "loss"),
    ):
        with pytest.raises(LabError, match=said):
            second_reading.check_netem("h0 -> s0", asked, wrong)


def test_large_networks_are_read_in_part_and_by_seed() -> None:
    topology = build("bcube(n=4,k=2)", rate_bps=RATE_BPS)

    def plan(seed: int) -> Blueprint:
        return blueprint(topology, LinkSettings(seed=seed), permutations(topology.hosts, 2))

    everything = second_reading.sample(plan(1))
    assert sorted(everything.nodes) == sorted(everything.routed) == list(range(len(topology.nodes)))
    part = second_reading.sample(plan(1), most=100)
    assert 1 <= len(part.routed) <= len(part.nodes) < len(topology.nodes)
    assert part == second_reading.sample(plan(1), most=100) != second_reading.sample(plan(2), most=100)
