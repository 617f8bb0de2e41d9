"""Names of processes.

A name is unique among the processes of a trial that run at the same time. A node's own process is called like the node
(``h3``). Others on the node have names such as ``h3.daemon``, or ``a/h3`` for the job ``a``.
"""

from __future__ import annotations

import re

from testbed.base.errors import SpecError

LONGEST = 100
PATTERN = r"[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)*"
_NAME = re.compile(PATTERN)


def check_name(name: str) -> None:
    """
    Raises:
        SpecError: no process can be called so.
    """
    if len(name) > LONGEST or not _NAME.fullmatch(name):
        raise SpecError(
            f"a process cannot be called {name!r:.120}; a name has at most {LONGEST} characters: letters, digits, "
            "and . _ - / after the first of each part",
            fix="choose one such as h3.daemon or a/h3",
        )


def file_name(process: str) -> str:
    """Beginning of the names of a process's files. A slash becomes ``+``, which no process's name has: so no name is a
    path, and no two processes have the same file."""
    return process.replace("/", "+")


def in_job(job: str, process: str) -> str:
    """Name within its job of the process whose name in the trial is ``process``."""
    return process.removeprefix(f"{job}/") if job else process


def of_job(job: str, process: str) -> str:
    """Name of a job's process in its trial: ``a/h3`` for the job ``a``; of a job without a name, its own."""
    return f"{job}/{process}" if job else process
