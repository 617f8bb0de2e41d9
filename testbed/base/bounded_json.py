"""JSON of others, read with bounds: on its depth, on how many values it has, and on its numbers.

Python's own reader takes brackets in brackets until the stack ends, ``NaN``, and 200 bytes of memory for each value, of
which a text of 16 MiB can hold sixteen million.
"""

from __future__ import annotations

import json
import math
from typing import Any

from testbed.base.printable import CONTROL, printable

MOST_VALUES = 2**20
"""The most values of one JSON text: a value takes up to 200 bytes of memory."""
DEEPEST = 32
"""The most levels of groups in groups; ours have at most 8."""
LARGEST_INTEGER = 2**63
LARGEST_NUMBER = 1e100
"""The largest number: products of three are finite still."""


def parse_json(content: bytes, *, finite: bool = True, most_values: int = MOST_VALUES) -> Any:
    """Parse a JSON value of bounded depth and size, in which every number is in reach of arithmetic, and every text
    printable. Python's reader takes ``NaN`` and ``1e999``, which are refused if numbers are to be ``finite``.

    Raises:
        ValueError: it is none.
    """
    if content.count(b",") + content.count(b"[") + content.count(b"{") > most_values:
        raise ValueError(f"more than {most_values:,} values")
    text = content.decode()
    try:
        number = _finite if finite else float
        value = json.loads(text, parse_int=_bounded, parse_float=number, parse_constant=number)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    _check_depth(value)
    # What is written as \u may be a control character, too; text without either is as it is.
    return _printable(value) if "\\u" in text or CONTROL.search(text) else value


def _bounded(text: str) -> int:
    number = int(text) if len(text) < 20 else LARGEST_INTEGER
    if not -LARGEST_INTEGER < number < LARGEST_INTEGER:
        raise ValueError(f"{text:.40} is no finite number below 2^63")
    return number


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text:.40} is no finite number")
    if abs(number) > LARGEST_NUMBER:
        raise ValueError(f"{text:.40} is no finite number up to {LARGEST_NUMBER:g}")
    return number


def _check_depth(value: object) -> None:
    """
    Raises:
        ValueError: groups are in groups, more than DEEPEST.
    """
    groups = [value] if isinstance(value, dict | list) else []
    for _ in range(DEEPEST):
        inner = (one for group in groups for one in (group.values() if isinstance(group, dict) else group))
        groups = [one for one in inner if type(one) is dict or type(one) is list]
        if not groups:
            return
    raise ValueError("nested too deeply")


def _printable(value: Any) -> Any:
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, list):
        return [_printable(one) for one in value]
    if isinstance(value, dict):
        return {printable(key): _printable(one) for key, one in value.items()}
    return value
