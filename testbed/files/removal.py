"""Removal of what others have left in a folder of ours, whatever it is, without following where it leads."""

from __future__ import annotations

import fcntl
import os
import secrets
import stat
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from testbed.files.writing import names_in, opened_folder

_GET_FLAGS, _SET_FLAGS = 0x80086601, 0x40086602  # FS_IOC_GETFLAGS, FS_IOC_SETFLAGS, see ioctl_iflags(2)
_BARS = 0x10 | 0x20
"""Flags FS_IMMUTABLE_FL and FS_APPEND_FL, with which nothing can be removed."""


def remove(name: str, folder: int) -> None:
    """Remove ``name`` from the folder that is open as ``folder``, with all that is in it; nothing if it is not there.

    Links, FIFOs and devices are removed, and neither followed nor opened. A folder within a folder is moved up before
    it is emptied, so that neither the stack nor the number of open files grows with the depth.

    Raises:
        OSError: the system refuses.
    """
    if not os.access(name, os.F_OK, dir_fd=folder, follow_symlinks=False):
        return
    if not _is_folder(name, folder):
        _insist(os.unlink, name, folder)
        return
    _unbar(name, folder)
    with opened_folder(name, folder) as top:
        while names := names_in(top):
            for one in names:
                _empty_out(one, top)
    _insist(os.rmdir, name, folder)


def _empty_out(name: str, top: int) -> None:
    """Remove one entry of ``top``; the folders that are in it are entries of ``top`` afterwards."""
    if not _is_folder(name, top):
        _insist(os.unlink, name, top)
        return
    _unbar(name, top)
    with opened_folder(name, top) as inner:
        for one in names_in(inner):
            if _is_folder(one, inner):
                _unbar(one, inner)
                os.rename(one, secrets.token_hex(16), src_dir_fd=inner, dst_dir_fd=top)
            else:
                _insist(os.unlink, one, inner)
    os.rmdir(name, dir_fd=top)


def _is_folder(name: str, folder: int) -> bool:
    return stat.S_ISDIR(_mode(name, folder))


def _mode(name: str, folder: int) -> int:
    return os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode


def _insist(act: Callable[..., None], name: str, folder: int) -> None:
    try:
        act(name, dir_fd=folder)
    except PermissionError:
        _unbar(name, folder)
        act(name, dir_fd=folder)


def _unbar(name: str, folder: int) -> None:
    """Take away what keeps a folder or a regular file from being removed, if it is ours to take away."""
    mode = _mode(name, folder)
    if not stat.S_ISDIR(mode) and not stat.S_ISREG(mode):
        return
    # One that its owner may not read can be had so, too; and chmod() follows links.
    place = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    with suppress(PermissionError):  # one that is immutable, which root can open all the same
        Path(f"/proc/self/fd/{place}").chmod(0o700)
    os.close(place)
    with suppress(OSError):  # file systems without such flags; what is still barred is told when it is to go
        _clear_flags(name, folder)


def _clear_flags(name: str, folder: int) -> None:
    file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    try:
        flags = bytearray(8)
        fcntl.ioctl(file, _GET_FLAGS, flags)
        value = int.from_bytes(flags[:4], sys.byteorder)
        if value & _BARS:
            fcntl.ioctl(file, _SET_FLAGS, (value & ~_BARS).to_bytes(8, sys.byteorder))
    finally:
        os.close(file)
