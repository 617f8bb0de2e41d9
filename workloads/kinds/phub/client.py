"""The worker's side of a service: keys go to their cores, and values come back."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Sequence

from testbed.workloads.kinds.phub.exchange import CALLED, KEPT, PULL, PUSH, PUSH_PULL, VALUE, End, Keyed, rotated
from testbed.workloads.kinds.phub.plan import Plan
from testbed.workloads.serving.exchange import Floats
from testbed.workloads.sync.connection import Act, Connection
from testbed.workloads.sync.session import Model

_WINDOW, _WINDOW_ACROSS = 16, 8
"""Keys of a core that a worker has on the way: without a limit, the flows of the workers drift apart, and a core has
nothing to send until the slowest is there. With sums across racks there are fewer, for those of other boxes wait behind
them at the box's NICs. With wide aggregation there is no limit, for a core sends nothing before a whole layer is
there."""
_ANSWER = {PUSH: KEPT, PUSH_PULL: VALUE, PULL: VALUE}


def window(plan: Plan) -> float:
    """Return how many keys of a core a worker may have on the way."""
    return math.inf if plan.aggregation == "wide" else _WINDOW_ACROSS if plan.homes else _WINDOW


class Client(Keyed):
    """A worker that is connected with all cores that it sends keys to.

    Attributes:
        plan: who owns which key.
    """

    leaves_sums = False
    checks_sums = True

    def __init__(self, name: str, ends: Sequence[End], plan: Plan, gradient: Floats, weights: Floats) -> None:
        """Set up; ``ends`` are those of connections with its cores. Keys of ``gradient`` are
        pushed, and values come to the same places of ``weights``."""
        node = plan.nodes.index(name)
        ends = rotated(ends, plan.workers.index(node))
        super().__init__(name, ends)
        self.plan = plan
        self._parents = range(len(ends))
        at = {plan.cores_at[end.name]: number for number, end in enumerate(ends)}
        self._owner = [at[plan.core_for(node, place)] for place in plan.places]
        self._gradient, self._weights = gradient, weights
        self._queues: list[deque[tuple[int, int]]] = [deque() for _ in ends]
        self._due: list[set[tuple[int, int]]] = [set() for _ in ends]
        """By core, the answers that are to come, as (kind, key)."""
        self._window = window(plan)
        self._answered_s = 0.0

    def ask(self, kind: int, keys: Sequence[int]) -> None:
        """Push or pull keys, in their order; returns at once. Each core in turn gets one, so that no NIC gets many
        while others wait."""
        for key in keys:
            self._queues[self._owner[key]].append((kind, key))
        while sum(self._feed(at) for at in self._parents):
            self._move()

    def answered(self, timeout_s: float) -> float:
        """Wait until all that was asked for is done; return the moment of the last answer (``time.monotonic``).

        Raises:
            TrialTimeoutError: nothing moved for ``timeout_s``.
            WorkerError: a core is gone.
        """
        self._until(lambda: not any(self._due) and not any(self._queues), timeout_s)
        return self._answered_s

    def _feed(self, at: int) -> bool:
        """Send the next message that waits for a core, if the window lets it; return whether it did."""
        if not self._queues[at] or len(self._due[at]) >= self._window:
            return False
        kind, key = self._queues[at].popleft()
        self._due[at].add((_ANSWER[kind], key))
        floats = None if kind == PULL else self._gradient[slice(*self.plan.keys[key].span)]
        self._say(at, kind, key, floats, self._after(key))
        return True

    def _after(self, key: int) -> Act | None:
        """Return what is to be called once all bytes of a message about a key have gone to the kernel."""
        return None

    def _room_of(self, connection: Connection, kind: int, number: int) -> Floats | None:
        if (kind, number) not in self._due[connection.node]:
            raise self._wrong(connection, kind, number)
        return self._weights[slice(*self.plan.keys[number].span)] if kind == VALUE else None

    def _came(self, connection: Connection, kind: int, number: int) -> None:
        self._due[connection.node].remove((kind, number))
        self._answered_s = time.monotonic()
        self._feed(connection.node)

    def _waits_for(self, connection: Connection) -> bool:
        at = connection.node
        return bool(self._due[at] or self._queues[at]) or self.met[at] < self._barriers

    def _awaited(self) -> str:
        waits = [
            f"for {CALLED[kind]} {key} from {self._by_node[at].name}"
            for at, due in enumerate(self._due)
            for kind, key in sorted(due)[:1]
        ]
        silent = [f"for {self._by_node[at].name}" for at in self._missing(self._parents)]
        return ", ".join(waits or silent)

    # As a session: an iteration is one call that pushes and pulls each key.

    def start(self, bucket: int) -> None:
        """
        Raises:
            ValueError: always; a worker's session knows its buckets.
        """
        raise ValueError(f"{self._name} knows keys, and no bucket {bucket}")

    def wait(self, timeout_s: float) -> float:
        return self.answered(timeout_s)

    def step(self, model: Model, world: int) -> None:
        """Put the weights that came into the model, to compute on them."""
        model.put()
