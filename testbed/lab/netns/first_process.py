"""Start of the sandbox's process: what it needs of the kernel before it serves requests.

When it ends, the kernel ends every process in its PID namespace and, with the last descriptor closed, frees every
network namespace and all interfaces in them.
"""

from __future__ import annotations

import errno
import os
import select
import traceback
from pathlib import Path
from typing import NoReturn

from testbed.base.errors import PrivilegeError
from testbed.base.urgency import urgent
from testbed.lab.netns.channel import Channel, ChannelClosedError
from testbed.lab.netns.kernel_interface import kernel
from testbed.lab.netns.sandbox import ETC_HOSTS, Sandbox


def main(channel: Channel, alive: int) -> NoReturn:
    """Serve until the channel ends. ``alive`` is a pipe that is open as long as the launcher lives."""
    kernel.die_with_parent()
    if select.select([alive], [], [], 0)[0]:
        os._exit(1)
    status = 1
    try:
        try:
            services = _services()
            _enter_namespaces()
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


def _enter_namespaces() -> None:
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
