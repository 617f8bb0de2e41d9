"""Networks on paper."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import testbed as api
from testbed.base.errors import SpecError

from ..conftest import Called


def test_a_topology_has_names_and_facts() -> None:
    network = api.topology("star(hosts=3)", rate="200 Mbit/s")
    assert (network.hosts, network.nodes) == (("h0", "h1", "h2"), ("h0", "h1", "h2", "s0"))
    assert network.facts["link_rates_bps"] == [200_000_000]
    assert "h0..h2" in str(network) or "h0 h1 h2" in str(network)


def test_links_may_differ_as_in_a_spec() -> None:
    network = api.topology("star(hosts=3)", "200 Mbit/s", {"h0": {"rate": "20 Mbit/s"}, "delay": "1 ms"})
    assert network.facts["link_rates_bps"] == [20_000_000, 200_000_000]
    assert {link.delay_s for link in network.model.links} == {0.001}
    assert api.topology("star(hosts=3)", "200 Mbit/s", "{h0: {rate: 20 Mbit/s}, delay: 1 ms}").model == network.model


def test_the_bill_is_the_command_lines(testbed: Callable[..., Called]) -> None:
    said = json.loads(testbed("topo", "star(hosts=3)", "--json").out)
    network = api.topology("star(hosts=3)")
    assert {**network.facts, "cost": network.cost()} == said


def test_prices_may_be_ones_own(tmp_path: Path) -> None:
    prices = tmp_path / "prices.yaml"
    prices.write_text("source: our shop\nports: {1 Gbit/s: {nic: 1, switch_port: 2, transceiver: 3}}\ncable: 4\n")
    network = api.topology("star(hosts=3)")
    assert network.cost(prices)["source"] == "our shop"
    assert network.cost(prices)["total"] == 3 * (1 + 2 + 2 * 3 + 4)
    with pytest.raises(SpecError):
        network.cost(tmp_path / "none.yaml")
