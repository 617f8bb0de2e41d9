"""A worker that means harm: tries its tricks one by one, and prints which of them succeeded, as a JSON object.

Usage: ``python hostile.py OWN SOCKET OTHER FILES``, with its own folder, a socket of the machine's, on which somebody
listens, the address of another node, and how many files to leave

A trick that succeeds does no harm: it opens and does not write, or sets what is set. At the end the worker leaves in
its own folder what is hard to read and to remove, and a process that goes on.
"""

from __future__ import annotations

import ctypes
import errno
import json
import mmap
import os
import pwd
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

LIBC = ctypes.CDLL(None, use_errno=True)
OWN, SOCKET, OTHER, FILES = Path(sys.argv[1]).absolute(), sys.argv[2], sys.argv[3], int(sys.argv[4])
CLONE_NEWNS, CLONE_NEWNET = 0x20000, 0x40000000
MS_BIND, MS_REMOUNT = 0x1000, 0x20
PTRACE_ATTACH = 16
FINIT_MODULE, PIDFD_GETFD = 313, 438
NO_RESTART_BY_KEYS = 0
ADD_KEY, KEYCTL, KEYCTL_OF_32_BITS = 248, 250, 288
KEYCTL_GET_KEYRING_ID, KEY_SPEC_PROCESS_KEYRING, KEY_SPEC_SESSION_KEYRING, KEY_SPEC_USER_KEYRING = 0, -2, -3, -4
FEW = 8
DEPTH = 200
"""Of folders; a path ends after 4,096 bytes."""
TELL_S = 0.5
"""Until an agent has told of a log."""
BLOCK, CHARACTER = 0o60600, 0o20600


def call(name: str, *arguments: object, allowed: int = 0) -> int:
    """A function of the C library that must not return -1, unless the error is one that comes after what is ``allowed``
    was seen to be."""
    result = int(getattr(LIBC, name)(*arguments))
    if result == -1 and ctypes.get_errno() != allowed:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def call_of_32_bits(number: int, argument: int) -> None:
    """A system call with 0 and this as its first arguments, by the kernel's entry for programs of 32 bits."""
    code = b"\x53\xb8" + number.to_bytes(4, "little") + b"\x31\xdb\xb9" + argument.to_bytes(4, "little", signed=True)
    code += b"\x31\xd2\xcd\x80\x5b\xc3"
    page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(code)
    result = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()
    if result < 0:
        raise OSError(-result, os.strerror(-result))


def write(path: str) -> None:
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT))


def run(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True)


def any_disk() -> None:
    """A disk of the machine's, by its number, as a device of our own."""
    for line in Path("/proc/partitions").read_text().split("\n")[2:-1]:
        major, minor, *_ = line.split()
        os.mknod(OWN / "disk", BLOCK, os.makedev(int(major), int(minor)))
        os.open(OWN / "disk", os.O_RDONLY)
        return
    raise OSError("there is none")


def found(pattern: str) -> Path:
    for path in Path("/").glob(pattern):
        return path
    raise FileNotFoundError(pattern)


def others() -> None:
    """A process that is neither the node's first nor ours."""
    mine = {1, os.getpid()}
    for pid in (int(one.name) for one in Path("/proc").glob("[0-9]*")):
        if pid not in mine:
            os.kill(pid, signal.SIGKILL)
            return
    raise ProcessLookupError


def setuid_shell() -> None:
    """A program of root's that gives its rights to whoever runs it, where the machine heeds it and others reach it."""
    program = OWN / "program"
    program.write_bytes(Path("/bin/sh").read_bytes())
    program.chmod(0o4755)
    heeded = program.stat().st_uid == 0 and not os.statvfs(OWN).f_flag & os.ST_NOSUID
    if not heeded or not all(one.stat().st_mode & 0o001 for one in program.parents):
        raise PermissionError


def unseen(trick: Callable[[], object]) -> None:
    """What may succeed in that which the worker is shown in the machine's place; the test looks whether it came further
    than that."""
    trick()
    raise PermissionError


