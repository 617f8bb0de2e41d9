"""A training job's transfers of one iteration in a file, read strictly.

::

    servers: 16
    groups:                                               # AllReduce; members are servers, or all
      - {members: all, transfer: 4 GiB}                   # what each member sends
      - {members: [0, 1, 2, 3], gradient: 4 GiB}          # or what they reduce: each sends 2 (k - 1) / k of it
    mp:                                                   # model-parallel transfers, which add up
      - {from: 0, to: all, bytes: 32 MiB}                 # to each of them; a server sends itself nothing
      - {from: [1, 2], to: 0, bytes: 32 MiB}
    t_mp: [[0, 5], [7, 0]]                                # or, in place of mp, bytes by source and destination
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from testbed.base.errors import SpecError
from testbed.base.units import size_bytes
from testbed.spec.yaml import parse, read_text
from testbed.topologies.parameters import did_you_mean
from testbed.topologies.topoopt.demand import MOST_BYTES, MOST_SERVERS, Demand, Group, demand

GROUP = "{members: all, transfer: 4 GiB}"
TRANSFER = "{from: 0, to: all, bytes: 32 MiB}"


def load(path: Path) -> Demand:
    """Read a job's transfers.

    Raises:
        SpecError: the file cannot be read, a key is missing or unknown, or the transfers make no sense.
    """
    text = read_text(path, wanted="give a file of a job's transfers; docs/guides/panels.md has an example")
    try:
        return _demand(parse(text, path.name))
    except SpecError as error:
        if error.problem.startswith(path.name):
            raise
        raise SpecError(f"{path.name}: {error.problem}", fix=error.fix) from None


def _demand(table: Mapping[Any, object]) -> Demand:
    _keys(table, ("servers", "groups", "mp", "t_mp"), ("servers",))
    servers = table["servers"]
    if type(servers) is not int or not 2 <= servers <= MOST_SERVERS:
        raise SpecError(f"servers is {servers!r}", fix=f"give 2 to {MOST_SERVERS:,} servers")
    if "mp" in table and "t_mp" in table:
        raise SpecError("both mp and t_mp are given", fix="keep one of the two")
    groups = [_group(one, f"groups.{place}", servers) for place, one in enumerate(_list(table, "groups", GROUP))]
    if "t_mp" in table:
        return demand(servers, groups, _matrix(table["t_mp"], servers))
    mp: NDArray[np.float64] = np.zeros((servers, servers))
    for place, one in enumerate(_list(table, "mp", TRANSFER)):
        _add(mp, one, f"mp.{place}")
    return demand(servers, groups, mp)


def _group(given: object, where: str, servers: int) -> Group:
    table = _table(given, where, GROUP)
    _keys(table, ("members", "transfer", "gradient"), ("members",), where)
    if ("transfer" in table) == ("gradient" in table):
        raise SpecError(f"{where}: a group has either transfer or gradient", fix=f"write it as {GROUP}")
    members = _servers(table["members"], f"{where}.members", servers)
    if "transfer" in table:
        return Group(tuple(members), _size(table["transfer"], f"{where}.transfer"))
    return Group.of_gradient(members, _size(table["gradient"], f"{where}.gradient"))


def _add(mp: NDArray[np.float64], given: object, where: str) -> None:
    table = _table(given, where, TRANSFER)
    _keys(table, ("from", "to", "bytes"), ("from", "to", "bytes"), where)
    sources = _servers(table["from"], f"{where}.from", len(mp))
    destinations = _servers(table["to"], f"{where}.to", len(mp))
    size = _size(table["bytes"], f"{where}.bytes")
    if sources == destinations and len(sources) == 1:
        raise SpecError(
            f"{where}: server {sources[0]} sends to itself", fix="name another server: it crosses no network"
        )
    for i in sources:
        for j in destinations:
            if i != j:
                mp[i, j] += size


def _servers(given: object, where: str, servers: int) -> list[int]:
    if given == "all":
        return list(range(servers))
    found: list[int] = []
    for one in given if isinstance(given, list) else [given]:
        if not isinstance(one, int) or isinstance(one, bool) or not 0 <= one < servers:
            raise SpecError(f"{where} names {one!r}", fix=f"name servers 0 to {servers - 1}, a list of them, or all")
        if one in found:
            raise SpecError(f"{where} names server {one} twice", fix="name each server once")
        found.append(one)
    return found


def _matrix(given: object, servers: int) -> NDArray[np.float64]:
    rows = given if isinstance(given, list) else []
    wrong = [row for row in rows if not isinstance(row, list) or len(row) != servers]
    numbers = [one for row in rows if isinstance(row, list) for one in row]
    if len(rows) != servers or wrong or not all(type(one) in (int, float) for one in numbers):
        raise SpecError("t_mp is no table of numbers", fix=f"give {servers} rows of {servers} numbers, in bytes")
    return np.array(rows, dtype=np.float64)


def _size(given: object, where: str) -> int:
    try:
        size = size_bytes(given)
    except SpecError as error:
        raise SpecError(f"{where}: {error.problem}", fix=error.fix) from None
    if size > MOST_BYTES:
        raise SpecError(f"{where} is {given}", fix=f"give at most {MOST_BYTES:,} B")
    return size


def _list(table: Mapping[Any, object], key: str, example: str) -> list[object]:
    found = table.get(key, [])
    if not isinstance(found, list):
        raise SpecError(f"{key} is {found!r}", fix=f"write a list, such as [{example}]")
    return found


def _table(given: object, where: str, example: str) -> Mapping[Any, object]:
    if not isinstance(given, dict):
        raise SpecError(f"{where} is {given!r}", fix=f"write it as {example}")
    return given


def _keys(table: Mapping[Any, object], known: Sequence[str], needed: Sequence[str], where: str = "") -> None:
    at = f"{where}: " if where else ""
    for key in table:
        if key not in known:
            raise SpecError(f"{at}unknown key {key!r}{did_you_mean(str(key), known)}", fix=f"use {', '.join(known)}")
    missing = [key for key in needed if key not in table]
    if missing:
        raise SpecError(f"{at}{', '.join(missing)} missing", fix=f"give {', '.join(needed)}")
