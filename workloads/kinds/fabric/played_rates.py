"""Real rates of the links of a played trial, where the scheduler hears late of changes. Pure logic."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

from testbed.workloads.kinds.asked import Change
from testbed.workloads.kinds.fabric.scheduling.model import Transfer

ROUNDING = 1e-6
"""Share of a transfer's bytes that may be missing at its planned end."""


class RealRates:
    """The rates of directed links over time.

    Args:
        rates_bps: by directed link, at first, headers included.
        changes: in their order, perhaps without end: they are read as far as they are needed.
        goodput: share of a rate that is payload.
    """

    def __init__(self, rates_bps: Sequence[float], changes: Iterable[Change], goodput: float) -> None:
        self._goodput, self._coming = goodput, iter(changes)
        self._since: list[tuple[float, list[float]]] = [(-math.inf, list(rates_bps))]
        self._known: list[Change] = []

    def change(self, number: int) -> Change | None:
        """Return a change by its number; None if there are no more."""
        while len(self._known) <= number:
            change = next(self._coming, None)
            if change is None:
                return None
            self._known.append(change)
            rates = list(self._since[-1][1])
            for link, rate_bps in change.rates_bps.items():
                rates[link] = rate_bps
            self._since.append((change.at_s, rates))
        return self._known[number]

    def end_s(self, transfer: Transfer, links: Sequence[int]) -> float:
        """Return when a transfer over these links ends: it is never faster than planned (daemons are told how fast to
        send), and never faster than the slowest of its links. The rate that a late transfer takes from others is left
        out.

        Raises:
            RuntimeError: never: its links stay blocked.
        """
        left, now_s = 8 * transfer.size_bytes, transfer.start_s
        while True:
            planned_bps, planned_until_s = _planned(transfer, now_s)
            real_bps, real_until_s = self._slowest(links, now_s)
            rate_bps, until_s = min(planned_bps, real_bps), min(planned_until_s, real_until_s)
            if rate_bps > 0 and now_s + left / rate_bps <= until_s:
                return now_s + left / rate_bps
            if until_s == math.inf:
                raise RuntimeError(f"a transfer from {transfer.source} to {transfer.target} has blocked links for ever")
            left -= rate_bps * (until_s - now_s)
            now_s = until_s
            if now_s == transfer.end_s and left <= ROUNDING * 8 * transfer.size_bytes:
                return now_s

    def _slowest(self, links: Sequence[int], now_s: float) -> tuple[float, float]:
        """Return the rate of payload that the slowest of the links carries at a moment (bit/s), and until when that is
        so."""
        while self._since[-1][0] <= now_s and self.change(len(self._known)) is not None:
            pass
        at = next(i for i in range(len(self._since) - 1, -1, -1) if self._since[i][0] <= now_s)
        until_s = self._since[at + 1][0] if at + 1 < len(self._since) else math.inf
        rates = self._since[at][1]
        return self._goodput * min(rates[link] for link in links), until_s


def later(transfer: Transfer, begin_s: float) -> Transfer:
    """Return the same transfer if it cannot begin before a moment, because the data that it sends was late."""
    late_s = begin_s - transfer.start_s
    if late_s <= 0:
        return transfer
    rates = tuple((from_s + late_s, rate_bps) for from_s, rate_bps in transfer.rates)
    return replace(transfer, start_s=begin_s, end_s=transfer.end_s + late_s, rates=rates)


def _planned(transfer: Transfer, now_s: float) -> tuple[float, float]:
    """Return how fast a transfer is to go at a moment, and until when; at its highest rate once it should have
    ended."""
    if now_s >= transfer.end_s:
        return max(rate_bps for _, rate_bps in transfer.rates), math.inf
    at = max(i for i, (from_s, _) in enumerate(transfer.rates) if from_s <= now_s or i == 0)
    ends = [from_s for from_s, _ in transfer.rates[at + 1 :]] + [transfer.end_s]
    return transfer.rates[at][1], ends[0]
