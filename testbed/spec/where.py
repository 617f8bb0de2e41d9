"""Conditions on a sweep's grid, such as ``servers <= hosts`` or ``rate >= 50 Mbit/s or scheme != 'ps'``.

Python's own parser reads them and a few kinds of its nodes are computed here: nothing is executed. A number with a unit
is worth its base units, as the values of the fields are.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from testbed.base.errors import SpecError
from testbed.base.units import RATE, SIZE, TIME
from testbed.topologies.parameters import did_you_mean

LONGEST = 500
"""The most characters of a condition. Numbers cannot grow beyond as many digits, for there are no powers."""
DEEPEST = 50
"""The most levels of brackets and operators."""
FORMS = "comparisons, and, or, not, in, + - * / // %, numbers with units, and 'text' in quotes"

_FACTORS = {"%": 0.01, **RATE.factors, **TIME.factors, **SIZE.factors}
_UNITS = "|".join(map(re.escape, sorted(_FACTORS, key=len, reverse=True)))
# Text in quotes is left alone. A % before something that can be divided by is the operator.
_QUANTITY = re.compile(
    rf"""(?P<text>'[^']*'|"[^"]*")|(?<![\w.])(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>{_UNITS})(?![\w/])(?!(?<=%)\s*[\w(.])"""
)
_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda one, many: one in many,
    ast.NotIn: lambda one, many: one not in many,
}
_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


@dataclass(frozen=True)
class Condition:
    """A condition that was read; ``fields`` are the full names of those that it is about."""

    text: str
    tree: ast.expr
    full: Mapping[str, str]
    """Fields that written names mean, by name."""

    @property
    def fields(self) -> frozenset[str]:
        return frozenset(self.full.values())

    def holds(self, values: Mapping[str, Any]) -> bool:
        """Whether the condition is true where the fields have these values; one about a field that is not there is.

        Raises:
            SpecError: it cannot be computed, or is neither true nor false.
        """
        if not self.fields <= values.keys():
            return True
        found = self._value(self.tree, values)
        if not isinstance(found, bool):
            raise self._error(f"it is {found!r} and not true or false", "compare it with something")
        return found

    def _value(self, node: ast.expr, values: Mapping[str, Any]) -> Any:
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.List | ast.Tuple):
            return [self._value(one, values) for one in node.elts]
        if isinstance(node, ast.BoolOp):
            parts = (self._true(one, values) for one in node.values)
            return all(parts) if isinstance(node.op, ast.And) else any(parts)
        if isinstance(node, ast.UnaryOp):
            if isinstance(node.op, ast.Not):
                return not self._true(node.operand, values)
            return -self._number(node.operand, values)
        if isinstance(node, ast.Compare):
            return self._compared(node, values)
        if isinstance(node, ast.BinOp):
            return self._computed(node, values)
        return values[self.full[_name(node)]]

    def _compared(self, node: ast.Compare, values: Mapping[str, Any]) -> bool:
        left = self._value(node.left, values)
        for kind, right_node in zip(node.ops, node.comparators, strict=True):
            right = self._value(right_node, values)
            try:
                if not _COMPARISONS[type(kind)](left, right):
                    return False
            except TypeError:
                raise self._error(f"{left!r} and {right!r} cannot be compared like that", _QUOTES) from None
            left = right
        return True

    def _computed(self, node: ast.BinOp, values: Mapping[str, Any]) -> Any:
        left, right = self._number(node.left, values), self._number(node.right, values)
        try:
            return _ARITHMETIC[type(node.op)](left, right)
        except (ZeroDivisionError, OverflowError) as error:
            raise self._error(f"{left} and {right}: {error}", "leave such values out first") from None

    def _number(self, node: ast.expr, values: Mapping[str, Any]) -> Any:
        found = self._value(node, values)
        if isinstance(found, bool) or not isinstance(found, int | float):
            raise self._error(f"{found!r} is not a number to compute with", _QUOTES)
        return found

    def _true(self, node: ast.expr, values: Mapping[str, Any]) -> bool:
        found = self._value(node, values)
        if not isinstance(found, bool):
            raise self._error(f"{found!r} is not true or false", "compare it with something")
        return found

    def _error(self, problem: str, fix: str) -> SpecError:
        return SpecError(f"{self.text!r}: {problem}", fix=fix)


_QUOTES = "compare numbers with numbers (such as 100 Mbit/s) and text with 'text'"


