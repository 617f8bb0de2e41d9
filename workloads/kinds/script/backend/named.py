# mypy: disable-error-code="override"
"""The common part of all groups, and data that PyTorch keeps with the parts of a process group, for groups that have no
parts."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import Store

from testbed.base.errors import SpecError
from testbed.workloads.kinds.script.backend.caught import caught
from testbed.workloads.kinds.script.backend.rows import Rows
from testbed.workloads.kinds.script.backend.untraced import untraced

if TYPE_CHECKING:

    class _Whole(dist.ProcessGroup):
        def __init__(self, rank: int, size: int) -> None: ...

else:
    _Whole = dist.ProcessGroup

Place = tuple[Store, int, int, timedelta]
"""Data of which any group is made: its store, this rank in it, its size, and its timeout."""


@untraced
class Named(_Whole):
    """A group with a name, which is its own backend for tensors on CPUs."""

    supports_coalescing = False
    _name = ""
    _about = ""

    def __init__(self, rank: int, size: int, rows: Rows, number: int) -> None:
        super().__init__(rank, size)
        self._rows, self._number = rows, number
        self._pid = os.getpid()

    @property
    def _is_forked(self) -> bool:
        """Whether the script has forked this process from the rank, whose threads and connections it does not have."""
        return os.getpid() != self._pid

    @property
    def _device_types(self) -> list[torch.device]:
        return [torch.device("cuda"), torch.device("cpu")]  # as those of PyTorch's Gloo

    @property
    def group_name(self) -> str:
        return self._name

    @property
    def group_desc(self) -> str:
        return self._about

    def getGroupName(self) -> str:  # noqa: N802 - PyTorch's name, as the next ones
        return self._name

    def getGroupDesc(self) -> str:  # noqa: N802
        return self._about

    def getBackendName(self) -> str:  # noqa: N802
        return "testbed"  # DDP looks into a group called gloo for a part that this one has not

    def _set_group_name(self, name: str) -> None:
        self._name = name

    def _set_group_desc(self, about: str) -> None:
        self._about = about

    def _get_backend(self, device: torch.device) -> Named:
        return self

    def _set_sequence_number_for_group(self) -> None:
        """Do nothing: rows have numbers of their own."""


def telling(ask: Callable[..., Any], op: str) -> Callable[..., Any]:
    """Wrap a method of a group, so that it reports how long it takes, and its errors before they are raised."""

    @functools.wraps(ask)
    def asked(self: Named, *arguments: Any, **named: Any) -> Any:
        if self._is_forked:
            raise caught(forked())
        with self._rows.asking():
            try:
                return ask(self, *arguments, **named)
            except Exception as error:
                self._rows.refused(op, self._number, error)
                if (ours := caught(error)) is error:
                    raise
                raise ours from error.__cause__

    return asked


def forked() -> SpecError:
    """Make the error for a process that was forked from a rank, and asks for a collective."""
    return SpecError(
        "a process that the script forked asks for a collective, and the connections are the rank's own",
        fix="ask for collectives in the rank's own process; others may load data",
    )
