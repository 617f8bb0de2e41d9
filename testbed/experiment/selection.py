"""Selection of an experiment's trials, where somebody names arms, points of its sweep, or trials."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import isclose

from testbed.base import units
from testbed.base.errors import SpecError, UsageError
from testbed.base.nearest import nearest
from testbed.experiment.repeats import Selection
from testbed.spec import Source
from testbed.spec.axes import Plain
from testbed.spec.grid import BATCH
from testbed.spec.where import field_named
from testbed.trial.model import Trial


@dataclass(frozen=True)
class Wanted:
    """Selection of what is to run; each may name several, and what is empty leaves all.

    Attributes:
        arms: labels, or numbers from 0.
        points: ``NAME=VALUE`` of a swept field, or of ``batch``. Several of one field leave several values.
        ids: of trials, as ``plan`` shows them. Each runs as often as the spec repeats it.
    """

    arms: Sequence[str] = ()
    points: Sequence[str] = ()
    ids: Sequence[str] = ()

    def __bool__(self) -> bool:
        return bool(self.arms or self.points or self.ids)

    def of(self, source: Source) -> Selection | None:
        """The selection of trials of an experiment; None where it leaves all.

        Raises:
            UsageError: it is no ``NAME=VALUE``; or there is no such field, or value.
        """
        if not self:
            return None
        values = _values(source)
        allowed: dict[str, list[Plain]] = {}
        for text in self.points:
            name, value = _point(text, values)
            allowed.setdefault(name, []).append(value)

        def selected(firsts: Sequence[Trial]) -> Collection[str]:
            arms, ids = _arms(self.arms, firsts), _ids(self.ids, firsts)
            found = [first.id for first in firsts if first.label in arms and first.id in ids and _is_at(first, allowed)]
            if not found:
                raise UsageError("--arm, --point and --only together leave no trial", fix="leave one of them out")
            return found

        return selected


ALL = Wanted()


def _values(source: Source) -> dict[str, dict[str, Plain]]:
    """Return, by name, the values of each swept field and of the batch: as written, and in base units."""
    found: dict[str, dict[str, Plain]] = {}
    for axis in source.grid.axes:
        found.setdefault(axis.name, {}).update({str(value): value.plain for value in axis.values})
    batches = dict.fromkeys(cell.batch for cell in source.grid.cells if cell.batch)
    return found | ({BATCH: {str(batch): batch for batch in batches}} if batches else {})


def _point(text: str, values: Mapping[str, Mapping[str, Plain]]) -> tuple[str, Plain]:
    written, equals, wanted = text.partition("=")
    if not equals or not written.strip():
        raise UsageError(f"--point {text}: not NAME=VALUE", fix="write it as rate='100 Mbit/s' or batch=16")
    try:
        name = field_named(written.strip(), f"--point {text}", values)
    except SpecError as error:
        raise UsageError(error.problem, fix=f"use one of: {', '.join(values)}") from None
    wanted = wanted.strip(" '\"")
    for known, plain in values[name].items():
        if wanted == known or _is_worth(wanted, plain):
            return name, plain
    raise UsageError(f"--point {text}: {name} has no such value", fix=nearest(wanted, list(values[name])))


def _is_worth(text: str, plain: Plain) -> bool:
    """Whether text such as ``0.1 Gbit/s`` is that number of base units."""
    if isinstance(plain, bool) or not isinstance(plain, int | float):
        return False
    for read in (float, units.rate_bps, units.time_s, units.size_bytes, units.share):
        with suppress(ValueError, SpecError):
            return isclose(read(text), plain)
    return False


def _is_at(trial: Trial, allowed: Mapping[str, Sequence[Plain]]) -> bool:
    """Whether it is at one of these values of each field. As with ``where``, a field that it lacks leaves it."""
    at = {**trial.point, BATCH: trial.batch}
    return all(at[name] in values for name, values in allowed.items() if name in at)


def _arms(wanted: Sequence[str], firsts: Sequence[Trial]) -> Collection[str]:
    labels = list(dict.fromkeys(first.label for first in firsts))
    return {label_of(word, labels) for word in wanted} if wanted else labels


def label_of(word: str, labels: Sequence[str]) -> str:
    """The label of the arm that ``--arm`` names: by its label, or by its number from 0.

    Raises:
        UsageError: there is no such arm.
    """
    if word in labels:
        return word
    if word.isdecimal() and int(word) < len(labels):
        return labels[int(word)]
    raise UsageError(f"--arm {word}: there is no such arm", fix=nearest(word, labels))


def _ids(wanted: Sequence[str], firsts: Sequence[Trial]) -> Collection[str]:
    """Ids of first trials; ``-r1`` at the end may be left out."""
    known = {first.name + first.mark: first.id for first in firsts} | {first.id: first.id for first in firsts}
    if not wanted:
        return set(known.values())
    for word in wanted:
        if word not in known:
            raise UsageError(f"--only {word}: there is no such trial", fix=_near(word, list(known)))
    return {known[word] for word in wanted}


def _near(word: str, known: Sequence[str]) -> str:
    """An id may be one of thousands, which nobody wants to read."""
    fix = nearest(word, known)
    return fix if fix.startswith("did you mean") else "testbed plan SPEC lists them"
