"""Copies on write of folders in containers, which see them read-only otherwise.

Usage: ``python -P -m testbed.lab.docker.copies SOCKET FOLDER...``

A process of its own, for it enters containers' namespaces. Over the socket it is sent, for each container, a byte with
its PID and mount namespaces, and answers with the open folders of what is written into the copies, or with what went
wrong. A container that mounts nothing itself needs no privilege for this.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from testbed.base.errors import LabError
from testbed.base.python import module_command, search_path
from testbed.lab.docker.container import Container
from testbed.lab.netns.kernel_interface import kernel
from testbed.lab.netns.on_nodes.enclosure import MOST_COPIES, MOST_SAID_BYTES, READY
from testbed.lab.netns.on_nodes.mounts import Copy

MODULE = "testbed.lab.docker.copies"
TIMEOUT_S = 30.0
"""Seconds that Python and a container's mounts may take."""


def mounted(containers: Sequence[Container], folders: Sequence[Path]) -> list[tuple[int, ...]]:
    """Mount copies of ``folders`` in containers; return, by container, the open folders of what is written there.
    Raises LabError: the kernel refuses, or a container is not to be seen from here."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.settimeout(TIMEOUT_S)
    with ours:
        with theirs:
            process = subprocess.Popen(
                module_command(MODULE, str(theirs.fileno()), *map(str, folders)),
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(search_path())},
            )
        found: list[tuple[int, ...]] = []
        try:
            found.extend(_asked(ours, one, len(folders)) for one in containers)
        except BaseException:
            for fd in [fd for written in found for fd in written]:
                os.close(fd)
            process.kill()
            raise
        finally:
            ours.shutdown(socket.SHUT_RDWR)
            process.wait()
        return found


def _asked(line: socket.socket, container: Container, count: int) -> tuple[int, ...]:
    """Raises LabError: see :func:`mounted`."""
    namespaces = container.namespaces("pid", "mnt")
    try:
        socket.send_fds(line, [READY], namespaces)
        said, folders, _, _ = socket.recv_fds(line, MOST_SAID_BYTES, MOST_COPIES, socket.MSG_CMSG_CLOEXEC)
    except OSError as error:
        said, folders = f"{error!s:.1000}".encode(), []
    finally:
        for fd in namespaces:
            os.close(fd)
    if said != READY or len(folders) != count:
        raise LabError(
            f"{container.node}: its container cannot have a copy of the spec's folder: {said.decode(errors='replace')}",
            fix="see whether the kernel has overlayfs: modprobe overlay, as root",
        )
    return tuple(folders)


def main(arguments: Sequence[str]) -> int:
    line, folders = socket.socket(fileno=int(arguments[0])), [Path(one) for one in arguments[1:]]
    while True:
        said, namespaces, _, _ = socket.recv_fds(line, len(READY), 2, socket.MSG_CMSG_CLOEXEC)
        if not said:
            return 0
        kernel.setns(namespaces[0], kernel.CLONE_NEWPID)  # of the next child, whose /proc is then the container's
        pid = os.fork()
        if pid == 0:
            _mount(line, namespaces[1], folders)
        os.waitpid(pid, 0)
        for fd in namespaces:
            os.close(fd)


def _mount(line: socket.socket, namespace: int, folders: Sequence[Path]) -> NoReturn:
    """Mount the copies in another mount namespace. Nothing may be imported from there."""
    try:
        kernel.setns(namespace, kernel.CLONE_NEWNS)
        socket.send_fds(line, [READY], [Copy(one).mount() for one in folders])
    except BaseException as error:
        line.send(f"{error!s:.1000}".encode())
    finally:
        os._exit(0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
