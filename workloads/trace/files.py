"""The files of a trace, one for each rank, and the file of its groups, as they are named in a spec."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import BinaryIO

from testbed.base.bounded_json import parse_json
from testbed.base.errors import SpecError
from testbed.workloads.trace import chakra, chakra_json, goal, pytorch
from testbed.workloads.trace.chakra import MOST_NODES, Read
from testbed.workloads.trace.graph import Groups, are_ranks

MOST_TEXT_BYTES = 256 << 20
"""The most bytes of a trace that is text."""
OF_ALL = ".goal"
"""The end of the name of a file that has all ranks."""
MOST_GROUPS_BYTES = 16 << 20
Opened = Callable[[Path], AbstractContextManager[BinaryIO]]
"""Opens a file to be read."""


def read(
    path: Path, opened: Opened, most_nodes: int = MOST_NODES, name: str = "", rank: int = 0
) -> tuple[Read, Groups]:
    """Read the trace of one rank, and the groups that it tells of; ``name`` names it in errors. A file of all ranks is
    read for its ``rank``.

    Raises:
        SpecError: it is absent, or no trace that can be played.
        MissingToolError: it is one of Chakra's, and protobuf is not installed.
    """
    name = name or str(path)
    try:
        with opened(path) as file:
            if path.suffix not in (".json", OF_ALL):
                return chakra.read(file, name, most_nodes), {}
            content = _bounded(file, MOST_TEXT_BYTES, name)
    except (OSError, ValueError) as error:
        raise unreadable(name, error) from None
    if path.suffix == OF_ALL:
        return goal.read(content, name, rank, most_nodes), {}
    if chakra_json.is_trace(content):
        return chakra_json.read(content, name, most_nodes), {}
    return pytorch.read(content, name, most_nodes)


def read_groups(path: Path, opened: Opened, name: str = "") -> Groups:
    """Read a file of groups, as ASTRA-sim has it: a JSON object of lists of ranks.

    Raises:
        SpecError: it is absent, or something else.
    """
    name = name or str(path)
    try:
        with opened(path) as file:
            value = parse_json(_bounded(file, MOST_GROUPS_BYTES, name))
    except (OSError, ValueError) as error:
        raise unreadable(name, error) from None
    if not isinstance(value, dict) or not all(
        are_ranks(ranks) and len(set(ranks)) == len(ranks) for ranks in value.values()
    ):
        raise SpecError(f"{name}: is no file of groups", fix='write it as {"0": [0, 1], "1": [2, 3]}')
    return {key: tuple(ranks) for key, ranks in value.items()}


def unreadable(name: str, error: OSError | ValueError) -> SpecError:
    """Make the error for a file that cannot be read."""
    if isinstance(error, FileNotFoundError):
        return SpecError(
            f"there is no file {name}", fix="correct its name, give the file of each rank, or take fewer hosts"
        )
    told = (error.strerror or str(error)).lower() if isinstance(error, OSError) else str(error)
    return SpecError(f"{name}: {told:.200}", fix="correct the file, or name another one")


def _bounded(file: BinaryIO, most_bytes: int, name: str) -> bytes:
    content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise SpecError(f"{name}: has more than {most_bytes:,} bytes", fix="cut an iteration out")
    return content


def of_rank(pattern: str, rank: int) -> str:
    """Return the name of a rank's file; ``pattern`` has ``%d`` in the place of its number."""
    return pattern.replace("%d", str(rank))
