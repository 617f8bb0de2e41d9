"""Endings of the names of files that commands write, and a check that a name is not that of another format."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from testbed.base.errors import UsageError

ENDINGS = {
    "html": (".html", ".htm"),
    "md": (".md",),
    "latex": (".tex",),
    "svg": (".svg",),
    "json": (".json",),
    "junit": (".xml",),
    "text": (".txt",),
}
"""Endings by format."""
_OTHERS = {".pdf", ".png", ".jpg", ".yaml", ".yml", ".py"}
_KNOWN = {ending for endings in ENDINGS.values() for ending in endings} | _OTHERS


def check_ending(path: Path, form: str, forms: Collection[str] = ()) -> None:
    """Check that a file is not called as one of another format. A name with an ending that is not known may be of any.

    Args:
        forms: the formats that ``--format`` takes in place of ``form``.

    Raises:
        UsageError: it is.
    """
    ending = path.suffix.lower()
    if ending in _KNOWN and ending not in ENDINGS[form]:
        other = next((name for name in forms if ending in ENDINGS[name]), "")
        add = f"add --format {other}, or " if other else ""
        what = f"the format is {form}, and the name ends in {ending}"
        raise UsageError(f"{path}: {what}", fix=f"{add}write {path.with_suffix(ENDINGS[form][0])}")
