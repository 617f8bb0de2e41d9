"""Numbers of a script's groups: alike at all members of one, and no other group's of any of them.

PyTorch counts groups, alike on all ranks, and begins anew with each default group. Groups that only their members make
have a name of these members, which comes again when such a group is destroyed and made again. Late messages of the
former must not be taken for the new one's.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Sequence
from typing import Any
from weakref import WeakValueDictionary

from testbed.base.errors import SpecError
from testbed.workloads.kinds.script.engine.channels import MOST_GROUPS

COUNTED = 2**20
"""Number of groups of a default group that have the numbers that PyTorch counts."""
NAMED = MOST_GROUPS // 2
"""Number from which on numbers are made of names; those below are counted."""


class Numbering:
    """Numbers of the groups of this process. That of all ranks has 0."""

    def __init__(self) -> None:
        self._worlds = 0
        self._made: Counter[str] = Counter()
        self._live: WeakValueDictionary[int, Any] = WeakValueDictionary()

    def begin(self) -> None:
        """Begin a default group."""
        self._worlds += 1
        self._made.clear()

    def of(self, name: str, members: Sequence[int]) -> int:
        """Return the number of a group that PyTorch calls ``name`` and that is made now.

        Raises:
            SpecError: a group that is still there has it.
        """
        counted = int(name) if name.isdecimal() else COUNTED
        number = (self._worlds - 1) * COUNTED + counted
        if 0 < counted < COUNTED and number < NAMED:
            return number
        unique = f"{self._worlds} {name} {','.join(map(str, members))}"
        number = NAMED + zlib.crc32(f"{unique} {self._made[unique]}".encode()) % (MOST_GROUPS - NAMED)
        self._made[unique] += 1
        if number in self._live:
            raise SpecError(
                f"a group of the ranks {members} gets the number {number} of another group of the script",
                fix="make it with torch.distributed.new_group() on all ranks, without use_local_synchronization",
            )
        return number

    def keep(self, number: int, group: Any) -> None:
        """Reserve the number for this group as long as there is one."""
        self._live[number] = group
