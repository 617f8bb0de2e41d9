"""From what was measured on a few networks to what this machine carries of any other.

Problem: each network stays certified up to some rate, and each up to another. Chosen: processor time is what runs
out. While gradients are on the wire it grows linearly with the bytes that processes send (copied twice, and added), the
bytes on each link (shaped, and handed on), the chunks (Python, once each) and the processes (each wakes up by itself).
The four prices are fitted to the processor time of the steps that left some idle, and the limit to where certification
was lost. On two cores, the processor time of 28 trials (five schemes on stars, BCubes and a fat-tree; chunks of 32 and
128 KiB) is within 9 % of that line (standard deviation), 17 % at most.

The limit may be above the number of cores: the prices are those of a machine with time to spare, and one that is short
of it moves more at once.

Rejected: Gbit/s alone (19 % off that line, 37 % at most: more processes and smaller chunks take more for the same
bytes); fitting prices to the points where certification was lost (four numbers from as many points, each of which is
known to a step of the ladder).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from testbed.capacity.load import Load
from testbed.errors import TestbedError

LEAST_IDLE = 0.1
"""Share of the cores' time. With less, what a step needed is not known: it took what there was."""
CERTIFY = 0.03
"""Most by which GST is above its bound where a trial is certified."""


class NothingCarriedError(TestbedError):
    """No step of the ladder stayed certified, or none left any time idle."""


@dataclass(frozen=True)
class Step:
    """One short trial of the ladder.

    Attributes:
        network: topology and scheme, for people.
        load: what it asked for.
        certified: whether its GST was certified.
        ratio: of GST to its bound.
        idle: share of all cores' time that was left while gradients were on the wire.
    """

    network: str
    load: Load
    certified: bool
    ratio: float
    idle: float

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Step:
        """
        Raises:
            KeyError, TypeError, ValueError: it is none.
        """
        load = Load(**{key: _number(value) for key, value in dict(found["load"]).items()})
        ratio, idle = _number(found["ratio"]), _number(found["idle"])
        if not isinstance(found["certified"], bool) or not isinstance(found["network"], str):
            raise ValueError("a step of the ladder says whether it was certified, and where")
        return cls(found["network"], load, found["certified"], ratio, idle)


def _number(value: object) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise ValueError(f"{value!r} is no number of a ladder's")
    return value


def certified(record: Mapping[str, Any]) -> bool:
    """Whether a finished trial's GST is known to a few per cent by its bound alone, whatever the machine did."""
    numbers = (record["fidelity"] or {}).get("numbers")
    if numbers is not None:
        return bool(numbers["gst"]["certified"])
    trusted = ("lower bound", "bytes on the wire", "read back")
    held = all(check["ok"] for check in record["fidelity"]["checks"] if check["name"] in trusted)
    return held and float(record["metrics"]["gst_ratio"]) <= 1 + CERTIFY


@dataclass(frozen=True)
class Capacity:
    """What this machine carries.

    Attributes:
        steps: what was measured.
        cores: how many the machine has for us.
        prices: cores for each of :func:`units` of a load.
        limit: cores, at these prices, up to which trials stay certified.
    """

    steps: tuple[Step, ...]
    cores: int
    prices: tuple[float, ...]
    limit: float

    def need(self, load: Load) -> float:
        """Cores that a load takes, at the prices of a machine with time to spare."""
        return float(units(load) @ np.array(self.prices))

    def room(self, load: Load) -> float:
        """How many times the rates of a load this machine carries; 1 or more where it carries the load as it is."""
        fixed = self.prices[-1] * load.processes
        return max(0.0, self.limit - fixed) / max(self.need(load) - fixed, 1e-9)

    @property
    def best(self) -> Step:
        """The certified step that carried most."""
        return max((step for step in self.steps if step.certified), key=lambda step: step.load.in_all_bps)


def units(load: Load) -> NDArray[np.float64]:
    """What processor time is paid for: Gbit/s sent, Gbit/s on links, thousand chunks/s, processes."""
    return np.array([8e-9 * load.sent_bytes_s, 8e-9 * load.link_bytes_s, 1e-3 * load.chunks_s, float(load.processes)])


def fitted(steps: Sequence[Step], cores: int) -> Capacity:
    """The capacity that steps are evidence of.

    Raises:
        NothingCarriedError: they are of none.
    """
    known = [step for step in steps if step.idle >= LEAST_IDLE]
    if not known or not any(step.certified for step in steps):
        raise NothingCarriedError(
            "this machine carried nothing that could be certified",
            fix="end what else uses the cores, and measure again",
        )
    needed = np.array([cores * (1 - step.idle) for step in known])
    prices = least_squares(np.array([units(step.load) for step in known]) / needed[:, None])
    return Capacity(tuple(steps), cores, tuple(prices.tolist()), limit_of(steps, prices))


def least_squares(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """The prices, none below 0, with which every row comes to 1 as nearly as can be: of all sets of prices above 0 the
    best one, by trying each."""
    columns = rows.shape[1]
    best, best_error = np.zeros(columns), math.inf
    for count in range(1, columns + 1):
        for chosen in combinations(range(columns), count):
            found = np.linalg.lstsq(rows[:, chosen], np.ones(len(rows)), rcond=None)[0]
            error = float(((rows[:, chosen] @ found - 1) ** 2).sum())
            if found.min() >= 0 and error < best_error - 1e-12:
                best, best_error = np.zeros(columns), error
                best[list(chosen)] = found
    return best


def limit_of(steps: Sequence[Step], prices: NDArray[np.float64]) -> float:
    """Cores up to which networks stay certified: for each, the middle (in ratio) of the dearest step that was certified
    and the cheapest dearer one that was not; of these the median. A network that was never lost ends at its last."""
    needs: dict[str, list[tuple[float, bool]]] = {}
    for step in steps:
        needs.setdefault(step.network, []).append((float(units(step.load) @ prices), step.certified))
    found = []
    for each in needs.values():
        held = max((need for need, was_certified in each if was_certified), default=None)
        lost = min((need for need, was_certified in each if not was_certified and need > (held or 0)), default=None)
        if held is not None:
            found.append(math.sqrt(held * lost) if lost else held)
    return float(np.median(found))
