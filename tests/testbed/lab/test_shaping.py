"""Shapers as numbers and as bytes; no kernel needed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from testbed.base.errors import LabError
from testbed.lab.base import Impairment, LinkSettings
from testbed.lab.limits import HTB
from testbed.lab.netns.kernel_interface import netem, shaping
from testbed.lab.netns.kernel_interface.netem import Netem
from testbed.lab.netns.kernel_interface.netlink import attributes
from testbed.lab.netns.readings import second_reading


def leaf_options(wanted: shaping.Shape) -> bytes:
    leaf = shaping.install(5, wanted, "h0 -> s0")[-1]
    return attributes(leaf.body, shaping.TCMSG.size)[shaping.TCA_OPTIONS]


def test_bucket_holds_a_millisecond_at_the_rate() -> None:
    shape = shaping.shape(200_000_000, LinkSettings())
    assert shape.rate_bytes_per_s == 25_000_000
    assert shape.burst_bytes == pytest.approx(25_000, rel=1e-3)
    assert shape.cburst_ticks == shape.burst_ticks


@pytest.mark.parametrize("mtu", [576, 9000, 65535])
@pytest.mark.parametrize("rate_bps", [HTB.slowest_bps, HTB.fastest_bps])
def test_every_rate_fits_the_kernels_fields(rate_bps: int, mtu: int) -> None:
    shape = shaping.shape(rate_bps, LinkSettings(mtu=mtu))
    assert len(shaping.install(5, shape, "h0 -> s0")) == 3  # packing would have refused a number that is too large
    assert shape.rate_bytes_per_s == rate_bps // 8
    assert shape.burst_bytes >= 2 * mtu


@pytest.mark.parametrize("mtu", [1500, 9000])
def test_bucket_of_a_slow_link_holds_two_packets(mtu: int) -> None:
    shape = shaping.shape(1_000_000, LinkSettings(mtu=mtu))
    assert shape.burst_bytes == pytest.approx(2 * (mtu + 14), rel=1e-3)


def test_queue_is_limited_in_bytes() -> None:
    shape = shaping.shape(10**8, LinkSettings(queue_bytes=100_000))
    assert shape.leaf == "bfifo"
    assert leaf_options(shape) == (100_000).to_bytes(4, "little")


def test_netem_has_room_for_the_queue_and_for_what_is_delayed() -> None:
    shape = shaping.shape(10**8, LinkSettings(queue_bytes=151_400), Netem.of(Impairment(0.0015), seed=1))
    assert (shape.leaf, shape.queue_limit) == ("netem", 100 + 13)  # 1.5 ms at 100 Mbit/s are 18,750 bytes
    assert netem.read(leaf_options(shape)) == (113, shape.netem)


@pytest.mark.parametrize("impairment", [None, Impairment(), Impairment(0.002, 0.0001, 0.01, 0.05)])
def test_what_is_installed_is_what_is_read(impairment: Impairment | None) -> None:
    wanted = shaping.shape(10**9, LinkSettings(mtu=9000), None if impairment is None else Netem.of(impairment, 1))
    _, of_class, of_leaf = shaping.install(7, wanted, "h0 -> s0")
    options = attributes(of_leaf.body, shaping.TCMSG.size)[shaping.TCA_OPTIONS]
    handle = shaping.TCMSG.unpack_from(of_leaf.body)[2]
    leaf = shaping.Qdisc(7, handle, wanted.class_handle, wanted.leaf, options, 0, 0, 0)
    assert shaping.read_shape(of_class.body, leaf) == wanted


MARKING = LinkSettings(queue_bytes=2**20, mark_at_bytes=30_000)


def egress(settings: LinkSettings, *, blocked: bool = False) -> second_reading.Egress:
    return second_reading.Egress("h0 -> s0", 10**8, 1500, settings.queue_bytes, blocked, None, settings.mark_at_bytes)


def listed(shape: shaping.Shape) -> str:
    """A leaf's options as the kernel lists them (``red_dump`` in its net/sched/sch_red.c) and pyroute2 gives those that
    it has no decoder for: the old flags stand in both places."""
    options = bytearray(leaf_options(shape))
    options[4 + shaping.PARAMETERS.size - 1] = shaping.ECN
    return options.hex(":")


def test_a_queue_that_marks_is_read_by_both_decoders() -> None:
    wanted = shaping.shape(10**8, MARKING)
    assert (wanted.leaf, wanted.queue_limit, wanted.mark_at_bytes) == ("red", 2**20, 30_000)
    assert shaping.read_red(leaf_options(wanted)) == (2**20, 30_000)
    second_reading.check_red(egress(MARKING), listed(wanted))
    second_reading.check_red(egress(MARKING, blocked=True), listed(shaping.blocked(wanted)))
    for other, said in (
        (replace(MARKING, mark_at_bytes=40_000), r"marks at \(bytes\): asked for 40000, the kernel has 30000"),
        (replace(MARKING, queue_bytes=2**21), r"queue \(bytes\): asked for 2097152, the kernel has 1048576"),
    ):
        with pytest.raises(LabError, match=f"{said}, as pyroute2 reads it"):
            second_reading.check_red(egress(other), listed(wanted))


def test_a_red_that_does_something_else_is_not_taken_for_one_that_marks() -> None:
    """Its two lengths differ; it looks at a mean over time; it drops what cannot be marked."""
    options = bytearray(shaping.pack_red(30_000, 2**20))
    for offset, value in ((12, 0xFF), (16, 5), (len(options) - 8, shaping.ECN)):
        wrong = bytearray(options)
        wrong[offset] = value
        assert shaping.read_red(bytes(wrong))[1] is None, offset
    assert shaping.read_red(bytes(options)) == (2**20, 30_000)


def test_a_queue_that_marks_is_only_told_what_changes() -> None:
    """It loses what waits in it whenever it is told anything."""
    before = shaping.shape(10**8, MARKING)
    slower = shaping.shape(10**7, MARKING)
    assert [one.purpose for one in shaping.change(7, slower, "h0", before)] == ["rate of h0"]
    for wanted in (shaping.blocked(before), shaping.shape(10**8, replace(MARKING, queue_bytes=2**21))):
        assert len(shaping.change(7, wanted, "h0", before)) == 2
    plain = shaping.shape(10**8, LinkSettings())
    assert len(shaping.change(7, plain, "h0", plain)) == 2