def condition(text: str, known: Collection[str], units: Mapping[str, str] | None = None) -> Condition:
    """Read a condition; ``known`` are the full names of the fields it may be about, and ``units`` has a unit of each of
    these whose values need one.

    Raises:
        SpecError: it cannot be read, names a field that there is not, or compares such a value with a bare number.
    """
    if len(text) > LONGEST:
        raise SpecError(f"a condition of {len(text):,} characters", fix=f"write it in at most {LONGEST}")
    try:
        in_base_units, quantities = _in_base_units(" ".join(text.split("\n")).strip())
        tree = ast.parse(in_base_units, mode="eval").body
        names = {_name(node) for node in _checked(tree, text)}
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise SpecError(f"cannot read {text!r}", fix=f"write it with {FORMS}") from None
    if not names:
        raise SpecError(f"{text!r} is about no field", fix=f"name one of: {', '.join(known)}")
    full = {name: field_named(name, repr(text), known) for name in names}
    _check_units(text, tree, quantities, {name: unit for name, of in full.items() if (unit := (units or {}).get(of))})
    return Condition(text, tree, full)


def unit_of(value: object) -> str | None:
    """The unit of a value as it is written, such as ``100 Mbit/s``; None where none is needed, as by a share."""
    match = _QUANTITY.fullmatch(value) if isinstance(value, str) else None
    return match["unit"] if match and match["unit"] not in (None, "%") else None


def _in_base_units(text: str) -> tuple[str, set[int]]:
    """Replace quantities in ``text`` by numbers; return where each of these begins, too, in bytes as ``ast`` counts."""
    changed, begins, end = "", set(), 0
    for match in _QUANTITY.finditer(text):
        changed += text[end : match.start()]
        if not match["text"]:
            begins.add(len(changed.encode()))
        changed += match["text"] or repr(float(match["number"]) * _FACTORS[match["unit"]])
        end = match.end()
    return changed + text[end:], begins


def _check_units(text: str, tree: ast.expr, quantities: Collection[int], units: Mapping[str, str]) -> None:
    """Check that no field that has a unit is compared with a bare number; 0 is the same in all units.

    Raises:
        SpecError: one is.
    """
    for node in ast.walk(tree):
        if not isinstance(node, ast.Compare):
            continue
        sides = [node.left, *node.comparators]
        for one, other in [*pairwise(sides), *pairwise(reversed(sides))]:
            unit = units.get(_name(one))
            for number in other.elts if isinstance(other, ast.List | ast.Tuple) else [other]:
                if unit and _is_bare(number, quantities):
                    written = ast.unparse(number)
                    raise SpecError(
                        f"{text!r}: {written} has no unit", fix=f"write it with its unit, such as {written} {unit}"
                    )


def _is_bare(node: ast.expr, quantities: Collection[int]) -> bool:
    """Whether a node is a number other than 0 that was written without a unit."""
    if not isinstance(node, ast.Constant) or isinstance(node.value, bool | str):
        return False
    return bool(node.value) and node.col_offset not in quantities


def _checked(node: ast.expr, text: str, depth: int = 0) -> list[ast.expr]:
    """Check an expression, and return the names in it.

    Raises:
        SpecError: it has something that conditions have not, or is nested too deeply.
    """
    if depth > DEEPEST:
        raise SpecError(f"{text!r} is nested too deeply", fix="write several conditions")
    if _name(node):
        return [node]
    if isinstance(node, ast.Constant) and isinstance(node.value, str | int | float):
        return []
    parts: list[ast.expr] | None = None
    if isinstance(node, ast.List | ast.Tuple):
        parts = node.elts
    elif isinstance(node, ast.BoolOp):
        parts = node.values
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub):
        parts = [node.operand]
    elif isinstance(node, ast.Compare) and all(type(one) in _COMPARISONS for one in node.ops):
        parts = [node.left, *node.comparators]
    elif isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
        parts = [node.left, node.right]
    if parts is None:
        raise SpecError(f"{text!r}: a condition cannot have {ast.unparse(node)}", fix=f"write it with {FORMS}")
    return [name for part in parts for name in _checked(part, text, depth + 1)]


def _name(node: ast.AST) -> str:
    """Name that a node is: ``links.rate``, ``perturb[0].slowdown`` (as ``perturb.0.slowdown``) or
    ``links['h0-s0'].delay``; empty where it is no name."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        inner = _name(node.value)
        return f"{inner}.{node.attr}" if inner else ""
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        inner, key = _name(node.value), node.slice.value
        return f"{inner}.{key}" if inner and (isinstance(key, str) or type(key) is int) else ""
    return ""


def field_named(name: str, where: str, known: Collection[str]) -> str:
    """Find the field that a name means: its whole path, or an end of it that no other has; errors begin
    with ``where``.

    Raises:
        SpecError: none is meant, or several may be.
    """
    if name in known:
        return name
    meant = [one for one in known if one.endswith(f".{name}")]
    if len(meant) == 1:
        return meant[0]
    if meant:
        raise SpecError(f"{where}: {name} may be {' or '.join(meant)}", fix="write the whole name")
    near = did_you_mean(name, [*known, *(one.rpartition(".")[2] for one in known)])
    raise SpecError(
        f"{where}: no field {name!r} is swept{near}", fix=f"use one of: {', '.join(known)}; put text into quotes"
    )
