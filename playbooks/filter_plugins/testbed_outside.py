"""Ansible filter: which of the paths that a host names are not those of files below a folder."""

from __future__ import annotations

import os


def outside(paths, folder):
    """Those that are not; a line each, cut short."""
    return [repr(str(path))[:200] for path in paths if not _is_below(path, folder)]


def _is_below(path, folder):
    if not isinstance(path, str) or not path.isprintable():
        return False
    relative = os.path.relpath(os.path.normpath(path), os.path.normpath(folder))
    return path.startswith("/") and relative not in (os.curdir, os.pardir) and not relative.startswith("../")


class FilterModule:
    def filters(self):
        return {"testbed_outside": outside}
