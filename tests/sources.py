"""Sources of the project that have a certain text: to parse all of them takes seconds."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path


def parsed(paths: Iterable[Path], like: str) -> Iterator[tuple[Path, ast.Module]]:
    """Yield those of the files in which the pattern is found, and their syntax trees."""
    pattern = re.compile(like)
    for path in paths:
        if pattern.search(text := path.read_text()):
            yield path, ast.parse(text)
