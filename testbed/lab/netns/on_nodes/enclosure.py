"""Enclosures of workers: what a worker sees of the machine, and what it may do there.

Problem: a worker runs whatever a spec names, in a lab that root may have made. As root it could change the machine's
files, disks, kernel settings and interfaces, and end other nodes' workers. Chosen: each node on which workers run has a
first process, in namespaces of its own (mounts, processes, IPC, host name), which workers join. There

- every file is read-only, but for the folder that is the worker's own, and one that all nodes of a program share;
- /tmp, /var/tmp, /run and /dev/shm are the node's own and empty; sockets elsewhere, on which services of the machine
  listened when the lab began, are hidden;
- /dev has no disks, /sys shows the node's own interfaces, and /proc the node's own processes; of ``/proc/sys`` only
  ``net`` can be written;
- folders that a command may change are copied on write: what it writes there is gone with the lab, and can be read
  before (:attr:`Enclosure.written`).

A worker keeps the capabilities that it needs for its own files and sockets (:data:`KEPT`), and can gain no others. It
has no keys of the user's (:func:`testbed.lab.netns.kernel_interface.kernel.hide_keys`). It can still read what the user
who runs the lab can read.

Rejected: a user of its own for each node, which a lab without root cannot have, and which could not read a spec in
root's home; Landlock, which knows no signals before Linux 6.12; a file system of its own, which the lab ``docker`` has.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import traceback
from collections.abc import Collection, Iterable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from testbed.base.errors import LabError
from testbed.base.python import PACKAGE
from testbed.lab.netns.kernel_interface import kernel
from testbed.lab.netns.on_nodes import mounts
from testbed.lab.netns.on_nodes.calls import Calls
from testbed.lab.netns.on_nodes.mounts import Held

NAMESPACES = kernel.CLONE_NEWNS | kernel.CLONE_NEWUTS | kernel.CLONE_NEWIPC
KEPT = (
    *(kernel.CAP_CHOWN, kernel.CAP_DAC_OVERRIDE, kernel.CAP_FOWNER, kernel.CAP_KILL, kernel.CAP_SETGID),
    *(kernel.CAP_SETUID, kernel.CAP_NET_BIND_SERVICE, kernel.CAP_NET_RAW),
)
"""Capabilities that a worker keeps: of those that Docker gives its containers, the ones that programs use."""
EMPTY = ("/tmp", "/var/tmp", "/run")
"""Folders that are the node's own; on the machine, services have their sockets there."""
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
ACCELERATORS = ("nvidia*", "dri", "kfd")
"""Devices that a worker computes with, where there are any."""
LINKS = {"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2", "ptmx": "pts/ptmx"}
READ_ONLY = ("sys", "sysrq-trigger", "irq", "bus", "fs", "acpi", "scsi")
"""Names below /proc that are read-only, for they change the machine."""
HIDDEN = ("kcore", "keys", "timer_list", "sched_debug")
"""Names below /proc that are hidden, for they tell of others."""
AGENT = "/run/testbed-agent"
"""Path of the socket through which programs start others on other hosts, in trials that need one."""
SAFE = kernel.MS_NOSUID | kernel.MS_NODEV
READY = b"+"
MOST_COPIES = 8
MOST_SAID_BYTES = 4096
FURNISH_S = 10.0
"""Seconds that making an enclosure may take. It takes milliseconds, unless a file system does not answer."""


@dataclass(frozen=True)
class View:
    """View that the workers of a node have of the machine.

    Attributes:
        work: the folder that they may read.
        writable: the folders in it that they may write to.
        copies: folders of which they get copies on write.
        hidden: sockets of the machine's services, which a read-only file system would let them connect to.
        agent: whether they may start programs on other hosts.
    """

    work: Path | None = None
    writable: tuple[Path, ...] = ()
    copies: tuple[Path, ...] = ()
    hidden: tuple[Path, ...] = ()
    agent: bool = False