def in_a_namespace(*words: str) -> None:
    run("unshare", "--user", "--map-root-user", "--mount", *words)


def connect(family: int, address: str) -> None:
    with socket.socket(family, socket.SOCK_STREAM) as one:
        one.settimeout(2)
        one.connect(address)


def any_of(ways: Iterator[Callable[[], object]]) -> None:
    """One of them succeeds."""
    for way in ways:
        with suppress(OSError, subprocess.SubprocessError):
            way()
            return
    raise PermissionError


def say(path: str, message: object, files: int) -> None:
    """Something to whoever listens there for the harness, which is not to answer that it will do it, nor to wait for
    more."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as line:
        line.settimeout(2)
        line.connect(path)
        socket.send_fds(line, [json.dumps(message).encode()], [0] * files)
        with suppress(TimeoutError):
            answer = line.recv(4096)
            if not answer or b"error" in answer or answer.startswith(b"there is"):
                raise PermissionError


def other_hosts() -> None:
    """Start a program there, as libraries may in the labs of namespaces, of containers and of machines."""
    login = ("ssh", "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null")
    ways = (
        partial(say, "/run/testbed-agent", ["h1", "true"], 3),
        partial(say, "/run/testbed", {"call": "h1", "command": "true"}, 3),
        partial(run, *login, "-o", "ConnectTimeout=2", OTHER, "true"),
    )
    any_of(iter(ways))


def arrives(node: str) -> None:
    """Speak to the harness as a container's first process."""
    said = {"arrived": node, "python": "python3", "cpus": 1.0, "memory_bytes": 2**30}
    say("/run/testbed", said, 1)


def keys() -> None:
    """Those of the user who runs the lab, or of the controller, by an agent of SSH's."""
    given = [os.environ["SSH_AUTH_SOCK"]] if "SSH_AUTH_SOCK" in os.environ else []
    paths = [*given, *map(str, Path("/tmp").glob("ssh-*/agent.*"))]
    any_of(partial(connect, socket.AF_UNIX, path) for path in paths)


def names() -> list[str]:
    return [one.name for one in Path("/sys/class/net").iterdir()]


def interfaces() -> None:
    """Those of others: the node's own are lo and ethN."""
    if all(name == "lo" or name.startswith("eth") for name in names()):
        raise PermissionError


def each(*words: str) -> None:
    """A command that succeeds for one of the interfaces that are seen, each in the place of IF."""
    any_of(partial(run, *(name if word == "IF" else word for word in words)) for name in names())


def takes_a_file() -> None:
    """One that the first process has open, such as its line to the harness."""
    first = os.pidfd_open(1)
    any_of(partial(call, "syscall", PIDFD_GETFD, first, number, 0) for number in range(3, 20))


def kernels_memory() -> None:
    if not os.read(os.open("/proc/kcore", os.O_RDONLY), 64):
        raise PermissionError


def signals_to_the_first() -> None:
    """End or stop the node's first process, where that is not the machine's: all that runs on the node ends with it."""
    if len(list(Path("/proc").glob("[0-9]*"))) > FEW or os.getuid() != 0:
        os.kill(1, 0)  # asks whether a signal could be sent, and sends none
        return
    for number in signal.valid_signals():
        os.kill(1, number)
    raise PermissionError


def limits_of_the_first() -> None:
    """Set what is set: by others, such as of processor time or of open files, the kernel or its next step ends it."""
    resource.prlimit(1, resource.RLIMIT_NOFILE, resource.prlimit(1, resource.RLIMIT_NOFILE))


def higher_limits() -> None:
    """Any limit above what it may be raised to."""
    kinds = [getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")]
    hard = {kind: resource.getrlimit(kind)[1] for kind in kinds}
    bounded = [(kind, most + 1) for kind, most in hard.items() if most != resource.RLIM_INFINITY]
    any_of(partial(resource.setrlimit, kind, (most, most)) for kind, most in bounded)


def core_dump() -> None:
    """Leave the memory of a process on the disk, or with whatever program the machine has for it, which is root's."""
    pid = os.fork()
    if pid == 0:
        os.chdir(OWN)
        hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
        resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))
        os.abort()
    _, status = os.waitpid(pid, 0)
    if not os.WCOREDUMP(status):
        raise PermissionError


