"""Content of the files whose digests trials have (:mod:`testbed.trial.inputs`), for those who pack them.

A run directory may be somebody else's, so a file is taken only if its content is what the digest says: nobody can have
a file packed whose content he does not know.
"""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path, PurePosixPath

from testbed.files.foreign import read_bytes
from testbed.trial.inputs import DIGITS

DATA = re.compile(r"(?P<set>.*), samples|corpus (?P<corpus>.*[./].*)")
"""Data of the user's: its values have a digest, and its files have none."""
NO_FILE = re.compile(r".*, initial weights|corpus [^./]*|.* of the package .*")
"""Names of inputs that have a digest, too, and are no files of the spec's folder."""


def checked(folder: Path, name: str, digest: str, most_bytes: int) -> bytes:
    """
    Raises:
        ValueError: the file is not what it was, or where an archive cannot have it. OSError: it cannot be read.
    """
    if not is_inside(name):
        raise ValueError("is outside of the spec's folder")
    content = read_bytes(folder / name, most_bytes, folder)
    if hashlib.sha256(content).hexdigest()[:DIGITS] != digest:
        raise ValueError("was changed since the run")
    return content


def is_inside(name: str) -> bool:
    """Whether a path is written in the one way in which it leads to a file below the folder that it starts from.
    Otherwise a run could name a file several times, with a guess at its content each."""
    path = PurePosixPath(name)
    return name == os.path.normpath(name) != "." and not path.is_absolute() and ".." not in path.parts
