"""A user's own prices: read as written, and refused with what to write instead."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.base.errors import SpecError
from testbed.spec.prices import load
from testbed.topologies.prices import TOPOOPT, PortPrices

GOOD = """\
source: our shop, May 2026
ports:
  10 Gbit/s: {nic: 180, switch_port: 87.5, transceiver: 0}
  400 Gbit/s: {nic: 1200, switch_port: 900, transceiver: 700}
cable: 15
"""


def refused(tmp_path: Path, text: str) -> str:
    path = tmp_path / "prices.yaml"
    path.write_text(text)
    with pytest.raises(SpecError) as error:
        load(path)
    return str(error.value)


def test_what_is_written_counts_and_optics_are_topoopts(tmp_path: Path) -> None:
    path = tmp_path / "prices.yaml"
    path.write_text(GOOD + "panel_port: 80\n")
    found = load(path)
    assert found.source == "our shop, May 2026"
    assert found.ports == {10 * 10**9: PortPrices(180, 87.5, 0), 400 * 10**9: PortPrices(1200, 900, 700)}
    assert (found.cable, found.panel_port, found.look_ahead_switch) == (15, 80, TOPOOPT.look_ahead_switch)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("cable: 15", "cabel: 15", "prices.yaml: unknown key 'cabel' (did you mean 'cable'?)"),
        ("cable: 15\n", "", "prices.yaml: cable missing\n  fix: give source, ports, cable; prices are dollars"),
        ("cable: 15", "cable: -1", "prices.yaml: cable is -1, which is no price"),
        ("cable: 15", "cable: .inf", "prices.yaml: cable is inf, which is no price"),
        ("cable: 15", "cable: $15", "prices.yaml: cable is '$15', which is no price"),
        ("cable: 15", "cable: true", "prices.yaml: cable is True, which is no price"),
        ("source: our shop, May 2026", "source: 7", "prices.yaml: source is 7\n  fix: write where"),
        ("10 Gbit/s: {nic", "10: {nic", "prices.yaml: ports: 10 has no unit\n  fix: write a rate with its unit"),
        ("10 Gbit/s: {nic", "fast: {nic", "prices.yaml: ports: 'fast' is not a rate"),
        ("10 Gbit/s", "0.4 Pbit/s", "'Pbit/s' is not a unit of rate"),
        ("10 Gbit/s", "400000 Mbit/s", "prices.yaml: ports.400 Gbit/s: this rate is given twice"),
        ("transceiver: 0}", "transciever: 0}", "unknown key 'transciever' (did you mean 'transceiver'?)"),
        (", transceiver: 0}", "}", "prices.yaml: ports.10 Gbit/s: transceiver missing"),
        ("{nic: 180, switch_port: 87.5, transceiver: 0}", "180", "prices.yaml: ports.10 Gbit/s is 180"),
    ],
)
def test_mistakes(tmp_path: Path, old: str, new: str, told: str) -> None:
    assert told in refused(tmp_path, GOOD.replace(old, new, 1))


def test_no_ports(tmp_path: Path) -> None:
    assert "ports is {}" in refused(tmp_path, "source: me\nports: {}\ncable: 1\n")
    assert "ports is 7" in refused(tmp_path, "source: me\nports: 7\ncable: 1\n")


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="no such file"):
        load(tmp_path / "none.yaml")
