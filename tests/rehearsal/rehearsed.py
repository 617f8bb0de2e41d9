"""Sandbox of rehearsed hosts, from inside: its first process, which makes them, and theirs, which run sshd.

Usage: ``python -P -m tests.rehearsal.rehearsed FOLDER``, in namespaces of its own, with the clone's root in
``PYTHONPATH``; prints the hosts' PIDs.
What to make is in ``FOLDER/rehearsed.json``, see :class:`Layout`.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from testbed.lab.netns.kernel_interface import kernel

CLONE_NEWTIME = 0x80
NETWORK = "192.168.77"
CONTROLLER = f"{NETWORK}.254"
CLOCK_STEP_S = 3600
START_TIMEOUT_S = 30.0
USER, UID = "lab", 1999
"""A user who may log in, and no more."""
SUDOER, SUDOER_UID = "operator", 1998
"""A user who may do everything by sudo, without a password, if the machine has sudo."""
ASKED, ASKED_UID = "student", 1997
"""A user who may do everything by sudo with the password :data:`PASSWORD`."""
PASSWORD = "by the password"
_HASH = "$6$rehearsal$xRpDHWdt/iSgXWpWJkktK2jbT3LdnI0eiXHEFd.SgA3okKC8bAiVRGjYIiqqonUx2SRaipkHrSk4ecVYNU0hl/"
"""Hash of :data:`PASSWORD`, as ``openssl passwd -6`` makes it."""
NO_PASSWORD = "*"
SHELL = "/bin/sh"
LAYOUT = "rehearsed.json"
SSHD = "/usr/sbin/sshd"
SSHD_CONFIG = """\
HostKey /etc/ssh/rehearsal_key
AuthorizedKeysFile /etc/ssh/rehearsal_authorized
PidFile none
UsePAM no
StrictModes no
PasswordAuthentication no
PermitRootLogin prohibit-password
PrintLastLog no
MaxSessions 50
"""


@dataclass(frozen=True)
class Layout:
    """Number of hosts, of training NICs of each, and of racks of neighbours."""

    hosts: int
    nics: int = 1
    racks: int = 1

    def rack(self, host: int) -> int:
        """Number of the rack that a host is in."""
        return host * self.racks // self.hosts


def _ip(batch: str) -> None:
    subprocess.run(["ip", "-batch", "-"], input=batch, text=True, check=True)


def _host(files: Path, folder: Path, number: int, nics: int, ready: int, go: int) -> NoReturn:
    """Run a host's first process: waits for its NICs, makes its files its root, and runs sshd."""
    status = 1
    try:
        name = f"node{number + 1}"
        kernel.sethostname(name)
        for which in ("all", "default"):  # an address is there at once, and not after a search for duplicates
            with suppress(FileNotFoundError):
                Path(f"/proc/sys/net/ipv6/conf/{which}/accept_dad").write_text("0")
        os.write(ready, b"1")
        os.read(go, 1)  # its NICs are there
        lines = ["link set lo up", "link set mgmt0 up", f"address add {NETWORK}.{number + 1}/24 dev mgmt0"]
        _ip("\n".join([*lines, *(f"link set eth{nic + 1} up" for nic in range(nics))]) + "\n")
        os.chroot(_root(files / name, folder))
        os.chdir("/")
        log = os.open("/run/sshd.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        sshd = subprocess.Popen(
            [SSHD, "-D", "-e", "-f", "/etc/ssh/rehearsal_config"], stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
        _await_port(f"{NETWORK}.{number + 1}", 22)
        os.write(ready, b"2")
        os.close(ready)
        while sshd.poll() is None:
            with suppress(ChildProcessError):
                os.wait()  # orphans are ours
        status = 0
    except BaseException as error:
        (folder / f"node{number + 1}.log").write_text(f"{error!r}\n")
    finally:
        os._exit(status)


def _root(place: Path, folder: Path) -> Path:
    """Mount the host's own view of the machine's files."""
    upper, work, root = (place / name for name in ("upper", "work", "root"))
    for path in (upper, work, root):
        path.mkdir(parents=True)
    _mount("-t", "overlay", "overlay", "-o", f"lowerdir=/,upperdir={upper},workdir={work}", str(root))
    _mount("--rbind", "/dev", str(root / "dev"))
    _mount("-t", "proc", "proc", str(root / "proc"))
    _mount("-t", "sysfs", "sysfs", str(root / "sys"))
    for name in ("tmp", "run", "dev/shm"):
        _mount("-t", "tmpfs", "-o", "size=2g,mode=1777", "tmpfs", str(root / name))
    for path in {Path(sys.prefix).resolve(), Path(sys.base_prefix).resolve()} - {Path("/usr")}:
        there = root / path.relative_to("/")
        there.mkdir(parents=True, exist_ok=True)  # it may be in one of those that are in memory
        _mount("--bind", str(path), str(there))
        _mount("-o", "remount,bind,ro", str(there))
        for above in there.parents[:-1]:
            if above.is_relative_to(root):  # users are to find the Python that is in somebody's home here
                above.chmod(above.stat().st_mode | 0o011)
    (root / "run/sshd").mkdir(mode=0o755)
    etc = root / "etc"
    users = (etc / "passwd").read_text()  # root's start-up files are this machine's; some shells read them each time
    (etc / "passwd").write_text(re.sub("^(root:.*:).*", rf"\1{SHELL}", users))
    shutil.copy(folder / "host_key", etc / "ssh/rehearsal_key")
    (etc / "ssh/rehearsal_key").chmod(0o600)
    shutil.copy(folder / "key.pub", etc / "ssh/rehearsal_authorized")
    (etc / "ssh/rehearsal_config").write_text(SSHD_CONFIG)
    for name, uid, password in ((USER, UID, NO_PASSWORD), (SUDOER, SUDOER_UID, NO_PASSWORD), (ASKED, ASKED_UID, _HASH)):
        _add_user(root, name, uid, password)
    if (etc / "sudoers.d").is_dir():
        rules = f"{SUDOER} ALL=(ALL:ALL) NOPASSWD: ALL\n{ASKED} ALL=(ALL:ALL) ALL\n"
        (etc / "sudoers.d/rehearsal").write_text(rules)
        (etc / "sudoers.d/rehearsal").chmod(0o440)
    return root


def _add_user(root: Path, name: str, uid: int, password: str) -> None:
    with (root / "etc/passwd").open("a") as passwd, (root / "etc/shadow").open("a") as shadow:
        passwd.write(f"{name}:x:{uid}:{uid}::/home/{name}:{SHELL}\n")
        shadow.write(f"{name}:{password}:19000:0:99999:7:::\n")
    (root / "home" / name).mkdir(parents=True)
    os.chown(root / "home" / name, uid, uid)


def _mount(*words: str) -> None:
    subprocess.run(["mount", *words], check=True)


def _await_port(address: str, port: int) -> None:
    end = time.monotonic() + START_TIMEOUT_S
    while True:
        try:
            socket.create_connection((address, port), 1).close()
            return
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.02)