class Enclosure:
    """A node's first process and the namespaces that it keeps, ``namespace`` being the node's network.

    The process makes what the others see once this is there, and :meth:`wait` waits for it: so those of many nodes work
    at the same time.
    """

    line: socket.socket | None = None
    """Socket that brings the calls of its programs (:func:`testbed.lab.netns.on_nodes.calls.take`), if the view lets
    them call."""
    _root: int | None = None
    written: tuple[int, ...] = ()
    """Open folders of what its programs wrote into the view's copies, in their order."""

    def __init__(self, name: str, namespace: int, view: View) -> None:
        """Raises OSError: the kernel has no process for it."""
        self._name, self._calls = name, view.agent
        with ExitStack() as undo:
            self._outside = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
            undo.callback(os.close, self._outside)
            self._said, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            undo.callback(self._said.close)
            with theirs:
                kernel.unshare(kernel.CLONE_NEWPID)
                self.pid = self._fork()
                if self.pid == 0:
                    _first_process(name, namespace, view, theirs)
                undo.callback(os.kill, self.pid, signal.SIGKILL)
            self._there = os.pidfd_open(self.pid)
            undo.pop_all()

    def wait(self) -> None:
        """Return once the first process has made all that the others see. Raises LabError: the kernel refuses
        something, which is named, or it takes too long."""
        self.written = _await(self._name, self._said)
        self._root = os.open(f"/proc/{self.pid}/root", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        if self._calls:
            self.line = self._said
        else:
            self._said.close()

    def fork(self) -> int:
        """Fork, as :func:`os.fork`, a child that is among the node's processes; it has to :meth:`enter` the rest.
        Raises LabError: the first process has ended, so the kernel has no place for others."""
        try:
            kernel.setns(self._there, kernel.CLONE_NEWPID)
            return self._fork()
        except OSError as error:
            raise LabError(
                f"no process can start on {self._name}: {error.strerror}", fix="see who ended the node's first process"
            ) from error

    def _fork(self) -> int:
        """Fork into the node's process namespace; later children are outside again."""
        pid = -1
        try:
            pid = os.fork()
        finally:
            if pid:
                kernel.setns(self._outside, kernel.CLONE_NEWPID)
        return pid

    def enter(self) -> None:
        """Enter the node for good. Close what must not be there, such as open files of the lab, before you drop
        capabilities: without them, others on the node may look into this process."""
        folder = Path.cwd()
        kernel.setns(self._there, NAMESPACES | kernel.CLONE_NEWNET)
        assert self._root is not None  # it was waited for
        os.fchdir(self._root)
        os.chroot(".")  # the lab may be in a chroot, which the kernel leaves at setns
        with suppress(OSError):  # of a folder that is hidden here
            os.chdir(folder)

    def end(self) -> None:
        """End the first process, and with it the kernel ends all others on the node."""
        with suppress(ProcessLookupError):  # it has ended
            signal.pidfd_send_signal(self._there, signal.SIGKILL)

    def close(self) -> None:
        """Let go of what is needed to enter."""
        for fd in (self._outside, self._there, self._root, *self.written):
            if fd is not None:
                os.close(fd)
        self._said.close()


def _await(name: str, line: socket.socket) -> tuple[int, ...]:
    """Wait until a first process has made all that the others see; return the open folders that it sends. Raises
    LabError: it could not, or takes too long."""
    line.settimeout(FURNISH_S)
    folders: list[int] = []
    try:
        said, folders, _, _ = socket.recv_fds(line, MOST_SAID_BYTES, MOST_COPIES, socket.MSG_CMSG_CLOEXEC)
    except TimeoutError:
        said = f"it took longer than {FURNISH_S:g} s".encode()
    if said != READY:
        raise LabError(
            f"{name}: its workers cannot be kept apart from the machine: {said.decode(errors='replace')}",
            fix="see what testbed doctor says of enclosures",
        )
    line.setblocking(False)
    return tuple(folders)


def _first_process(name: str, namespace: int, view: View, line: socket.socket) -> NoReturn:
    """Run a node's first process: make what the others see, say so, and take their calls until the end."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps orphans
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # of which a first process is spared
    try:
        kernel.setns(namespace, kernel.CLONE_NEWNET)
        kernel.unshare(NAMESPACES)
        kernel.sethostname(name)
        written = furnish(view)
        kernel.hide_keys()  # whether the kernel can; it must for all workers
        calls = [_listen()] if view.agent else []
        _close_all_but({line.fileno(), *written, *(one.fileno() for one in calls)})
        socket.send_fds(line, [READY], written)
        for fd in written:
            os.close(fd)
    except BaseException as error:
        with suppress(OSError):
            line.send(f"{error!s:.1000}".encode())
        os._exit(1)
    try:
        for listening in calls:
            Calls(listening, line).serve()
        while not calls:
            signal.pause()
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(1)


def _listen() -> socket.socket:
    """Make a socket that listens at :data:`AGENT`."""
    found = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    found.setblocking(False)
    found.bind(AGENT)
    found.listen()
    return found


def _close_all_but(kept: Collection[int]) -> None:
    """Close all files above standard error but these."""
    first = 3
    for fd in (*sorted(kept), os.sysconf("SC_OPEN_MAX")):
        os.closerange(first, fd)
        first = fd + 1


def furnish(view: View) -> list[int]:
    """Change the calling process's mount namespace to what a worker sees; return the open folders of what is written
    into the copies. Raises OSError, which names what was refused."""
    emptied = _emptied()
    shown = Held(_needed_in(emptied))
    work = Held([*([] if view.work is None else [view.work]), *view.writable])
    copied = [mounts.Copy(folder) for folder in view.copies]
    devices = Held([path for name in (*DEVICES, *ACCELERATORS) for path in sorted(Path("/dev").glob(name))])
    kernel.restrict_mounts("/", kernel.MS_RDONLY | kernel.MS_NODEV)
    _mount_proc()
    _mount_sys()
    _mount_dev(devices)
    for folder in emptied:
        folder.mkdir(parents=True, exist_ok=True)  # it may be in one that was emptied just now
        mounts.tmpfs(str(folder), 0o1777)
    shown.put_back()
    written = [one.mount() for one in copied]
    for address in view.hidden:
        if address.is_socket():
            kernel.mount("/dev/null", str(address), "", kernel.MS_BIND)
    work.put_back()  # above the copies, for runs are often in a folder beside the spec
    for folder in view.writable:
        mounts.remount(str(folder), SAFE)
    return written


def _needed() -> Iterable[Path]:
    """Folders that must be readable wherever they are: Python with all that it imports from, programs, and the folder
    that we are in. A user who is not root may not reach some of them."""
    python = [Path(one) for one in (sys.prefix, sys.base_prefix, *sys.path) if one]
    programs = [Path(one) for one in os.get_exec_path() if Path(one).is_absolute()]
    found = {*python, *programs, PACKAGE.parent, Path.cwd()}
    return sorted(one for one in found if os.path.isdir(one))  # noqa: PTH112 - False of what is out of reach


def _emptied() -> list[Path]:
    """Real paths of the folders of :data:`EMPTY`: on some machines, some are links. Outer ones come first."""
    return sorted({Path(folder).resolve() for folder in EMPTY if Path(folder).is_dir()})


def _needed_in(emptied: Iterable[Path]) -> list[Path]:
    """Needed folders that would be gone with the emptied ones, by each name that they have."""
    folders = {*emptied, *map(Path, EMPTY)}
    names = {path for one in _needed() for path in (one, one.resolve())}
    return sorted(path for path in names if folders.intersection(path.parents))


def _mount_proc() -> None:
    kernel.mount("proc", "/proc", "proc", SAFE | kernel.MS_NOEXEC)
    for name in READ_ONLY:
        if Path(f"/proc/{name}").exists():
            mounts.bind(f"/proc/{name}", SAFE | kernel.MS_NOEXEC | kernel.MS_RDONLY)
    mounts.bind("/proc/sys/net", SAFE | kernel.MS_NOEXEC)
    for name in HIDDEN:
        if Path(f"/proc/{name}").exists():
            kernel.mount("/dev/null", f"/proc/{name}", "", kernel.MS_BIND)


def _mount_sys() -> None:
    """Mount /sys with the node's interfaces; with nothing, where the kernel keeps them from a user who is not root."""
    flags = SAFE | kernel.MS_NOEXEC | kernel.MS_RDONLY
    try:
        kernel.mount("sysfs", "/sys", "sysfs", flags)
    except PermissionError:
        kernel.mount("tmpfs", "/sys", "tmpfs", flags)


def _mount_dev(devices: Held) -> None:
    mounts.tmpfs("/dev", 0o755)
    devices.put_back()
    for folder in ("/dev/pts", "/dev/shm"):
        Path(folder).mkdir()
    kernel.mount("devpts", "/dev/pts", "devpts", kernel.MS_NOSUID | kernel.MS_NOEXEC, "newinstance,ptmxmode=0666")
    mounts.tmpfs("/dev/shm", 0o1777)
    for name, target in LINKS.items():
        Path("/dev", name).symlink_to(target)
    for path in devices.paths:
        mounts.remount(str(path), kernel.MS_NOSUID | kernel.MS_NOEXEC)
    mounts.remount("/dev", kernel.MS_NOSUID | kernel.MS_NOEXEC | kernel.MS_RDONLY)