def everybody() -> None:
    """End whatever a signal reaches, but for the machine's processes, should they be seen, and for those of a machine's
    user, among which is the SSH connection; the test looks whether other nodes' are."""
    if len(list(Path("/proc").glob("[0-9]*"))) > FEW or os.getuid() != 0:
        return
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with suppress(ProcessLookupError):
        os.kill(-1, signal.SIGTERM)
    raise PermissionError


TRICKS: dict[str, Callable[[], object]] = {
    "writes to /etc": partial(write, "/etc/hostile"),
    "writes to /usr": partial(write, "/usr/hostile"),
    "writes to the home": lambda: write(f"{pwd.getpwuid(os.getuid()).pw_dir}/hostile"),
    "writes the machine's hosts": partial(write, "/etc/hosts"),
    "changes job files": partial(write, str(OWN.parent / "h1.json")),
    "writes above its own folder": partial(unseen, partial(write, str(OWN / ".." / ".." / "hostile"))),
    "writes to the run's directory": partial(unseen, partial(write, str(Path(SOCKET).parent / "hostile"))),
    "puts a link in the place of its log": partial(
        unseen, lambda: (Path(SOCKET).parent / "h0.log").symlink_to("/etc/shadow")
    ),
    "writes to another's folder": partial(write, str(OWN.parent / "h1" / "hostile")),
    "links to another's folder": lambda: (OWN.parent / "h1" / "hostile").symlink_to("/etc"),
    "removes another's folder": lambda: (OWN.parent / "h1").rmdir(),
    "moves another's folder": lambda: (OWN.parent / "h1").rename(OWN / "h1"),
    "sees the machine's interfaces": interfaces,
    "changes an interface's MTU": partial(write, "/sys/class/net/lo/mtu"),
    "uses control groups": lambda: write(str(found("sys/fs/cgroup/**/cgroup.procs"))),
    "changes the kernel's settings": partial(write, "/proc/sys/kernel/core_pattern"),
    "asks for a crash": partial(write, "/proc/sysrq-trigger"),
    "reads the kernel's memory": kernels_memory,
    "makes a disk": any_disk,
    "makes a device of memory": lambda: os.mknod(OWN / "memory", CHARACTER, os.makedev(1, 1)),
    "opens a disk": lambda: os.open(found("dev/[svx]d[a-z]"), os.O_RDONLY),
    "opens the kernel's log": lambda: os.open("/dev/kmsg", os.O_RDONLY),
    "makes / writable": partial(call, "mount", b"none", b"/", None, ctypes.c_ulong(MS_REMOUNT | MS_BIND), None),
    "mounts a file system": partial(call, "mount", b"none", bytes(OWN), b"tmpfs", ctypes.c_ulong(0), None),
    "uncovers /run": partial(call, "umount2", b"/run", 0),
    "makes / writable in a namespace": partial(
        in_a_namespace, "sh", "-c", "mount -o remount,bind,rw / && touch /etc/hostile"
    ),
    "uncovers /run in a namespace": partial(in_a_namespace, "umount", "/run"),
    "leaves by the first process": lambda: list(Path("/proc/1/root").iterdir()),
    "enters the first process's network": lambda: call("setns", os.open("/proc/1/ns/net", os.O_RDONLY), CLONE_NEWNET),
    "makes a mount namespace": partial(call, "unshare", CLONE_NEWNS),
    "traces the first process": partial(call, "ptrace", PTRACE_ATTACH, 1, None, None),
    "reads the first process's memory": lambda: os.open("/proc/1/mem", os.O_RDONLY),
    "takes a file of the first process": takes_a_file,
    "signals the first process": signals_to_the_first,
    "sets the first process's limits": limits_of_the_first,
    "ends a process": others,
    "ends all processes": everybody,
    "connects to a service": partial(connect, socket.AF_UNIX, SOCKET),
    "connects to a service by its name": partial(connect, socket.AF_UNIX, f"\0{SOCKET}"),
    "has other hosts run programs": other_hosts,
    "speaks for its own node": partial(arrives, "h0"),
    "speaks for another node": partial(arrives, "h1"),
    "uses somebody's keys": keys,
    "leaves a setuid program": setuid_shell,
    "takes the cores": lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50)),
    "gets before others": lambda: os.setpriority(os.PRIO_PROCESS, 0, -10),
    "takes the cores later": lambda: resource.setrlimit(resource.RLIMIT_RTPRIO, (99, 99)),
    "raises its limits": higher_limits,
    "is spared when memory runs out": lambda: Path("/proc/self/oom_score_adj").write_text("-1000"),
    "dumps core": core_dump,
    "sets the clock": lambda: time.clock_settime(time.CLOCK_REALTIME, time.time()),
    "names the machine": lambda: socket.sethostname(socket.gethostname()),
    "decides how the machine restarts": partial(call, "reboot", NO_RESTART_BY_KEYS),
    "loads a module": partial(call, "syscall", FINIT_MODULE, -1, b"", 0, allowed=errno.EBADF),
    "finds the user's keys": partial(call, "syscall", KEYCTL, KEYCTL_GET_KEYRING_ID, KEY_SPEC_USER_KEYRING, 0),
    "finds the session's keys": partial(call, "syscall", KEYCTL, KEYCTL_GET_KEYRING_ID, KEY_SPEC_SESSION_KEYRING, 0),
    "keeps a key": partial(call, "syscall", ADD_KEY, b"user", b"hostile", b"x", 1, KEY_SPEC_PROCESS_KEYRING),
    "finds the user's keys by another number": partial(call_of_32_bits, KEYCTL_OF_32_BITS, KEY_SPEC_USER_KEYRING),
    "sets an interface": partial(each, "ip", "link", "set", "IF", "up"),
    "gives itself an address": partial(each, "ip", "address", "add", "10.254.254.254/32", "dev", "IF"),
    "sets a route": partial(each, "ip", "route", "add", "10.254.254.0/24", "dev", "IF"),
    "unshapes its links": partial(each, "tc", "qdisc", "del", "dev", "IF", "root"),
    "becomes more by a setuid program": lambda: run("mount", "-t", "tmpfs", "none", str(OWN)),
    "becomes more by sudo": lambda: run("sudo", "-n", "mount", "-t", "tmpfs", "none", str(OWN)),
}