def _start_host(files: Path, folder: Path, number: int, nics: int) -> tuple[int, int, int]:
    """Start a host's first process; its PID, the pipe it reports on, and the one it waits on."""
    (ready, tell), (wait, go), (told, say) = os.pipe(), os.pipe(), os.pipe()
    if os.fork() == 0:
        kinds = (
            kernel.CLONE_NEWNET | kernel.CLONE_NEWNS | kernel.CLONE_NEWUTS | kernel.CLONE_NEWIPC | kernel.CLONE_NEWPID
        )
        kernel.unshare(kinds | CLONE_NEWTIME)
        Path("/proc/self/timens_offsets").write_text(f"monotonic {CLOCK_STEP_S * (number + 1)} 0\n")
        child = os.fork()
        if child == 0:
            _host(files, folder, number, nics, tell, wait)
        os.write(say, str(child).encode())
        os._exit(0)  # the child's parent is the sandbox's first process then
    for fd in (tell, wait, say):
        os.close(fd)
    pid = int(os.read(told, 20))
    os.close(told)
    if os.read(ready, 1) != b"1":
        os._exit(1)
    return pid, ready, go


def _sandbox(folder: Path) -> NoReturn:
    layout = Layout(**json.loads((folder / LAYOUT).read_text()))
    files = folder / "files"
    files.mkdir()
    kernel.mount("none", "/", "", kernel.MS_REC | kernel.MS_PRIVATE)
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(files)], check=True)
    _ip(f"link set lo up\nlink add mgmt type bridge\naddress add {CONTROLLER}/24 dev mgmt\nlink set mgmt up\n")
    _training(layout)
    started = [_start_host(files, folder, number, layout.nics) for number in range(layout.hosts)]
    for number, (pid, _, go) in enumerate(started):
        rack = layout.rack(number)
        _ip(
            f"link add m{number} master mgmt type veth peer name mgmt0 netns {pid}\nlink set m{number} up\n"
            + "".join(
                f"link add t{number}-{nic} master training{rack} type veth peer name eth{nic + 1} netns {pid}\n"
                f"link set t{number}-{nic} up\n"
                for nic in range(layout.nics)
            )
        )
        os.write(go, b"1")
    for _, ready, _ in started:
        if os.read(ready, 1) != b"2":
            os._exit(1)
    print(json.dumps([pid for pid, _, _ in started]), flush=True)
    while True:
        try:
            os.wait()
        except ChildProcessError:
            time.sleep(1)


def _training(layout: Layout) -> None:
    """Make a bridge for each rack, and one that joins them."""
    bridges = [f"training{rack}" for rack in range(layout.racks)]
    lines = [f"link add {name} type bridge\nlink set {name} up\n" for name in bridges]
    if layout.racks > 1:
        lines.append("link add spine type bridge\nlink set spine up\n")
        for rack, name in enumerate(bridges):
            lines.append(f"link add up{rack} master {name} type veth peer name down{rack}\n")
            lines.append(f"link set down{rack} master spine\nlink set up{rack} up\nlink set down{rack} up\n")
    _ip("".join(lines))


if __name__ == "__main__":
    _sandbox(Path(sys.argv[1]))
