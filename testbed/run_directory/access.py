"""Write access to a run directory: its owner has it, through no link, and one run at a time."""

from __future__ import annotations

import fcntl
import os
import stat
from pathlib import Path
from shlex import quote

from testbed.base.errors import OutputError
from testbed.files.writing import named_errors
from testbed.run_directory.layout import FOLDERS, LOCK, WORK


def check_ours(path: Path, folder: int) -> None:
    """Whether nobody else can decide where what we write goes: ``folder`` and what leads to our files are this user's
    own, and no links.

    Raises:
        OutputError: they are not.
    """
    fix = f"name a new directory; or go on with a copy: cp -r {path} COPY"
    if (owner := os.fstat(folder).st_uid) != os.geteuid():
        raise OutputError(f"{path}: belongs to another user (uid {owner})", fix=fix)
    for name in (LOCK, WORK, *FOLDERS):
        try:
            found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            continue
        if stat.S_ISLNK(found.st_mode):
            raise OutputError(
                f"{path / name}: is a link, and none is followed there",
                fix=f"copy the run with what it names, if you trust it: cp -rL {quote(str(path))} COPY",
            )
        kind, word = (stat.S_ISREG, "file") if name == LOCK else (stat.S_ISDIR, "directory")
        if not kind(found.st_mode):
            raise OutputError(f"{path / name}: is no {word}", fix=f"name a new directory, or remove {path / name}")
        if found.st_uid != os.geteuid():
            raise OutputError(f"{path / name}: belongs to another user (uid {found.st_uid})", fix=fix)


def lock_exclusively(path: Path, folder: int) -> int:
    """A descriptor that keeps every other run out of ``path``. Only its owner can open the file, so that nobody else
    can keep us out.

    Raises:
        OutputError: another run writes there, or the file system knows no locks.
    """
    with named_errors(path):
        lock = os.open(LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder)
        try:
            os.fchmod(lock, 0o600)  # those of earlier versions could be opened by everybody
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = _holder(lock)
            os.close(lock)
            raise OutputError(
                f"{path}: another run is writing into it{holder}",
                fix="wait for its end, or name another directory with --out",
            ) from None
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
    return lock


def _holder(lock: int) -> str:
    """`` (process 1234)``, as the run that holds a lock has written into it; empty if it has not."""
    told = os.pread(lock, 20, 0).strip()
    return f" (process {told.decode()})" if told.isdigit() else ""


def check_idle(path: Path) -> None:
    """
    Raises:
        OutputError: a run is writing into the directory; or only its owner can see whether one is.
    """
    try:
        lock = os.open(path / LOCK, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    except PermissionError:
        raise OutputError(
            f"{path}: only its owner can see whether a run is writing into it",
            fix=f"take a copy, made once the run has ended, without {LOCK}: cp -r {path} COPY",
        ) from None
    except OSError as error:
        raise OutputError(f"{path / LOCK}: {(error.strerror or str(error)).lower()}", fix="remove it") from None
    with named_errors(path):
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OutputError(
                f"{path}: a run is writing into it{_holder(lock)}", fix="wait for its end, or end it"
            ) from None
        finally:
            os.close(lock)
