"""A link's free rate over time, as steps, and the part of it that a transfer takes (MLfabric, section 5.1.1, fig.
4)."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

TICK_S = 1e-9
"""Moments that are closer than this are one moment."""

TICKS = 1e9
"""Ticks in a second."""

Flow = list[tuple[float, float]]
"""Steps of a transfer: (from when on in seconds, bit/s), until the transfer ends."""


class Residual(NamedTuple):
    """Free rate of a link: ``rates_bps[i]`` from ``times_s[i]`` to ``times_s[i + 1]``; the last moment is infinity.

    Neither list is changed by anybody but :func:`send`.
    """

    times_s: list[float]
    rates_bps: list[float]


def moment(time_s: float) -> float:
    """Round a time to whole ticks, so that times that differ by rounding alone are the same."""
    return round(time_s * TICKS) if time_s < math.inf else math.inf


def merged(steps: Iterable[tuple[float, float]]) -> Residual:
    """Make a residual of steps (from when on in seconds, bit/s), in their order; of those at one moment the last
    counts."""
    times: list[float] = []
    rates: list[float] = []
    for from_s, rate in steps:
        if times and times[-1] == from_s:
            del times[-1], rates[-1]
        if not rates or rates[-1] != rate:
            times.append(from_s)
            rates.append(rate)
    return Residual([*times, math.inf], rates)


def flow(residuals: Sequence[Residual], bits: float, ready_s: float) -> tuple[Flow, float]:
    """Return the rates that a transfer takes of its path, and when it ends; infinity where rates stay 0 before it does.

    The first step is at the first rate above 0. A step shorter than a tick carries nothing, and an end that is within a
    tick of a change of rates is at that change.
    """
    steps: Flow = []
    if ready_s == math.inf:
        return steps, math.inf
    (times_s, rates_bps), others = residuals[0], _lowest(residuals[1:] or residuals, ready_s)
    last_rate, now_s = 0.0, ready_s
    at = bisect_right(times_s, ready_s) - 1
    others_until_s, others_bps = next(others)
    while True:
        rate, until_s = rates_bps[at], times_s[at + 1]
        if others_bps < rate:
            rate = others_bps
        if others_until_s < until_s:
            until_s = others_until_s
        if until_s - now_s <= TICK_S:
            rate = 0.0
        if rate != last_rate:
            steps.append((now_s, rate))
            last_rate = rate
        if rate:
            end_s = now_s + bits / rate
            if end_s <= until_s + TICK_S:
                return steps, until_s if end_s > until_s - TICK_S else end_s
            bits -= rate * (until_s - now_s)
        if until_s == math.inf:
            return steps, math.inf
        at += times_s[at + 1] == until_s
        if others_until_s == until_s:
            others_until_s, others_bps = next(others)
        now_s = until_s


def _lowest(residuals: Sequence[Residual], from_s: float) -> Iterator[tuple[float, float]]:
    """Return the lowest free rate of links, one behind the other, from a moment on: (until when, bit/s)."""
    if len(residuals) == 1:
        ((times_s, rates_bps),) = residuals
        at = bisect_right(times_s, from_s)
        return zip(times_s[at:], rates_bps[at - 1 :], strict=True)
    return _lowest_of_many(residuals, from_s)


def _lowest_of_many(residuals: Sequence[Residual], from_s: float) -> Iterator[tuple[float, float]]:
    """Yield the lowest free rate of several links; steps with the same rate are one."""
    at = [bisect_right(one.times_s, from_s) - 1 for one in residuals]
    last_bps = min(one.rates_bps[i] for one, i in zip(residuals, at, strict=True))
    until_s = 0.0
    while until_s < math.inf:
        until_s = min(one.times_s[i + 1] for one, i in zip(residuals, at, strict=True))
        at = [i + (one.times_s[i + 1] == until_s < math.inf) for one, i in zip(residuals, at, strict=True)]
        bps = min(one.rates_bps[i] for one, i in zip(residuals, at, strict=True))
        if bps != last_bps or until_s == math.inf:
            yield until_s, last_bps
            last_bps = bps


def covers(residual: Residual, others: Sequence[Residual]) -> bool:
    """Whether a link always has at least as much left as the others together."""
    if min(residual.rates_bps) >= sum(max(other.rates_bps) for other in others):
        return True
    every = (residual, *others)
    moments = sorted({at for one in every for at in one.times_s[:-1]})
    rates = ([one.rates_bps[bisect_right(one.times_s, at) - 1] for one in every] for at in moments)
    return all(first >= sum(rest) for first, *rest in rates)


def less(residual: Residual, steps: Sequence[tuple[float, float]], end_s: float) -> Residual:
    """Return the free rate when a transfer with these steps takes its part, until it ends."""
    times, rates = residual.times_s.copy(), residual.rates_bps.copy()
    at = bisect_right(times, steps[0][0]) - 1
    for number, (from_s, rate) in enumerate(steps):
        until_s = steps[number + 1][0] if number + 1 < len(steps) else end_s
        while rate and from_s < until_s:
            while times[at + 1] <= from_s:
                at = _join(times, rates, at + 1)
            to_s = min(times[at + 1], until_s)
            at = _split(times, rates, at, from_s, to_s, rates[at] - rate)
            from_s = to_s
    while times[at + 1] < end_s:
        at = _join(times, rates, at + 1)
    _join(times, rates, at + 1)
    return Residual(times, rates)


def when(residual: Residual, most_bps: float, bits: float, ready_s: float) -> float:
    """Return when a transfer would end that only this link and a constant rate limit."""
    times, rates = residual
    if ready_s == math.inf or not most_bps:
        return math.inf
    at = bisect_right(times, ready_s) - 1
    now_s = ready_s
    while True:
        until_s = times[at + 1]
        rate = rates[at]
        if rate > most_bps:
            rate = most_bps
        if rate and until_s - now_s > TICK_S:
            end_s = now_s + bits / rate
            if end_s <= until_s + TICK_S:
                return until_s if end_s > until_s - TICK_S else end_s
            bits -= rate * (until_s - now_s)
        if until_s == math.inf:
            return math.inf
        at += 1
        now_s = until_s


def send(residual: Residual, before: Residual, bits: float, ready_s: float) -> float:
    """Reserve a transfer over two links, in place and on the second one only; return when it ends.

    The same as :func:`flow` over the two, then :func:`less` of the second one.
    """
    times, rates = residual
    before_times, before_rates = before
    if ready_s == math.inf:
        return math.inf
    if not rates[0] and ready_s <= times[1] < math.inf:  # used up until then
        ready_s, rate = times[1], rates[1]
        at_before = bisect_right(before_times, ready_s)
        if before_rates[at_before - 1] >= rate:
            end_s = ready_s + bits / rate
            if end_s < times[2] - TICK_S and end_s < before_times[at_before] - TICK_S:
                times[1] = end_s  # the usual case: it takes all there is of a step
                return end_s
    at = bisect_right(times, ready_s) - 1
    at_before = bisect_right(before_times, ready_s) - 1
    now_s = ready_s
    while True:
        until_s, left = times[at + 1], rates[at]
        if before_times[at_before + 1] < until_s:
            until_s = before_times[at_before + 1]
        rate = before_rates[at_before]
        if left < rate:
            rate = left
        if rate and until_s - now_s > TICK_S:
            left -= rate
            end_s = now_s + bits / rate
            if end_s <= until_s + TICK_S:
                if end_s > until_s - TICK_S:
                    end_s = until_s
                _join(times, rates, _split(times, rates, at, now_s, end_s, left) + 1)
                return end_s
            bits -= rate * (until_s - now_s)
            if times[at] < now_s or until_s < times[at + 1]:
                at = _split(times, rates, at, now_s, until_s, left) + 1
            elif at and rates[at - 1] == left:
                del times[at], rates[at]
            else:
                rates[at] = left
                at += 1
        else:
            at = _join(times, rates, at)
            at += until_s == times[at + 1]
        if until_s == math.inf:
            return math.inf
        at_before += until_s == before_times[at_before + 1]
        now_s = until_s


def _split(times: list[float], rates: list[float], at: int, from_s: float, until_s: float, rate: float) -> int:
    """Give the part of step ``at`` between two moments another rate, and return the index of that part."""
    if until_s < times[at + 1]:
        if times[at] == from_s and at and rates[at - 1] == rate:
            times[at] = until_s  # the usual case: what is used up is so for longer
            return at - 1
        times.insert(at + 1, until_s)
        rates.insert(at + 1, rates[at])
    if times[at] < from_s:
        at += 1
        times.insert(at, from_s)
        rates.insert(at, rate)
    else:
        rates[at] = rate
        at = _join(times, rates, at)
    return at


def _join(times: list[float], rates: list[float], at: int) -> int:
    """Join this step and the one before if they have the same rate, and return the index of the result."""
    if not 0 < at < len(rates) or rates[at - 1] != rates[at]:
        return at
    del times[at], rates[at]
    return at - 1
