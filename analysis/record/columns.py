"""The columns of ``results.csv``, in their order: fields of the record that have a place there, and what is worked out
of several."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Unpack

from testbed.analysis.record.fields import NO_UNIT, SHARE, Field, More, Part, by_path
from testbed.analysis.record.trial import Slot, TrialRecord
from testbed.analysis.verdicts import CALLED, NUMBERS, WITHOUT_CERTIFICATE
from testbed.files.shape import TEXT


def _made(type_: type, meaning: str, unit: str = NO_UNIT, **more: Unpack[More]) -> Field:
    return Field("", type_, unit, meaning, "", False, more)


def _worked_out() -> Iterator[tuple[int, str, Field]]:
    known = dict(by_path(TrialRecord))
    yield 0, "trial", known["id"]
    yield 20, "fidelity", known["fidelity.verdict"]
    yield 21, "reasons", _made(str, "why it is INVALID or UNWATCHED, or why it failed", bound=TEXT)
    yield 31, "attempts", _made(int, "how often it was measured", "attempts")
    for name in NUMBERS:
        yield 40, f"{name}_verdict", _made(str, f"verdict of {CALLED[name]}")
        yield 40, f"{name}_error", _made(float, f"by how much {CALLED[name]} can be off at most", SHARE)
    for name in WITHOUT_CERTIFICATE:
        yield 40, f"{name}_verdict", _made(str, "verdict of the 95th percentile of GST")


def _declared(part: type[Part]) -> Iterator[tuple[int, str, Field]]:
    for path, field in by_path(part):
        if "column" in field.more and not path.startswith(("attempts[]", "jobs[]")):
            yield field.more["column"], field.key, field


def _in_order(columns: Iterator[tuple[int, str, Field]]) -> dict[str, Field]:
    return {name: field for _, name, field in sorted(columns, key=lambda column: column[0])}


def of_every_run() -> Mapping[str, Field]:
    """Return the columns of every run by name; after them come the fields that are swept, by their names."""
    return _in_order(column for some in (_declared(TrialRecord), _worked_out()) for column in some)


def of_jobs() -> Mapping[str, Field]:
    """Return the columns of runs in which jobs share a network, by name."""
    return _in_order(_declared(Slot))


COLUMNS, OF_JOBS = tuple(of_every_run()), tuple(of_jobs())
