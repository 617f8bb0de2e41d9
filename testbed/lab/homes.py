"""Homes of ranks: folders of their own that they may write, in place of the caller's.

Problem: programs write into their home. DeepSpeed builds extensions below ``~/.cache``, Triton keeps kernels, and
libraries write settings and locks. Where ranks run, the caller's home cannot be written, or ranks share it. But what
the caller has downloaded is to be read.

Chosen: a new home in the folder for temporary files, which goes with the trial. It has folders where the caller's home
has some, and links to its files. So a file can be read under the same name, and a new one can be written beside it. The
first :data:`MOST_ENTRIES` entries are treated so, those of the upper folders first; a folder below them is a link, to
be read and not written. A link gives no right that its target does not give.

Rejected: the caller's home copied on write, as the spec's directory is, which only two labs can have; a copy of the
caller's caches, which have gigabytes; links to its folders alone, in which nothing can be written.
"""

from __future__ import annotations

import os
import tempfile
from collections import deque
from collections.abc import Mapping, MutableMapping
from contextlib import suppress
from itertools import islice
from pathlib import Path

VARIABLE = "TESTBED_OWN_HOME"
"""Variable in the environment of a program that is to have a home of its own. The program does not see it."""
MOST_ENTRIES = 500
"""Most files and folders that are made in a home, in about 15 ms."""
LOCKS = (".lock", ".pid")
"""Ends of the names of files that whoever finds them wants to write."""
WAITED_FOR = "lock"
"""Name of a file that PyTorch, before it builds an extension, waits to be gone."""
CACHES = frozenset({"TORCH_EXTENSIONS_DIR", "TRITON_CACHE_DIR"})
"""Variables of caches elsewhere. By default these caches are in the home or its ``.cache``."""


def settle(environment: MutableMapping[str, str]) -> None:
    """Make a home for this program, if it is to have one, and name it in its environment. Caches that the caller has
    elsewhere are in it, too. Variables that name other places, such as HF_HOME, stay."""
    if environment.pop(VARIABLE, None) is None:
        return
    theirs = Path("~").expanduser()
    home = Path(tempfile.mkdtemp(prefix="home-"))
    places = {theirs: home, Path(environment.get("XDG_CACHE_HOME") or theirs / ".cache"): home / ".cache"}
    for name in CACHES & environment.keys():
        places[Path(environment[name])] = home / name.lower()
        environment[name] = str(home / name.lower())
    _fill(places)
    if (packages := theirs / ".local").is_dir():
        environment.setdefault("PYTHONUSERBASE", str(packages))
    for folder in places.values():
        folder.mkdir(exist_ok=True)
    environment.update({"HOME": str(home), "XDG_CACHE_HOME": str(home / ".cache")})


def _fill(folders: Mapping[Path, Path]) -> None:
    """Fill new folders with folders and links for what is in others."""
    waiting, left = deque(folders.items()), MOST_ENTRIES
    while waiting:
        source, target = waiting.popleft()
        with suppress(OSError):  # it cannot be read, or is gone
            with os.scandir(source) as found:
                entries = list(islice(found, left + 1))
            if len(entries) > left and source not in folders:
                target.symlink_to(source)
                continue
            target.mkdir(exist_ok=True)
            for entry in entries[:left]:
                path = Path(entry.path)
                if entry.is_dir(follow_symlinks=False) and path not in folders.values():
                    waiting.append((path, target / entry.name))
                elif not entry.name.endswith(LOCKS) and entry.name != WAITED_FOR and path not in folders:
                    (target / entry.name).symlink_to(path)
            left = max(0, left - len(entries))
