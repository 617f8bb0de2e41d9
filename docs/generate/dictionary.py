"""The data dictionary, from the fields that ``analysis/record/`` declares."""

from __future__ import annotations

from collections.abc import Mapping

from docs.generate.markdown import table
from testbed.analysis import dictionary
from testbed.analysis.record.fields import Field
from testbed.base.docstrings import code

ABOUT = """\
# Data dictionary

This page defines every column of `results.csv` and of the samples, and every field of a trial's JSON. Each report has
the same tables at its end. [Run directory](run-directory.md) lists the files.

Any value may be empty (`null` in JSON) if it is not known or does not apply. In the paths of JSON, `[]` is each entry
of a list, and `*` is any key.
"""


def page() -> str:
    parts = [ABOUT]
    for title, (about, fields) in dictionary.FILES.items():
        parts += [f"## {title}\n\n{about}\n", _table(fields)]
    return "\n".join(parts)


def _table(fields: Mapping[str, Field]) -> str:
    return table(
        ("field", "kind", "unit", "definition"),
        ((code(name), field.kind.name, field.unit, field.meaning) for name, field in fields.items()),
    )
