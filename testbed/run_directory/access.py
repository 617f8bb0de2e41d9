"""Write access to a run directory: its owner has it, through no link, and one run at a time."""

from __future__ import annotations

import fcntl
import os
import stat
import time
from pathlib import Path
from shlex import quote

from testbed.base.errors import OutputError
from testbed.files.writing import named_errors
from testbed.run_directory.layout import FOLDERS, LOCK
from testbed.trial.files import WORK

MOST_LINKS = 40
"""The most links on the way to a directory, as in the kernel (path_resolution(7))."""
MOMENT_S = 0.3
"""Seconds that a look takes at most, on a busy machine."""


def check_way(path: Path) -> None:
    """Check that nobody else can decide where ``path`` leads, which need not be there: on the way to it are no links of
    strangers, and no folders in which a stranger may put another one in its place.

    Root, this user and, under sudo, the user who called it are no strangers. In a folder such as ``/tmp`` (sticky),
    each user can replace nothing but the user's own.

    Raises:
        OutputError: somebody can.
    """
    links, at, left = MOST_LINKS, Path("/"), list(Path.cwd().joinpath(path).parts[1:])
    while left:
        step = at / left.pop(0)
        if step.name == "..":
            at = at.parent  # no link: those were replaced by where they lead
            continue
        try:
            found = step.lstat()
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            return  # what is not there, we make; what is no folder or closed to us is told when it is opened
        is_link = stat.S_ISLNK(found.st_mode)
        if found.st_uid not in _trusted():
            what = "is a symbolic link of" if is_link else "belongs to"
            raise _astray(path, f"{step} {what} another user (uid {found.st_uid})")
        if is_link:
            links -= 1
            if links < 0:
                return  # the kernel refuses it, too
            target = step.readlink()
            at, left = Path("/") if target.is_absolute() else at, [*target.parts[target.is_absolute() :], *left]
            continue
        if left and _is_open_to_others(found):
            raise _astray(path, f"other users may write to {step}")
        at = step


def _trusted() -> set[int]:
    """Users who may do with our files whatever they like."""
    caller = os.environ.get("SUDO_UID", "")
    return {0, os.geteuid(), *([int(caller)] if os.geteuid() == 0 and caller.isdigit() else [])}


def _is_open_to_others(folder: os.stat_result) -> bool:
    """Whether users whom we do not know may replace what is in a folder. A group of the user's own is no stranger: many
    systems give each user one."""
    if folder.st_mode & stat.S_ISVTX:
        return False
    of_group = folder.st_mode & stat.S_IWGRP and folder.st_gid not in (0, os.getegid(), folder.st_uid)
    return bool(folder.st_mode & stat.S_IWOTH or of_group)


def _astray(path: Path, why: str) -> OutputError:
    return OutputError(
        f"{path}: {why}, and could have the run written elsewhere",
        fix="name a directory below one that only you can write to: --out ~/runs/NAME",
    )


def check_ours(path: Path, folder: int) -> None:
    """Check that nobody else can decide where what we write goes: ``folder`` and what leads to our files are this
    user's own, and no links.

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
                f"{path / name}: is a symbolic link, and links are not followed there",
                fix=f"copy the run with what it names, if you trust it: cp -rL {quote(str(path))} COPY",
            )
        kind, word = (stat.S_ISREG, "file") if name == LOCK else (stat.S_ISDIR, "directory")
        if not kind(found.st_mode):
            raise OutputError(f"{path / name}: is no {word}", fix=f"name a new directory, or remove {path / name}")
        if found.st_uid != os.geteuid():
            raise OutputError(f"{path / name}: belongs to another user (uid {found.st_uid})", fix=fix)


def lock_exclusively(path: Path, folder: int) -> int:
    """Lock ``path`` for this run; return the descriptor that keeps every other run out. Only its owner can open the
    file, so that nobody else can keep us out.

    Raises:
        OutputError: another run writes there, or the file system knows no locks.
    """
    with named_errors(path):
        lock = os.open(LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder)
        try:
            os.fchmod(lock, 0o600)  # those of earlier versions could be opened by everybody
            _lock_soon(lock)
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


def _lock_soon(lock: int) -> None:
    """Lock exclusively. A process that looks whether a run goes on has the lock for a moment; a run has it for long.

    Raises:
        BlockingIOError: somebody has it for longer than :data:`MOMENT_S`.
    """
    end_s = time.monotonic() + MOMENT_S
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > end_s:
                raise
        time.sleep(MOMENT_S / 10)


def _holder(lock: int) -> str:
    """Read `` (process 1234)``, as the run that holds a lock has written into it; empty if it has not."""
    told = os.pread(lock, 20, 0).strip()
    return f" (process {told.decode()})" if told.isdigit() else ""


def check_idle(path: Path) -> None:
    """
    Raises:
        OutputError: a run is writing into the directory; or only its owner can see whether one is.
    """
    holder = _writing(path)
    if holder is not None:
        raise OutputError(f"{path}: a run is writing into it{holder}", fix="wait for its end, or end it")


def is_idle(path: Path) -> bool:
    """Whether no run is writing into the directory.

    Raises:
        OutputError: only its owner can see that.
    """
    return _writing(path) is None


def _writing(path: Path) -> str | None:
    """Find the process (:func:`_holder`) that is writing into a directory, None if none is.

    Raises:
        OutputError: only its owner can see that.
    """
    try:
        lock = os.open(path / LOCK, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
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
            return _holder(lock)
        finally:
            os.close(lock)
    return None
