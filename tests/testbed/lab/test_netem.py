"""What netem is told: the bytes, against those of iproute2's ``tc``, which this kernel need not have netem for."""

from __future__ import annotations

import struct
from statistics import mean, pstdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.lab.base import Impairment
from testbed.lab.netns.kernel_interface import netem
from testbed.lab.netns.kernel_interface.netem import Netem
from testbed.lab.netns.kernel_interface.netlink import attributes

NS_PER_TICK = 64
SEED = 0x0123456789

TC = {
    # tc qdisc replace dev v0 parent 1:1 handle 20: netem limit 1000 OPTIONS, iproute2 6.1: the TCA_OPTIONS it sends
    # delay 1500us
    Impairment(0.0015): "8d5b0000e8030000" + "00000000" * 4,
    # loss 0.5%
    Impairment(loss=0.005): "00000000e803000014ae4701" + "00000000" * 3,
    # delay 5ms 1ms loss random 1% reorder 25% gap 1 rate 34359738360bit
    Impairment(0.005, 0.001, 0.01, 0.25): "2d310100e8030000295c8f02010000000000000" + "0093d0000"
    "0c0003000000004000000000" + "14000600ffffffff" + "00000000" * 3,
}
"""``tc`` says short times in ticks of 64 ns, in the structure at the front; ours are in attributes, in nanoseconds."""


@pytest.mark.parametrize("impairment", TC)
def test_bytes_are_those_of_tc(impairment: Impairment) -> None:
    theirs, ours = bytes.fromhex(TC[impairment]), netem.pack(Netem.of(impairment, SEED), 1000)
    latency, limit, loss, gap, duplicate, jitter = netem.OPTIONS.unpack_from(theirs)
    assert netem.OPTIONS.unpack_from(ours) == (0, limit, loss, gap, duplicate, 0)
    said, meant = attributes(ours, netem.OPTIONS.size), attributes(theirs, netem.OPTIONS.size)
    for kind, ticks in ((netem.TCA_NETEM_LATENCY64, latency), (netem.TCA_NETEM_JITTER64, jitter)):
        assert int.from_bytes(said[kind], "little") == pytest.approx(ticks * NS_PER_TICK, abs=NS_PER_TICK)
    assert said[netem.TCA_NETEM_REORDER] == meant.get(netem.TCA_NETEM_REORDER, bytes(8))
    assert said[netem.TCA_NETEM_RATE] == meant.get(netem.TCA_NETEM_RATE, netem.KEEPS_ORDER)


SHARES = st.floats(0, 1)
TIMES_S = st.floats(0, 10)


@given(TIMES_S, TIMES_S, SHARES, SHARES, st.integers(0, 2**64 - 1), st.integers(1, 2**32 - 1))
def test_what_is_packed_is_what_is_read(
    delay_s: float, jitter_s: float, loss: float, reorder: float, seed: int, limit: int
) -> None:
    one = Impairment(delay_s, jitter_s, loss, reorder if delay_s or jitter_s else 0.0)
    wanted = Netem.of(one, seed)
    found = netem.read(netem.pack(wanted, limit))
    assert (found, found[1].seed) == ((limit, wanted), seed)


def test_an_older_kernel_draws_its_own_seed() -> None:
    wanted = Netem.of(Impairment(0.001), SEED)
    _, found = netem.read(netem.pack(Netem(wanted.delay_ns, 0, 0.0, 0.0, None), 9))
    assert (found, found.seed) == (wanted, None)


def test_jitter_is_drawn_from_the_normal_distribution() -> None:
    table = struct.unpack(f"={netem.TABLE_ENTRIES}h", netem.normal_table())
    assert mean(table) == pytest.approx(0, abs=1)
    assert pstdev(table) == pytest.approx(netem.TABLE_SCALE, rel=0.002)
    within_1 = sum(abs(value) <= netem.TABLE_SCALE for value in table) / len(table)
    assert within_1 == pytest.approx(0.6827, abs=0.001)
    assert netem.TCA_NETEM_DELAY_DIST in attributes(
        netem.pack(Netem.of(Impairment(0, 0.001), 1), 9), netem.OPTIONS.size
    )
