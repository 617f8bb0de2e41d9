"""Several real SSH hosts on this machine: sshd in namespaces, each with its own network, processes, clock and files.

All of it is inside one sandbox of namespaces that dies with whoever made it, so that nothing is left over, and nothing
of the machine can be touched:

- a bridge for management, at whose end the controller is (``192.168.77.254``), and one for training, which all training
  NICs are in. The latter learns and floods as a real switch does, and is as fast as the machine;
- a host's files are the machine's, read-only below an overlay that only the host writes to, in memory. So every file
  that is written, changed or removed on it is seen;
- a host's ``time.monotonic`` is an hour off its neighbours', as real machines' clocks are anything off.

Needs root, sshd, ``ip`` and ``unshare``, and a kernel with overlayfs and time namespaces.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn

import testbed
from testbed.errors import LabError, MissingToolError, PrivilegeError
from testbed.lab.netns import kernel

CLONE_NEWTIME = 0x80
NETWORK = "192.168.77"
CONTROLLER = f"{NETWORK}.254"
CLOCK_STEP_S = 3600
START_TIMEOUT_S = 30.0
SETTLE_S = 3.0
USER, UID = "lab", 1999
"""A user who may log in, and no more: there is no sudo for him."""
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
NOT_OURS = ("var/log/",)
"""Files that sshd itself writes."""
Snapshot = dict[str, Any]


def require() -> None:
    """
    Raises:
        PrivilegeError, MissingToolError: this machine cannot have such hosts.
    """
    if os.geteuid() != 0:
        raise PrivilegeError("rehearsed hosts need root, for sshd and overlayfs do", fix="run as root")
    for name, package in (
        (SSHD, "openssh-server"),
        ("ip", "iproute2"),
        ("unshare", "util-linux"),
        ("ssh", "openssh-client"),
    ):
        if shutil.which(name, path=os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])) is None:
            raise MissingToolError(f"rehearsed hosts need {name}", fix=f"apt-get install {package}")


class Rehearsal:
    """Hosts named ``node1``, ``node2``, ... until :meth:`close`, or the end of this process.

    Args:
        folder: an empty directory, for keys, the inventory and the hosts' own files.
        hosts, nics: how many hosts, and how many training NICs (``eth1``, ...) each has.

    Raises:
        PrivilegeError, MissingToolError: this machine cannot have such hosts.
        LabError: they did not start.
    """

    def __init__(self, folder: Path, hosts: int, nics: int = 1) -> None:
        require()
        self.folder, self.names = folder, [f"node{i + 1}" for i in range(hosts)]
        self._nics = [f"eth{i + 1}" for i in range(nics)]
        _make_keys(folder)
        self.inventory = folder / "inventory.yml"
        self.write_inventory()
        inside = [sys.executable, "-P", "-m", "testbed.lab.baremetal.rehearsal", str(folder), str(hosts), str(nics)]
        sandbox = [
            "unshare",
            "--kill-child=KILL",
            "--fork",
            "--pid",
            "--mount",
            "--net",
            "--uts",
            "--ipc",
            "--mount-proc",
        ]
        self._process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", *sandbox, *inside],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": str(Path(testbed.__file__).parents[1])},
        )
        assert self._process.stdout
        line = self._process.stdout.readline()
        if not line:
            self._process.wait()
            raise LabError("the rehearsed hosts did not start", fix=f"read {folder}/*.log")
        self._pids: list[int] = json.loads(line)
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text()
        self._sandbox_pid = int(children.split()[0])

    def write_inventory(
        self, change: Callable[[dict[str, Any]], object] = lambda _: None, *, outside: bool = False
    ) -> Path:
        """Write the inventory, its hosts' variables changed by ``change`` first; ``outside`` makes it one for a
        controller that is not in the sandbox."""
        nics = [{"name": name} for name in self._nics]
        hosts = {name: {"ansible_host": f"{NETWORK}.{i + 1}", "nics": nics} for i, name in enumerate(self.names)}
        variables = {
            "ansible_user": "root",
            "ansible_ssh_private_key_file": str(self.folder / "key"),
            "ansible_ssh_common_args": f"-o UserKnownHostsFile={self.folder}/known_hosts",
            "ansible_python_interpreter": str(Path(sys.executable).resolve()),
            "testbed_packages_from": str(
                Path(sys.prefix).resolve() / f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
            ),
        }
        if outside:
            (self.folder / "proxy").write_text(_PROXY.format(pid=self._sandbox_pid))
            variables["ansible_ssh_common_args"] += f" -o ProxyCommand='sh {self.folder}/proxy %h %p'"
        hosts = json.loads(json.dumps(hosts))  # no host is to share another's list
        change(hosts)
        self.inventory.write_text(json.dumps({"all": {"vars": variables, "hosts": hosts}}, indent=2) + "\n")
        return self.inventory

    def command(self, words: Sequence[str]) -> list[str]:
        """A command as it is called where the controller is: on this machine's files, in the sandbox's network, and in
        the directory in which this process is."""
        spaces = ("--net", "--pid", "--mount", "--ipc", "--uts")
        return ["nsenter", f"--target={self._sandbox_pid}", *spaces, "env", f"--chdir={Path.cwd()}", *words]

    def on(self, host: int, words: Sequence[str]) -> list[str]:
        """A command as it is called on a host, without SSH."""
        inner = ["nsenter", f"--target={self._pids[host]}", "--all", "--root", "--", *words]
        return self.command(inner)

    def run(self, words: Sequence[str], **options: Any) -> subprocess.CompletedProcess[str]:
        """Run :meth:`command` to its end."""
        return subprocess.run(self.command(words), text=True, capture_output=True, **options)

    def testbed(self, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
        """Run the command line where the controller is."""
        return self.run([sys.executable, "-m", "testbed", *arguments], **options)

    def snapshot(self, host: int) -> Snapshot:
        """Everything about a host that a lab could change: network, settings, files, processes."""
        said = {
            name: subprocess.run(self.on(host, words), text=True, capture_output=True, check=True).stdout
            for name, words in _LOOKS.items()
        }
        network = {name: _steady(json.loads(said[name] or "[]")) for name in ("interfaces", "routes", "neighbours")}
        return {
            **network,
            "qdiscs": sorted(said["qdiscs"].splitlines()),
            "sysctls": sorted(said["sysctls"].splitlines()),
            "processes": sorted(line for line in said["processes"].splitlines() if not line.startswith("ps ")),
            "files in memory": sorted(said["files"].splitlines()),
            "files": self._written(host),
        }

    def differs(self, host: int, before: Snapshot) -> list[str]:
        """What is otherwise than in an earlier snapshot, for a reader; what is just ending has a moment to do so."""
        end = time.monotonic() + SETTLE_S
        while found := differences(before, self.snapshot(host)):
            if time.monotonic() > end:
                break
            time.sleep(0.2)
        return found

    def _written(self, host: int) -> dict[str, str]:
        """Every file that is otherwise than the machine's, by path: what it is, and a digest of its content."""
        files = str(self.folder / "files" / self.names[host])
        code = f"from testbed.lab.baremetal.rehearsal import written; written({files!r})"
        found: dict[str, str] = json.loads(self.run([sys.executable, "-c", code], check=True).stdout)
        return found

    def close(self) -> None:
        """End the hosts, and all that runs on them."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        assert self._process.stdout
        self._process.stdout.close()

    def __enter__(self) -> Rehearsal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


_PROXY = """\
exec nsenter --target={pid} --net -- bash -c 'exec 3<>/dev/tcp/$0/$1; cat <&3 & exec cat >&3' "$1" "$2"
"""
"""Carries an SSH connection into the sandbox's network."""
_LOOKS = {
    "interfaces": ["ip", "-json", "address"],
    "routes": ["ip", "-json", "route", "show", "table", "all"],
    "neighbours": ["ip", "-json", "neigh", "show", "nud", "permanent"],
    "qdiscs": ["tc", "qdisc"],
    "sysctls": ["sh", "-c", "grep -rs . /proc/sys/net/ipv4/conf /proc/sys/net/ipv4/tcp_* /proc/sys/net/core"],
    "processes": ["ps", "-e", "-o", "args="],
    "files": ["find", "/run", "/tmp", "/dev/shm"],
}


