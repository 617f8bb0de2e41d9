"""Shapers as numbers and as bytes; no kernel needed."""

from __future__ import annotations

import pytest

from testbed.lab.base import FASTEST_BPS, SLOWEST_BPS, LinkSettings
from testbed.lab.netns import shaping
from testbed.lab.netns.netlink import attributes


def leaf_options(wanted: shaping.Shape) -> bytes:
    leaf = shaping.install(5, wanted, "h0 -> s0")[-1]
    return attributes(leaf.body, shaping.TCMSG.size)[shaping.TCA_OPTIONS]


def test_bucket_holds_a_millisecond_at_the_rate() -> None:
    shape = shaping.shape(200_000_000, 0.0, LinkSettings())
    assert shape.rate_bytes_per_s == 25_000_000
    assert shape.burst_bytes == pytest.approx(25_000, rel=1e-3)
    assert shape.cburst_ticks == shape.burst_ticks


@pytest.mark.parametrize("mtu", [576, 9000, 65535])
@pytest.mark.parametrize("rate_bps", [SLOWEST_BPS, FASTEST_BPS])
def test_every_rate_fits_the_kernels_fields(rate_bps: int, mtu: int) -> None:
    shape = shaping.shape(rate_bps, 0.0, LinkSettings(mtu=mtu))
    assert len(shaping.install(5, shape, "h0 -> s0")) == 3  # packing would have refused a number that is too large
    assert shape.rate_bytes_per_s == rate_bps // 8
    assert shape.burst_bytes >= 2 * mtu


@pytest.mark.parametrize("mtu", [1500, 9000])
def test_bucket_of_a_slow_link_holds_two_packets(mtu: int) -> None:
    shape = shaping.shape(1_000_000, 0.0, LinkSettings(mtu=mtu))
    assert shape.burst_bytes == pytest.approx(2 * (mtu + 14), rel=1e-3)


def test_queue_is_limited_in_bytes() -> None:
    shape = shaping.shape(10**8, 0.0, LinkSettings(queue_bytes=100_000))
    assert shape.leaf == "bfifo"
    assert leaf_options(shape) == (100_000).to_bytes(4, "little")


def test_delay_becomes_netem_with_a_limit_in_packets() -> None:
    shape = shaping.shape(10**8, 0.0015, LinkSettings(queue_bytes=151_400))
    assert (shape.leaf, shape.delay_ns, shape.queue_limit) == ("netem", 1_500_000, 100)
    # As iproute2 sends it: struct tc_netem_qopt with the limit, then TCA_NETEM_LATENCY64 (10) in nanoseconds.
    options = leaf_options(shape)
    assert options[:24].hex() == "00000000" + "64000000" + "00000000" * 4
    assert options[24:].hex() == "0c000a00" + (1_500_000).to_bytes(8, "little").hex()


def test_what_is_installed_is_what_is_read() -> None:
    wanted = shaping.shape(10**9, 0.002, LinkSettings(mtu=9000))
    _, of_class, of_leaf = shaping.install(7, wanted, "h0 -> s0")
    options = attributes(of_leaf.body, shaping.TCMSG.size)[shaping.TCA_OPTIONS]
    leaf = shaping.Qdisc(7, shaping.LEAF_HANDLE, shaping.CLASS_HANDLE, "netem", options, 0, 0, 0)
    assert shaping.read_shape(of_class.body, leaf) == wanted
