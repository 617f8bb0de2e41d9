"""Fair shares of links."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from testbed.topologies.build import build
from testbed.topologies.fair import fair_bps


@given(
    st.lists(st.dictionaries(st.integers(0, 5), st.sampled_from([0.25, 0.5, 1.0]), min_size=1), min_size=1, max_size=6)
)
def test_rates_are_max_min_fair(loads: list[dict[int, float]]) -> None:
    """No link is overfull, and each flow passes a full link on which nobody has more."""
    topology = build("star(hosts=3)", rate_bps=1000)
    rates = fair_bps(loads, topology)
    used = {link: sum(rate * one.get(link, 0) for rate, one in zip(rates, loads, strict=True)) for link in range(6)}
    assert all(load <= 1000.001 for load in used.values())
    for rate, one in zip(rates, loads, strict=True):
        full = [link for link in one if used[link] > 999.999]
        assert any(rate >= max(r for r, o in zip(rates, loads, strict=True) if link in o) - 1e-6 for link in full)
