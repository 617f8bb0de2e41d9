"""``testbed.schedule()``: MLfabric's schedule for a batch in a file; nothing is sent."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from testbed.base.columns import Layout, columns
from testbed.base.errors import SpecError
from testbed.base.units import time_text
from testbed.experiment.batch_file import Asked, load
from testbed.workloads.kinds.fabric.scheduling import batch as scheduler
from testbed.workloads.kinds.fabric.scheduling.model import Schedule, Transfer
from testbed.workloads.kinds.fabric.scheduling.network import Network


@dataclass(frozen=True)
class Scheduled:
    """A batch and its schedule. ``scheduler_s`` is how long the scheduler took."""

    asked: Asked
    schedule: Schedule
    scheduler_s: float

    @cached_property
    def facts(self) -> dict[str, Any]:
        """Facts of ``testbed schedule --json``. Updates have the names of their workers."""
        way, replicated = self.schedule.way, self.schedule.replicated
        return {
            "order": self._workers(self.schedule.order),
            "dropped": [
                {"worker": self._worker(one), "reason": why.value} for one, why in self.schedule.dropped.items()
            ],
            "direct": self._workers(way.direct),
            "groups": [
                {"aggregator": self._name(group.aggregator), "members": self._workers(group.members)}
                for group in way.groups
            ],
            "transfers": [
                {
                    "from": self._name(one.source),
                    "to": self._name(one.target),
                    "start_s": one.start_s,
                    "end_s": one.end_s,
                    "members": self._workers(one.members),
                }
                for one in self._transfers
            ],
            "average_s": way.average_s,
            "total_s": way.total_s,
            "divergence": replicated.divergence if replicated else None,
            "breaches": replicated.breaches if replicated else None,
            "punted": self._workers(replicated.punted if replicated else ()),
            "scheduler_s": self.scheduler_s,
        }

    def text(self, lay_out: Layout = columns) -> str:
        """Text of ``testbed schedule``, its tables laid out by ``lay_out``."""
        parts = [self._summary(), self._order_text(lay_out), self._dropped_text(lay_out)]
        parts += [self._replica_text(), self._transfers_text(lay_out)]
        return "\n\n".join(filter(None, parts))

    def _summary(self) -> str:
        way, sent = self.schedule.way, len(self.schedule.order)
        of = sent + len(self.schedule.dropped)
        took = f"The scheduler took {time_text(self.scheduler_s)}."
        if not sent:
            return f"Nothing is sent: all {of} updates are dropped. {took}"
        return (
            f"{sent} of {of} updates {'is' if of == 1 else 'are'} sent. An update is at the server after "
            f"{time_text(way.average_s)} on average, and the last one after {time_text(way.total_s)}. {took}"
        )

    def _order_text(self, lay_out: Layout) -> str:
        by = {one: self._name(group.aggregator) for group in self.schedule.way.groups for one in group.members}
        replicated = self.schedule.replicated
        rows = [
            (
                str(place),
                self._worker(one),
                f"summed at {by[one]}" if one in by else "direct",
                time_text(self.schedule.way.arrivals_s[one]),
                *([time_text(replicated.commits_s[one])] if replicated else []),
            )
            for place, one in enumerate(self.schedule.order, 1)
        ]
        header = ("place", "update of", "way", "at the server", *(["committed"] if replicated else []))
        return lay_out(header, rows, 3) if rows else ""

    def _dropped_text(self, lay_out: Layout) -> str:
        rows = [(self._worker(one), why.value) for one, why in self.schedule.dropped.items()]
        return lay_out(("dropped", "reason"), rows, 2) if rows else ""

    def _replica_text(self) -> str:
        replicated = self.schedule.replicated
        if replicated is None:
            return ""
        count = replicated.breaches
        beyond = f". {count} {'commit is' if count == 1 else 'commits are'} beyond the bound." if count else "."
        lines = [
            f"at the replica  {', '.join(self._workers(replicated.way.arrivals_s)) or 'nothing new'}",
            f"next batch      {', '.join(self._workers(replicated.punted)) or 'nothing'}",
            f"divergence      at most {replicated.divergence:.4g} after the last commit{beyond}",
        ]
        if replicated.delayed_s:
            lines.append(f"delay           the last transfer waits {time_text(replicated.delayed_s)} for the replica")
        return "\n".join(lines)

    def _transfers_text(self, lay_out: Layout) -> str:
        rows = [
            (
                self._name(one.source),
                self._name(one.target),
                " + ".join(self._workers(one.members)),
                f"{one.size_bytes / 1e6:.4g} MB",
                time_text(one.start_s),
                time_text(one.end_s),
            )
            for one in self._transfers
        ]
        return lay_out(("from", "to", "updates of", "size", "start", "end"), rows, 3, ("size",)) if rows else ""

    @property
    def _transfers(self) -> Sequence[Transfer]:
        """Transfers to servers and replica, by the moment at which they begin."""
        replicated = self.schedule.replicated
        both = (*self.schedule.way.transfers, *(replicated.way.transfers if replicated else ()))
        return sorted(both, key=lambda one: (one.start_s, one.end_s))

    def _workers(self, ids: Iterable[int]) -> list[str]:
        return [self._worker(one) for one in ids]

    def _worker(self, number: int) -> str:
        return self._name(self._nodes[number])

    def _name(self, node: int) -> str:
        return self.asked.topology.nodes[node].name

    @cached_property
    def _nodes(self) -> dict[int, int]:
        """Worker of each update."""
        batch = self.asked.batch
        behind = batch.replication.behind if batch.replication else ()
        return {update.id: update.worker for update in (*behind, *batch.updates)}


def schedule(path: str | os.PathLike[str]) -> Scheduled:
    """Order, aggregate, replicate and drop the updates of a batch (MLfabric, section 5).

    Args:
        path: of the batch, a YAML file.

    Raises:
        SpecError: the file cannot be read, or makes no sense.
    """
    asked = load(Path(path))
    begin_s = time.perf_counter()
    try:
        found = scheduler.schedule(asked.batch, Network(asked.topology, asked.rates))
    except SpecError as error:  # such as several paths between two hosts
        raise type(error)(f"{Path(path).name}: topology: {error.problem}", fix=error.fix) from None
    return Scheduled(asked, found, time.perf_counter() - begin_s)
