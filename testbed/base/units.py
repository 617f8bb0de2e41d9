"""Quantities as people write them, with the unit: ``200 Mbit/s``, ``0.3 s``, ``256 KiB``. A bare number is refused."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from testbed.base.errors import SpecError

_QUANTITY = re.compile(r"([+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)\s*([^\d\s].*)?")
_SHARE = re.compile(r"([+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)\s*(%)?")
_LONGEST = 100  # characters
LONGEST_S = 86_400.0
"""Seconds of a day: no time in an experiment is longer."""


@dataclass(frozen=True)
class Unit:
    """A kind of quantity: its name, its units as factors of the base unit, and how to write one."""

    noun: str
    factors: dict[str, float]
    example: str


RATE = Unit("a rate", {"bit/s": 1, "kbit/s": 1e3, "Mbit/s": 1e6, "Gbit/s": 1e9, "Tbit/s": 1e12}, "200 Mbit/s, 1 Gbit/s")
TIME = Unit("a time", {"s": 1, "ms": 1e-3, "us": 1e-6, "min": 60}, "0.3 s, 10 ms")
SPEED = Unit(
    "a speed of writing",
    {"kB/s": 1e3, "MB/s": 1e6, "GB/s": 1e9, "KiB/s": 2**10, "MiB/s": 2**20, "GiB/s": 2**30},
    "180 MB/s, 1 GB/s",
)
SIZE = Unit(
    "a size", {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "kB": 1e3, "MB": 1e6, "GB": 1e9}, "256 KiB, 4 MiB"
)

PACE = Unit("a pace of computing", {"GFLOP/s": 1e9, "TFLOP/s": 1e12}, "500 GFLOP/s, 10 TFLOP/s")


def rate_bps(value: object) -> int:
    """Bits per second of text such as ``200 Mbit/s``.

    Raises:
        SpecError: not a number with a unit of rate, or not above 0.
    """
    return round(_positive(value, RATE))


def speed_bytes_per_s(value: object) -> float:
    """Bytes per second of text such as ``180 MB/s``.

    Raises:
        SpecError: not a number with a unit of speed, or not above 0.
    """
    return _positive(value, SPEED)


def flop_per_s(value: object) -> float:
    """Floating-point operations per second of text such as ``10 TFLOP/s``.

    Raises:
        SpecError: not a number with a unit of pace, or not above 0.
    """
    return _positive(value, PACE)


def time_s(value: object) -> float:
    """Seconds of text such as ``10 ms``; 0 is allowed.

    Raises:
        SpecError: not a number with a unit of time, or below 0.
    """
    seconds = _read(value, TIME)
    if seconds < 0:
        raise SpecError(f"{value!r} is below 0", fix=f"give {TIME.noun} of 0 s or more, such as {TIME.example}")
    if seconds > LONGEST_S:
        raise SpecError(f"{value!r} is longer than a day", fix=f"give {TIME.noun} of at most {LONGEST_S:.0f} s")
    return seconds


def size_bytes(value: object) -> int:
    """Bytes of text such as ``256 KiB``.

    Raises:
        SpecError: not a number with a unit of size, or not above 0.
    """
    return round(_positive(value, SIZE))


def share(value: object) -> float:
    """Share from 0 to 1 of a text or number: 0.1 of ``10 %`` or of 0.1. A bare 1 is refused: some mean ``1 %`` by it.

    Raises:
        SpecError: neither, or outside.
    """
    match = _SHARE.fullmatch(str(value).strip()) if len(str(value)) <= _LONGEST else None
    if isinstance(value, bool) or not isinstance(value, str | int | float) or not match:
        raise SpecError(f"{value_text(value)} is not a share", fix="write it as 10 % or 0.1")
    if match[0] == "1":  # 1.0 is a fraction
        raise SpecError(f"{value!r} could be 1 % or all", fix="write it as 1 % or 100 %")
    number = float(match[1]) / (100 if match[2] else 1)
    if not 0 <= number <= 1:
        raise SpecError(f"{value!r} is not a share of a whole", fix="give 0 % to 100 %, or 0 to 1")
    return number


def rate_text(bps: float) -> str:
    """Write a rate: ``200 Mbit/s`` for 200,000,000."""
    for unit in ("Tbit/s", "Gbit/s", "Mbit/s", "kbit/s"):
        if bps >= RATE.factors[unit]:
            return f"{bps / RATE.factors[unit]:.4g} {unit}"
    return f"{bps:.4g} bit/s"


def time_text(seconds: float, *, measured: bool = False) -> str:
    """Write a time: ``0.186 s``, ``12 ms``, ``2 min 5 s``, ``3 h 20 min``: three digits at most; if ``measured``, three
    also where they are zeros."""
    if seconds >= 3600:
        hours, rest = divmod(round(seconds / 60), 60)
        return f"{hours} h {rest} min"
    if seconds >= 60:
        minutes, rest = divmod(round(seconds), 60)
        return f"{minutes} min {rest} s"
    unit, factor = ("s", 1.0) if seconds >= 0.1 or seconds == 0 else ("ms", 1e3) if seconds >= 1e-4 else ("us", 1e6)
    number = f"{seconds * factor:#.3g}".rstrip(".") if measured and seconds else f"{seconds * factor:.3g}"
    return f"{number} {unit}"


def size_text(count: float) -> str:
    """Write a size: ``12.5 MiB`` for 13,098,536."""
    for unit, factor in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if count >= factor:
            return f"{count / factor:.3g} {unit}"
    return f"{count:.0f} B"


def truth_text(value: bool) -> str:
    """Write a truth value as YAML has it, with the words that YAML 1.1 also reads as that value."""
    return "true (as yes and on are in YAML)" if value else "false (as no and off are in YAML)"


def value_text(value: object) -> str:
    """Write a value of YAML in an error, cut where it is long."""
    text = truth_text(value) if isinstance(value, bool) else "an empty value" if value is None else repr(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def _positive(value: object, unit: Unit) -> float:
    number = _read(value, unit)
    if number <= 0:
        raise SpecError(f"{value!r} is not above 0", fix=f"give {unit.noun} above 0, such as {unit.example}")
    return number


def _read(value: object, unit: Unit) -> float:
    fix = f"write {unit.noun} with its unit ({', '.join(unit.factors)}), such as {unit.example}"
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise SpecError(f"{value_text(value)} is not {unit.noun}", fix=fix)
    match = _QUANTITY.fullmatch(str(value).strip()) if len(str(value)) <= _LONGEST else None
    if not match:
        raise SpecError(f"{value_text(value)} is not {unit.noun}", fix=fix)
    if match[2] is None:
        raise SpecError(f"{value!r} has no unit", fix=fix)
    if match[2] not in unit.factors:
        raise SpecError(f"{value!r}: {match[2]!r} is not a unit of {unit.noun.split()[-1]}", fix=fix)
    number = float(match[1]) * unit.factors[match[2]]
    if not math.isfinite(number):
        raise SpecError(f"{value!r} is not a finite number", fix=fix)
    return number
