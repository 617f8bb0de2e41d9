"""A controller that tells random plans, one after the other, and lines that are none."""

from __future__ import annotations

import json
import random
from types import TracebackType
from typing import Any

from testbed.control.feed import LOOK_S, Feed
from testbed.control.plans import Plans
from testbed.control.registry import Context
from testbed.trial.phases import Cause
from testbed.workloads.sync.forest import ROOT, Parents
from testbed.workloads.sync.told_plans import NAME


def shuffled(parents: Parents, draw: random.Random) -> Parents:
    """Random trees of as many classes and hosts: each host's parent is one before it in a random order."""
    trees = parents.copy()
    for tree in trees:
        order = draw.sample(range(len(tree)), len(tree))
        for place, host in enumerate(order):
            tree[host] = draw.choice(order[:place]) if place else ROOT
    return trees


class Shuffling:
    """Tells ``most`` plans, each once the one ``ahead`` of it is followed; after the first one also the ``broken``
    lines, as they are."""

    is_urgent = False
    most, ahead = 4, 1
    broken: tuple[str, ...] = ()

    def __init__(self, context: Context) -> None:
        self._context, self.plans = context, Plans(context, context.trial.job)
        self._draw = random.Random(context.trial.spec.seed)
        plan: Any = context.trial.job.plan
        self._parents = plan.reduce[:, : len(plan.workers)]

    def __enter__(self) -> Shuffling:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.plans.close()

    def look(self, feed: Feed) -> float:
        feed.look()
        self.plans.look(feed)
        if feed.begun_s is not None and self.plans.told < min(self.most, self.plans.followed + self.ahead):
            self.plans.tell(shuffled(self._parents, self._draw), Cause("shuffled", f"plan {self.plans.told + 1}"))
            with (self._context.files.work / NAME).open("a") as file:
                file.writelines(f"{line}\n" for line in self.broken if self.plans.told == 1)
        return LOOK_S


def line(number: int, parents: object) -> str:
    """A line that tells a plan."""
    return json.dumps({"time": 0.0, "plan": number, "parents": parents})
