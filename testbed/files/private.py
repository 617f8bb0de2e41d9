"""Folders that only this user may enter: where nobody else can put, lock or listen to anything first.

A name in ``/tmp`` or ``/run`` that can be guessed may be taken by another user, as a lock, a pipe or a socket, and
whoever then opens it waits or is deceived. In a folder of one's own, names need not be secret.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from testbed.base.errors import PrivilegeError

ENTER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def enter(path: Path) -> int:
    """Open a folder of ours; the caller closes it.

    Raises:
        FileNotFoundError: it is not there.
        PrivilegeError: it is a link, no folder, another user's, or others may write to it.
    """
    try:
        folder = os.open(path, ENTER)
    except FileNotFoundError:
        raise
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise PrivilegeError(f"{path} is no folder", fix=f"see who made it; then: rm {path}") from None
        raise PrivilegeError(f"{path}: {(error.strerror or str(error)).lower()}", fix="see whose it is") from None
    found = os.fstat(folder)
    if found.st_uid == os.geteuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return folder
    os.close(folder)
    whose = f"belongs to the user {found.st_uid}" if found.st_uid != os.geteuid() else "can be written to by others"
    raise PrivilegeError(
        f"{path} {whose}, and should be only the user {os.geteuid()}'s", fix=f"look what is in it; then: rm -r {path}"
    )


def make(path: Path) -> int:
    """Make a folder of ours if it is not there, close it to others if it was open to them, and open it.

    Raises:
        FileNotFoundError: the folder above is not there, or this one was removed again.
        PrivilegeError: as :func:`enter`; or it may not be made.
    """
    try:
        path.mkdir(mode=0o700)
    except FileExistsError:
        pass
    except PermissionError:
        raise PrivilegeError(f"{path} may not be made by the user {os.geteuid()}", fix="run as root") from None
    folder = enter(path)
    if stat.S_IMODE(os.fstat(folder).st_mode) != 0o700:
        os.fchmod(folder, 0o700)
    return folder


@contextmanager
def locked(path: Path, *, wait: bool) -> Iterator[int]:
    """Make, open and lock a folder of ours, which nobody else has meanwhile; at the end it is removed if it is empty.

    Raises:
        FileNotFoundError: the folder above is not there.
        PrivilegeError: as :func:`make`.
        BlockingIOError: somebody has it, and we are not to ``wait``.
    """
    folder = _lock(path, wait)
    try:
        yield folder
    finally:
        with suppress(OSError):
            path.rmdir()
        os.close(folder)


def _lock(path: Path, wait: bool) -> int:
    while True:
        try:
            folder = make(path)
        except FileNotFoundError:
            if path.parent.is_dir():  # whoever had it has removed it meanwhile
                continue
            raise
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            if _is_there(folder, path):
                return folder
        except BaseException:
            os.close(folder)
            raise
        os.close(folder)  # another one may be there by now


def _is_there(folder: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(folder), path.lstat())
    except FileNotFoundError:
        return False
