"""The address space that this process may have: ``ulimit -v``. With too little of it libraries end the process by
themselves, or fail somewhere in their imports."""

from __future__ import annotations

import resource

from testbed.base.errors import MemoryLimitError

LEAST_BYTES = 512 * 2**20
"""Bytes that a command needs that runs no trial: with 120 MB OpenBLAS ends the process, on two cores."""
NO_MORE = ("cannot allocate memory", "failed to map segment", "can't start new thread")
"""Words of the C library, the dynamic linker and Python for a lack of memory."""


def check() -> None:
    """
    Raises:
        MemoryLimitError: less is allowed than any command needs.
    """
    allowed, most = resource.getrlimit(resource.RLIMIT_AS)
    if allowed == resource.RLIM_INFINITY or allowed >= LEAST_BYTES:
        return
    higher = most == resource.RLIM_INFINITY or most >= LEAST_BYTES
    raise MemoryLimitError(
        f"this process may have {allowed // 2**20} MiB of address space (ulimit -v), testbed needs "
        f"{LEAST_BYTES // 2**20} MiB",
        fix=f"ulimit -v {LEAST_BYTES // 2**10}"
        if higher
        else "have the hard limit raised (as in /etc/security/limits.conf)",
    )


def is_lack(error: BaseException) -> bool:
    """Whether an error says that the kernel gave no more memory."""
    first = _first(error)
    return isinstance(first, MemoryError) or any(words in str(first).lower() for words in NO_MORE)


def too_little(error: BaseException) -> MemoryLimitError:
    """Make our error for one of which :func:`is_lack` is true."""
    allowed, _ = resource.getrlimit(resource.RLIMIT_AS)
    limit = "" if allowed == resource.RLIM_INFINITY else f" (ulimit -v allows {allowed // 2**20} MiB)"
    return MemoryLimitError(
        f"the kernel gave this process no more memory{limit}: {str(_first(error)) or 'out of memory'}",
        fix="raise the limit, as with ulimit -v unlimited, or end other programs",
    )


def _first(error: BaseException) -> BaseException:
    """Find the error for which another was raised, such as the linker's for numpy's page of advice."""
    return _first(error.__cause__) if error.__cause__ else error
