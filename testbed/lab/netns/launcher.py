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
import traceback
from pathlib import Path
from typing import NoReturn

from testbed.base.errors import PrivilegeError
from testbed.base.urgency import urgent
from testbed.lab.netns.channel import Channel, ChannelClosedError
from testbed.lab.netns.kernel_interface import kernel
from testbed.lab.netns.sandbox import ETC_HOSTS, Sandbox

HOW_TO_ALLOW = (
    "run as root, or allow namespaces to users: sysctl -w user.max_user_namespaces=10000 "
    "(Debian also: kernel.unprivileged_userns_clone=1; Ubuntu: kernel.apparmor_restrict_unprivileged_userns=0)"
)


def serve(channel: Channel, alive: int) -> NoReturn:
    """Be the sandbox until the channel ends. ``alive`` is a pipe that is open as long as the launcher lives."""
    kernel.die_with_parent()
    if select.select([alive], [], [], 0)[0]:
        os._exit(1)
    status = 1
    try:
        try:
            services = _services()
            _enter_own()
        except OSError as error:
            channel.send(PrivilegeError(f"the kernel does not let us make the lab: {error}", fix=_how_to_allow(error)))
        else:
            channel.send(None)
            with urgent():
                Sandbox(channel, services).serve()
    except ChannelClosedError:
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def _services() -> tuple[Path, ...]:
    """Sockets with a path in the network namespace that we are in, see unix(7)."""
    lines = Path("/proc/self/net/unix").read_bytes().splitlines()
    paths = (Path(os.fsdecode(fields[7])) for fields in (line.split(maxsplit=7) for line in lines) if len(fields) == 8)
    return tuple(sorted({path for path in paths if path.is_absolute()}))


def _enter_own() -> None:
    """Enter private mounts with a /proc of our own and a writable /etc/hosts; network, IPC and host name of our own."""
    kernel.unshare(kernel.CLONE_NEWNS | kernel.CLONE_NEWNET | kernel.CLONE_NEWIPC | kernel.CLONE_NEWUTS)
    kernel.mount("none", "/", "", kernel.MS_REC | kernel.MS_PRIVATE)
    # The file lives in memory that no path leads to: /proc is only lent as a mount point.
    kernel.mount("tmpfs", "/proc", "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV)
    Path("/proc/hosts").write_text("127.0.0.1 localhost\n")
    kernel.mount("/proc/hosts", ETC_HOSTS, "", kernel.MS_BIND)
    kernel.unmount("/proc")
    kernel.mount("proc", "/proc", "proc", kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC)


def _how_to_allow(error: OSError) -> str:
    if error.errno == errno.ENOENT:
        return f"make the file that is missing, as root: touch {ETC_HOSTS}"
    if error.errno == errno.EINVAL:
        return "a chroot must be a mount point: before entering it, mount --bind DIR DIR"
    return "run as root; in a container, give it the right to mount: docker run --privileged"


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
        serve(channel, alive_read)
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