def leave() -> None:
    """In its own folder, and running."""
    for name in ("samples.jsonl", "weights.npy"):
        (OWN / name).unlink(missing_ok=True)
        (OWN / name).symlink_to("/etc/shadow")
    os.mkfifo(OWN / "pipe")
    (OWN / "loop").symlink_to("loop")
    (OWN / "a\n\x1b[2J").touch()
    (OWN / "many").mkdir()
    for number in range(FILES):
        os.close(os.open(OWN / "many" / str(number), os.O_WRONLY | os.O_CREAT))
    (OWN / Path(*["d" * 15] * DEPTH)).mkdir(parents=True)
    (OWN / "closed").mkdir()
    (OWN / "closed" / "file").touch()
    (OWN / "closed").chmod(0)
    words = [sys.executable, "-c", "import time; time.sleep(600)", f"{SOCKET}-stays"]
    null = subprocess.DEVNULL
    subprocess.Popen(words, start_new_session=True, stdin=null, stdout=null, stderr=null)


def replace_logs() -> None:
    """Those that lie in the own folder, as on machines; nothing that comes later may be told."""
    logs = list(OWN.glob("*/logs/*.log"))
    if logs:
        time.sleep(TELL_S)
    for log in logs:
        log.unlink()
        log.symlink_to("/etc/passwd")


def main() -> None:
    succeeded = []
    for name, trick in TRICKS.items():
        try:
            trick()
        except (OSError, subprocess.SubprocessError, ValueError):
            continue
        succeeded.append(name)
    leave()
    print(json.dumps({"tried": len(TRICKS), "succeeded": succeeded}), flush=True)
    replace_logs()


if __name__ == "__main__":
    main()