def _steady(found: Any) -> Any:
    """Without what changes by itself."""
    if isinstance(found, list):
        return [_steady(one) for one in found]
    if isinstance(found, dict):
        return {
            key: _steady(one) for key, one in found.items() if key not in ("valid_life_time", "preferred_life_time")
        }
    return found


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """What is otherwise in the second of two snapshots, for a reader."""
    found = []
    for name, was in before.items():
        now = after[name]
        if was != now:
            old, new = (
                {json.dumps(one) for one in (value.items() if isinstance(value, dict) else value)}
                for value in (was, now)
            )
            found += [f"{name}: gone: {one}" for one in sorted(old - new)] + [
                f"{name}: new: {one}" for one in sorted(new - old)
            ]
    return found


def _make_keys(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("key", "host_key"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True)
    public = (folder / "host_key.pub").read_text().rsplit(" ", 1)[0]
    (folder / "known_hosts").write_text(f"{NETWORK}.* {public}\n")


# What runs in the sandbox, as its first process.


def written(files: str) -> None:
    """Print what :meth:`Rehearsal._written` wants."""
    root, found = Path(files) / "upper", {}
    for path in sorted(root.rglob("*")):
        name, status = path.relative_to(root).as_posix(), path.lstat()
        if name.startswith(NOT_OURS) or _is_machines(Path("/", name), status):
            continue
        digest = hashlib.sha256(path.read_bytes()).hexdigest()[:16] if stat.S_ISREG(status.st_mode) else ""
        found[name] = f"{stat.filemode(status.st_mode)} {digest}"
    print(json.dumps(found))


def _is_machines(path: Path, status: os.stat_result) -> bool:
    """Whether a directory is the machine's, which an overlay copies up when something in it is written."""
    return stat.S_ISDIR(status.st_mode) and path.is_dir() and path.lstat().st_mode == status.st_mode


def _ip(batch: str) -> None:
    subprocess.run(["ip", "-batch", "-"], input=batch, text=True, check=True)


def _host(files: Path, folder: Path, number: int, nics: int, ready: int, go: int) -> NoReturn:
    """A host's first process: waits for its NICs, makes its files its root, and runs sshd."""
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
    """The host's own view of the machine's files."""
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
    (root / "run/sshd").mkdir(mode=0o755)
    etc = root / "etc"
    shutil.copy(folder / "host_key", etc / "ssh/rehearsal_key")
    (etc / "ssh/rehearsal_key").chmod(0o600)
    shutil.copy(folder / "key.pub", etc / "ssh/rehearsal_authorized")
    (etc / "ssh/rehearsal_config").write_text(SSHD_CONFIG)
    with (etc / "passwd").open("a") as passwd, (etc / "shadow").open("a") as shadow:
        passwd.write(f"{USER}:x:{UID}:{UID}::/home/{USER}:/bin/sh\n")
        shadow.write(f"{USER}:*:19000:0:99999:7:::\n")
    (root / "home" / USER).mkdir(parents=True)
    os.chown(root / "home" / USER, UID, UID)
    return root


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
    """PID of a host's first process, the pipe it reports on, and the one it waits on."""
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


def _sandbox(folder: Path, hosts: int, nics: int) -> NoReturn:
    files = folder / "files"
    files.mkdir()
    kernel.mount("none", "/", "", kernel.MS_REC | kernel.MS_PRIVATE)
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(files)], check=True)
    _ip(
        "link set lo up\nlink add mgmt type bridge\nlink add training type bridge\n"
        f"address add {CONTROLLER}/24 dev mgmt\nlink set mgmt up\nlink set training up\n"
    )
    started = [_start_host(files, folder, number, nics) for number in range(hosts)]
    for number, (pid, _, go) in enumerate(started):
        _ip(
            f"link add m{number} master mgmt type veth peer name mgmt0 netns {pid}\nlink set m{number} up\n"
            + "".join(
                f"link add t{number}-{nic} master training type veth peer name eth{nic + 1} netns {pid}\n"
                f"link set t{number}-{nic} up\n"
                for nic in range(nics)
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


if __name__ == "__main__":
    _sandbox(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
