"""A user's own table of prices, read strictly.

::

    source: our shop, May 2026
    ports:                       # by rate; dollars of a NIC's port, a switch's, and a transceiver at one end of a cable
      10 Gbit/s: {nic: 180, switch_port: 87, transceiver: 20}
    cable: 15                    # of a cable; the other three are needed for patch panels only
    panel_port: 100
    circuit_switch_port: 520
    look_ahead_switch: 25
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from testbed.base.errors import SpecError
from testbed.base.units import rate_bps
from testbed.spec.yaml import parse, read_text
from testbed.topologies.parameters import did_you_mean
from testbed.topologies.prices import TOPOOPT, PortPrices, Prices

EXAMPLE = "10 Gbit/s: {nic: 180, switch_port: 87, transceiver: 20}"
PORT_KEYS = tuple(field.name for field in fields(PortPrices))
OPTICS = ("panel_port", "circuit_switch_port", "look_ahead_switch")
"""Prices of optics, which are TopoOpt's where the table says nothing of them."""


def load(path: Path) -> Prices:
    """Read a table.

    Raises:
        SpecError: the file cannot be read, a key is missing or unknown, or a price is none.
    """
    text = read_text(path, wanted="give a table of prices; its form is in testbed/spec/prices.py")
    table = parse(text, path.name)
    _keys(table, ("source", "ports", "cable", *OPTICS), ("source", "ports", "cable"), path.name)
    if not isinstance(table["source"], str) or not table["source"]:
        raise SpecError(f"{path.name}: source is {table['source']!r}", fix="write where the prices are from, as text")
    return Prices(
        source=table["source"],
        ports=_ports(table["ports"], path.name),
        cable=_price(table["cable"], f"{path.name}: cable"),
        **{key: _price(table.get(key, getattr(TOPOOPT, key)), f"{path.name}: {key}") for key in OPTICS},
    )


def _ports(value: object, name: str) -> dict[int, PortPrices]:
    if not isinstance(value, dict) or not value:
        raise SpecError(f"{name}: ports is {value!r}", fix=f"list prices by rate, such as {EXAMPLE}")
    found: dict[int, PortPrices] = {}
    for rate, prices in value.items():
        where = f"{name}: ports.{rate}"
        try:
            bps = rate_bps(rate)
        except SpecError as error:
            raise SpecError(f"{name}: ports: {error.problem}", fix=error.fix) from None
        if not isinstance(prices, dict):
            raise SpecError(f"{where} is {prices!r}", fix=f"write it as {EXAMPLE}")
        if bps in found:
            raise SpecError(f"{where}: this rate is given twice", fix="keep one of the two")
        _keys(prices, PORT_KEYS, PORT_KEYS, where)
        found[bps] = PortPrices(**{key: _price(prices[key], f"{where}.{key}") for key in PORT_KEYS})
    return found


def _keys(table: Mapping[Any, object], known: Sequence[str], needed: Sequence[str], where: str) -> None:
    for key in table:
        if key not in known:
            raise SpecError(
                f"{where}: unknown key {key!r}{did_you_mean(str(key), known)}", fix=f"use {', '.join(known)}"
            )
    missing = [key for key in needed if key not in table]
    if missing:
        raise SpecError(f"{where}: {', '.join(missing)} missing", fix=f"give {', '.join(needed)}; prices are dollars")


def _price(value: object, where: str) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not math.isfinite(float(value)) or float(value) < 0:  # type: ignore[arg-type]
        raise SpecError(f"{where} is {value!r}, which is no price", fix="give dollars, as a number of 0 or more")
    return float(value)  # type: ignore[arg-type]
