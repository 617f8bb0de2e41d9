"""``freeze``: hosts that stand still for a while."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar, Literal

from pydantic import Field

from testbed.perturb import targets
from testbed.perturb.events import Event, Signals, blocking, halting
from testbed.perturb.kinds.base import Context, Names, Timed


class Freeze(Timed):
    """A host stops: its processes stand still, and its links carry nothing."""

    kind: Literal["freeze"]
    hosts: Names = Field(examples=["[h0]"])

    drops_packets: ClassVar[bool] = True
    disturbs_tcp: ClassVar[bool] = True

    @property
    def stops(self) -> Sequence[str]:
        return self.hosts

    def events(self, context: Context) -> Sequence[Event]:
        """A machine that stands still takes no packet either, so its links are blocked both ways."""
        frozen = tuple(targets.hosts(context.topology, self.hosts))
        links = targets.links(context.topology, self.hosts, "both")
        what = f"{', '.join(self.hosts)} frozen"
        begin, *end = halting(self.window(what, blocking(links, True), blocking(links, False)))
        stop, go = (tuple(Signals(number, node=host) for host in frozen) for number in (signal.SIGSTOP, signal.SIGCONT))
        return [replace(begin, signals=stop, stops=frozen), *(replace(event, signals=go) for event in end)]
