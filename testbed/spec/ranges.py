"""Values that are written as a range: ``2..16``, ``2..16 step 2``, ``1..64 x2``, ``50..200 step 50 Mbit/s``.

Both ends belong to it, the last only if the steps meet it. Numbers are decimal, so ``0.1..0.3 step 0.1`` has three
values.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from itertools import takewhile

from testbed.base.errors import SpecError

EXAMPLES = "2..16, 2..16 step 2, 1..64 x2 or 50..200 step 50 Mbit/s"
MOST_VALUES = 1000
"""The most values of one range: nobody waits for more."""
_LONGEST = 100  # characters
_LARGEST = 2**63
_NUMBER = r"[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d{1,3})?"
BEGINNING = rf"^\s*{_NUMBER}\s*[A-Za-z/%]*\s*\.\."
"""Pattern of the beginning of what can only be meant as a range."""
_RANGE = re.compile(
    rf"(?P<first>{_NUMBER})\s*\.\.\s*(?P<last>{_NUMBER})"
    rf"(?:\s+step\s+(?P<step>{_NUMBER})|\s*x\s*(?P<factor>{_NUMBER}))?(?:\s*(?P<unit>(?!(?:step|x)\b)[A-Za-z/%]+))?"
)


@dataclass(frozen=True)
class Range:
    """A range: from ``first`` on, always ``step`` more, or ``factor`` times as much, while not beyond ``last``."""

    first: Decimal
    last: Decimal
    step: Decimal | None
    factor: Decimal | None
    unit: str

    def __iter__(self) -> Iterator[Decimal]:
        return takewhile(lambda number: number <= self.last, self._endless())

    def _endless(self) -> Iterator[Decimal]:
        number, count = self.first, 0
        while True:
            yield number
            count += 1
            number = self.first + count * self.step if self.step is not None else number * (self.factor or 2)


def is_range(text: object) -> bool:
    """Whether a value can only be meant as a range, a right one or not."""
    return isinstance(text, str) and len(text) <= _LONGEST and re.match(BEGINNING, text) is not None


def values(text: str) -> list[int | float | str]:
    """Values of a range, each as it would be written by itself: a number, or text with the unit.

    Raises:
        SpecError: it cannot be read, never moves or ends, or is too long.
    """
    found = _read(text)
    numbers = []
    for number in found:
        numbers.append(number)
        if len(numbers) > MOST_VALUES:
            raise SpecError(f"{text!r} has more than {MOST_VALUES:,} values", fix="take larger steps")
    if found.unit:
        return [f"{number.normalize():f} {found.unit}" for number in numbers]
    whole = all(number == number.to_integral_value() for number in numbers) and "." not in text.replace("..", "")
    return [int(number) if whole else float(number) for number in numbers]


def _read(text: str) -> Range:
    match = _RANGE.fullmatch(text.strip())
    if match is None:
        raise SpecError(f"cannot read the range {text!r}", fix=f"write it as {EXAMPLES}")
    first, last, step, factor = (
        None if match[name] is None else Decimal(match[name]) for name in ("first", "last", "step", "factor")
    )
    assert first is not None
    assert last is not None  # the pattern has both
    if max(abs(number) for number in (first, last, step, factor) if number is not None) >= _LARGEST:
        raise SpecError(f"{text!r} has a number that no setting can have", fix="make it smaller")
    if first > last:
        raise SpecError(f"the range {text!r} begins above its end", fix="write the smaller number first")
    if step is not None and step <= 0:
        raise SpecError(f"a step of {step} in {text!r} never gets there", fix="give a step above 0")
    if factor is not None and (factor <= 1 or first <= 0):
        raise SpecError(f"{text!r} never gets there by multiplying", fix="begin above 0, and give a factor above 1")
    if step is None and factor is None:
        if first != first.to_integral_value():
            raise SpecError(f"the range {text!r} has no step", fix=f"say how far apart its values are: {EXAMPLES}")
        step = Decimal(1)
    return Range(first, last, step, factor, match["unit"] or "")
