"""The process between the caller and the sandbox: makes the PID namespace and ends it when the caller is gone.

Usage: ``python -P -m testbed.lab.netns.launcher CHANNEL_FD PARENT_PID``

A namespace of processes ends when its first process does, so all depends on that one being killed for certain.

- The caller ends, however: this process polls a pidfd of it, and kills the sandbox. (The kernel's own parent-death
  signal will not do here: it fires when the *thread* that started the child ends, and the caller may use threads.)
- This process ends, however: the sandbox has asked the kernel to be killed then. In case that was too late, it looks
  whether a pipe whose other end only this process holds is still open.
- The sandbox ends, however: the kernel ends everything in it, and this process follows.

In addition the sandbox leaves when its channel to the caller is closed.
"""

from __future__ import annotations

import errno
import os
import select
import signal
import socket
import sys
from pathlib import Path

from testbed.base.errors import PrivilegeError
from testbed.lab.netns import first_process
from testbed.lab.netns.channel import Channel
from testbed.lab.netns.kernel_interface import kernel

HOW_TO_ALLOW = (
    "run as root, or allow namespaces to users: sysctl -w user.max_user_namespaces=10000 "
    "(Debian also: kernel.unprivileged_userns_clone=1; Ubuntu: kernel.apparmor_restrict_unprivileged_userns=0)"
)


def main(channel_fd: int, parent_pid: int) -> int:
    try:
        parent = os.pidfd_open(parent_pid)
    except ProcessLookupError:
        return 1
    if os.getppid() != parent_pid:  # it ended before the line above, and the number may be another's now
        return 1
    channel = Channel(socket.socket(fileno=channel_fd))
    alive_read, alive_write = os.pipe()
    try:
        _enter_namespaces()
    except OSError as error:
        why = "the limit user.max_user_namespaces is reached" if error.errno == errno.ENOSPC else str(error)
        channel.send(PrivilegeError(f"the kernel does not let us make namespaces: {why}", fix=HOW_TO_ALLOW))
        return 1
    child = os.fork()
    if child == 0:
        os.close(alive_write)
        os.close(parent)
        first_process.main(channel, alive_read)
    os.close(channel_fd)  # only the sandbox may hold it, or the caller would not see it end
    return _watch(child, parent)


def _enter_namespaces() -> None:
    """Make a PID namespace for the next child; before that a user namespace in which we are root, unless we are."""
    if not kernel.has_capability(kernel.CAP_SYS_ADMIN):
        uid, gid = os.geteuid(), os.getegid()
        kernel.unshare(kernel.CLONE_NEWUSER)
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"0 {uid} 1")
        Path("/proc/self/gid_map").write_text(f"0 {gid} 1")
    kernel.unshare(kernel.CLONE_NEWPID)


def _watch(child: int, parent: int) -> int:
    poll = select.poll()
    poll.register(parent, select.POLLIN)
    poll.register(os.pidfd_open(child), select.POLLIN)
    if any(fd == parent for fd, _ in poll.poll()):
        os.kill(child, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return status if status >= 0 else kernel.SIGNALLED - status


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
