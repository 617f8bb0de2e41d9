"""``queue``: links that have a queue of another length for a while."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from pydantic import Field

from testbed.base.groups import Size
from testbed.base.units import size_text
from testbed.lab.base import LinkChange
from testbed.perturb import targets
from testbed.perturb.events import Event
from testbed.perturb.kinds.base import Context, OfLinks, Timed


class Queue(Timed, OfLinks):
    """Links have a queue of another size for a while. Packets that do not fit are dropped."""

    kind: Literal["queue"]
    size_bytes: Size = Field(alias="size", examples=["64 KiB"])
    """The new size of the queue."""

    drops_packets: ClassVar[bool] = True
    disturbs_tcp: ClassVar[bool] = True

    def events(self, context: Context) -> Sequence[Event]:
        links = self.directed(context.topology)
        return self.window(
            f"{targets.labels(context.topology, links)} with a queue of {size_text(self.size_bytes)}",
            [LinkChange(link, queue_bytes=self.size_bytes) for link in links],
            [LinkChange(link, queue_bytes=context.links.queue_bytes) for link in links],
        )
