"""Networks in files of other tools, read as data and written: GraphML and GML, as the Internet Topology Zoo has them,
containerlab's labs, and InfraGraph's JSON.

A reader turns the bytes of a file into a :class:`.Sketch`, and :func:`.assembled` makes a topology of it. No code of a
file is run, and no other file is opened.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from testbed.base.errors import TopologyError
from testbed.topologies.call import Value
from testbed.topologies.check import check
from testbed.topologies.formats.sketch import Options, Sketch, assembled, options
from testbed.topologies.load import check_open
from testbed.topologies.model import Topology
from testbed.topologies.parameters import Parameter, bind, parameters_of

MOST_BYTES = 2 * 2**20
"""The most bytes of a file: ten times the largest of the Internet Topology Zoo."""
PARAMETERS: tuple[Parameter, ...] = parameters_of(options, 0)
"""The parameters that every file takes."""
FORMATS = ("graphml", "clab", "infragraph")
"""The formats that are written."""


def read(name: str, arguments: Mapping[str, Value], rate_bps: int, delay_s: float) -> Topology:
    """Read the network in a file.

    Args:
        rate_bps: of links for which the file has none, and of the hosts that are hung on nodes.
        delay_s: the same for delays.

    Raises:
        TopologyError: the file is not there, is too large, or describes no network that can be built.
    """
    check_open(name, TopologyError)
    asked = options(**bind(name, PARAMETERS, arguments, TopologyError))  # type: ignore[arg-type]
    if asked.hosts == "xpus" and not name.endswith(".json"):
        raise TopologyError(f"{name}: hosts is xpus, which only InfraGraph's files have", fix="remove hosts=xpus")
    topology = assembled(name, _reader(name)(name, _content(name), asked), asked, rate_bps, delay_s)
    check(name, topology)
    return topology


def write(topology: Topology, form: str) -> str:
    """Write a network as a text in one of :data:`FORMATS`: nodes, links, ports, rates and delays, and not its routing.

    Raises:
        TopologyError: it has patch panels, which no format knows.
    """
    if topology.panels is not None:
        raise TopologyError(
            f"{topology.expression} has patch panels, which {form} cannot say",
            fix="write a network of hosts and switches",
        )
    text: str = _module({"clab": "containerlab"}.get(form, form)).write(topology)
    return text


def _reader(name: str) -> Callable[[str, bytes, Options], Sketch]:
    """Return what reads files with this ending."""
    reader: Callable[[str, bytes, Options], Sketch]
    if name.endswith(".json"):
        reader = _module("infragraph").read
    elif name.endswith((".clab.yml", ".clab.yaml")):
        reader = _module("containerlab").read
    else:
        reader = _module("graphml").read_gml if name.endswith(".gml") else _module("graphml").read
    return reader


def _module(name: str) -> Any:
    """Import the module of a format only now, for libraries take a tenth of a second."""
    return import_module(f"{__name__}.{name}")


def _content(name: str) -> bytes:
    path = Path(name)
    try:
        if not path.is_file():
            raise TopologyError(f"there is no file {name!r} (looked in {Path.cwd()})", fix="correct its path")
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise TopologyError(f"{name}: {(error.strerror or str(error)).lower()}", fix="make it readable") from None
    if len(content) > MOST_BYTES:
        raise TopologyError(f"{name} has more than {MOST_BYTES:,} bytes", fix="name a smaller file")
    return content
