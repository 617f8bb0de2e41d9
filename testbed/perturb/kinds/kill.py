"""``kill``: nodes whose processes are killed."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from typing import ClassVar, Literal

from pydantic import Field

from testbed.perturb import targets
from testbed.perturb.events import Event, Signals
from testbed.perturb.kinds.base import Context, Names, Perturbation
from testbed.perturb.moments import Moment, When


class Kill(Perturbation):
    """Every process of a node is killed: a worker, a server, or a switch that aggregates. Or one process is killed."""

    kind: Literal["kill"]
    at: When = Field(examples=["3 s"])
    """The moment at which they are killed."""
    nodes: Names = Field(examples=["[h0]"])
    """The nodes, or single processes such as ``h0.daemon``."""

    disturbs_tcp: ClassVar[bool] = True

    @property
    def moments(self) -> Sequence[Moment]:
        return (self.at,)

    @property
    def kills(self) -> Sequence[str]:
        return self.nodes

    def events(self, context: Context) -> Sequence[Event]:
        reached = [targets.reached(context.topology, context.processes, name) for name in self.nodes]
        ended = tuple(process for some in reached for process in some)
        signals = tuple(Signals(signal.SIGKILL, target=name) for name in self.nodes)
        return [Event(self.at, self.kind, f"{', '.join(self.nodes)} killed", signals=signals, kills=ended)]
