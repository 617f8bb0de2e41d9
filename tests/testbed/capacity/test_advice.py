"""What a person is told before a run."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from testbed.capacity.advice import Advice, advise, round_down, round_up
from testbed.capacity.cache import Known
from testbed.capacity.model import load_of
from testbed.experiment.expand import trials
from testbed.spec import read

from .made_up import known

FAST = """\
name: fast
links: {rate: 4 Gbit/s}
workload: {kind: profile, model: vgg19, batch: 32, iterations: 3, scale: 2, chunk: 128 KiB}
arms: [{topology: "bcube(n=3,k=2)", scheme: bml}]
"""
SEVERAL = """\
name: several
links: {rate: 2 Gbit/s}
workload: {model: lenet5, dataset: digits, batch: [2, 4], iterations: 3, chunk: 128 KiB, compute: none}
arms:
  - {label: ring, topology: star(hosts=4), scheme: ring}
  - {label: BML, topology: "bcube(n=3,k=2)", scheme: bml}
repeats: 2
"""


def told(spec: str, of: Known) -> Advice:
    return advise(trials(read(spec, "spec.yaml", Path(__file__).parent)), of)


def test_more_than_the_machine_carries() -> None:
    found = told(FAST, known())
    assert found.warns
    assert found.text == (
        "18 links of 2 Gbit/s carry 36 Gbit/s in all; this machine carries about 22 Gbit/s of such a load "
        "(bml, 9 processes, chunks of 128 KiB): likely to end INVALID. "
        "Take --set workload.scale=3.2 or --set links.rate='2.5 Gbit/s'"
    )


def test_links_that_differ_are_slowed_down_together() -> None:
    unlike = FAST.replace("rate: 4 Gbit/s", "rate: 4 Gbit/s, h0: {rate: 3.8 Gbit/s}, rack 1: {rate: 3.9 Gbit/s}")
    found = told(unlike, known())
    assert found.text.startswith("18 links of 1.9 Gbit/s to 2 Gbit/s carry")
    slower = "--set links.rate='2.6 Gbit/s' --set links.h0.rate='2.5 Gbit/s' --set 'links.rack 1.rate=2.5 Gbit/s'"
    assert found.text.endswith(f" or {slower}")


def test_an_arms_own_rate_is_slowed_down_where_it_is_given() -> None:
    text = told(SEVERAL.replace("scheme: bml}", "scheme: bml, rate: 2.1 Gbit/s}"), known()).text
    assert text.endswith("Take --set arms.1.rate='1.2 Gbit/s'")


def test_every_arm_that_is_too_fast_is_slowed_down() -> None:
    unlike = SEVERAL.replace("scheme: bml}", "scheme: bml, rate: 2.1 Gbit/s}").replace("rate: 2 G", "rate: 20 G")
    text = told(unlike, known()).text
    assert ": likely to end INVALID" in text
    found = re.search(r"Take --set links.rate='(.*)' --set arms.1.rate='1.2 Gbit/s'", text)
    assert found is not None, text
    slower = unlike.replace("20 Gbit/s", found[1]).replace("2.1 Gbit/s", "1.2 Gbit/s")
    assert not told(slower, known()).warns


def test_of_a_field_that_is_swept_the_values_that_are_too_fast_are_named() -> None:
    """With --set, the whole sweep would be gone."""
    text = told(FAST.replace("scale: 2", "scale: [1, 2, 20]"), known()).text
    assert "2 of 3 cells are likely to end INVALID. " in text
    assert text.endswith("Take 3.2 in place of 1, 2 in the sweep of workload.scale or --set links.rate='1.2 Gbit/s'")


def test_a_swept_rate_is_named_beside_one_that_is_not() -> None:
    rates = "rate: [100 Mbit/s, 4 Gbit/s], h0: {rate: 3.8 Gbit/s}"
    text = told(FAST.replace("rate: 4 Gbit/s", rates), known()).text
    assert re.search(
        r" or [\d.]+ Gbit/s in place of 4 Gbit/s in the sweep of links.rate and --set links.h0.rate=", text
    )


def test_an_arms_own_rate_that_is_swept_is_changed_in_its_sweep() -> None:
    text = told(SEVERAL.replace("scheme: bml}", "scheme: bml, rate: [100 Mbit/s, 2.1 Gbit/s]}"), known()).text
    assert text.endswith("Take 1.2 Gbit/s in place of 2.1 Gbit/s in the sweep of arms.1.rate")


def test_what_is_advised_is_carried() -> None:
    slower = FAST.replace("4 Gbit/s", "2.5 Gbit/s")
    for spec in (FAST.replace("scale: 2", "scale: 3.8"), slower):
        assert not told(spec, known()).warns


def test_of_several_arms_the_one_that_asks_for_most() -> None:
    found = told(SEVERAL, known())
    assert found.text == (
        "of 4 cells BML-b2 loads this machine most: 18 links of 2 Gbit/s carry 36 Gbit/s in all; "
        "this machine carries about 22 Gbit/s of such a load (bml, 9 processes, chunks of 128 KiB): "
        "2 of 4 cells are likely to end INVALID. Take --set links.rate='1.2 Gbit/s'"
    )
    assert found.as_json() == {
        "trial": "BML-b2-r1",
        "asks_bps": pytest.approx(36e9),
        "carries_bps": pytest.approx(22.3e9, rel=0.05),
        "expected_invalid": ["BML-b2-r1", "BML-b4-r1"],
    }
    json.dumps(found.as_json())


def test_what_the_machine_carries() -> None:
    found = told(FAST.replace("scale: 2", "scale: 10"), known())
    assert not found.warns
    assert found.text == (
        "18 links of 400 Mbit/s carry 7.2 Gbit/s in all; this machine carries about 22 Gbit/s of such a load "
        "(bml, 9 processes, chunks of 128 KiB)"
    )


@pytest.mark.parametrize(("setting", "size"), [("queue: 128 KiB", "64 KiB"), ("small_queues: 4 KiB", "4 KiB")])
def test_a_load_whose_large_packets_do_not_grow_is_told_apart(setting: str, size: str) -> None:
    """The machine carries less of it: two figures would have the same name."""
    usual, small = (told(FAST.replace("4 Gbit/s", rate), known()) for rate in ("4 Gbit/s", f"4 Gbit/s, {setting}"))
    assert f"(bml, 9 processes, chunks of 128 KiB, large packets of {size})" in small.text
    assert usual.worst is not None
    assert small.worst is not None
    assert small.worst.room < usual.worst.room


@pytest.mark.parametrize("lab", ["mininet", "docker"])
def test_other_labs_of_the_same_kernel_are_predicted_alike_and_that_is_said(lab: str) -> None:
    text = told(f"lab: {lab}\n{FAST}", known()).text
    alike = f"(as in the lab netns, whose kernel {lab} shares): likely to end INVALID"
    assert f"22 Gbit/s of such a load (bml, 9 processes, chunks of 128 KiB) {alike}" in text


IMPAIRED = "what delays, jitter and losses take of the cores is not measured"
COMMAND = """\
name: x
links: {rate: 1 Gbit/s}
workload: {kind: command, command: python -V}
arms: [{topology: star(hosts=2)}]
"""
UNKNOWN = {
    "lab: baremetal\n" + FAST: "the lab baremetal does not run on this machine",
    FAST.replace("4 Gbit/s", "4 Gbit/s, delay: 1 ms"): IMPAIRED,
    FAST.replace("4 Gbit/s", "4 Gbit/s, loss: 1 %"): IMPAIRED,
    FAST.replace('"bcube(n=3,k=2)", scheme: bml', "star(hosts=4), scheme: gloo"): (
        "what gloo takes of the cores is not measured"
    ),
    COMMAND: "what a command sends is its own affair",
}


@pytest.mark.parametrize("spec", UNKNOWN)
def test_where_nothing_is_predicted_it_says_why(spec: str) -> None:
    for of in (known(), Known()):
        found = told(spec, of)
        assert found.text == f"whether this machine carries it is not predicted: {UNKNOWN[spec]}"
        assert (found.asked, found.warns, found.as_json()) == ((), False, None)


def test_nothing_measured_yet_says_how() -> None:
    assert told(FAST, Known()).text == (
        "whether this machine carries it is not known: testbed doctor --capacity measures that in half a minute"
    )


def test_a_damaged_file_says_so() -> None:
    assert told(FAST, Known(trouble="FILE is not used: it is damaged")).text == (
        "FILE is not used: it is damaged; testbed doctor --capacity measures again what this machine carries"
    )


def test_more_processes_than_are_carried_at_any_rate() -> None:
    spec = FAST.replace("bcube(n=3,k=2)", "star(hosts=300)").replace("bml", "ring").replace("scale: 2", "scale: 100")
    assert told(spec, known()).text == (
        "ring on star(hosts=300) has 300 processes, more than this machine carried at any rate: likely to end INVALID. "
        "Take fewer hosts"
    )


def test_no_trial_no_advice() -> None:
    assert advise([], known()).text == ""


def test_a_load_is_what_links_carry_when_the_busiest_is_full() -> None:
    """A ring of 9: each link full both ways, with 1448 of 1514 bytes of payload."""
    spec = FAST.replace("bcube(n=3,k=2)", "star(hosts=9)").replace("bml", "ring").replace("scale: 2", "scale: 40")
    found = load_of(trials(read(spec, "spec.yaml", Path()))[0])
    assert found is not None
    payload_bytes_s = 9 * 100e6 / 8 * 1448 / 1514
    assert found.in_all_bps == pytest.approx(900e6)
    assert found.sent_bytes_s == pytest.approx(payload_bytes_s)
    assert found.link_bytes_s == pytest.approx(2 * payload_bytes_s)
    assert found.packets_s == pytest.approx(2 * payload_bytes_s / 1448)
    assert found.large_packets_s == pytest.approx(2 * payload_bytes_s / 65_536)
    assert found.packet_bytes_by_rates == pytest.approx(65_536 * 0.9 / 4)
    assert found.chunks_s == pytest.approx(payload_bytes_s / (128 * 1024), rel=0.1)
    assert (found.processes, found.links, found.rate_bps) == (9, 9, 100_000_000)


def test_links_rest_while_steps_jitter() -> None:
    """A ring of 9 takes 16 steps one after the other, each later by 0.4 sigma on average."""
    spec = FAST.replace("bcube(n=3,k=2)", "star(hosts=9)").replace("bml", "ring").replace("scale: 2", "scale: 40")
    jitter = "perturb: {kind: jitter, of: step, sigma: 5 ms}\n"
    plain, jittered = (trials(read(text, "spec.yaml", Path()))[0] for text in (spec, spec + jitter))
    loads = load_of(plain), load_of(jittered)
    assert loads[0] is not None
    assert loads[1] is not None
    longer = 1 + 16 * 0.005 * 0.3989 / plain.job.gst_theory_s
    assert loads[0].in_all_bps / loads[1].in_all_bps == pytest.approx(longer, rel=1e-3)


@pytest.mark.parametrize(("value", "down", "up"), [(7.29, 7.2, 7.3), (2.5, 2.5, 2.5), (123456.0, 120000.0, 130000.0)])
def test_rounding(value: float, down: float, up: float) -> None:
    assert (round_down(value), round_up(value)) == (down, up)
