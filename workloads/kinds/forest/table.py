"""Messages of a synchronisation along a forest, as a part of its kind of trial."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from testbed.workloads.kinds.parts import Table
from testbed.workloads.sync.chunks import cut
from testbed.workloads.sync.forest import Forest
from testbed.workloads.sync.messages import Message, messages

if TYPE_CHECKING:
    from testbed.workloads.learning.buckets import Gradient


class ForestTable(Table[Forest]):
    """Messages of our engine. Of a library, those of the forest that it is measured against."""

    def messages(self, plan: Forest, gradient: Gradient, chunk_bytes: int) -> Iterator[Message]:
        return messages(plan, cut(plan, gradient.floats, gradient.buckets, chunk_bytes))
