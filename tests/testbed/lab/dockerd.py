"""A Docker daemon of the tests' own, which touches nothing of the machine's network, and ends with them.

Usage: ``python tests/testbed/lab/dockerd.py COMMAND...`` runs a command that has such a daemon
"""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from testbed.lab.netns.kernel_interface import kernel

START_TIMEOUT_S = 120.0
PATH = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])
OWN = ("--bridge=none", "--iptables=false", "--ip6tables=false", "--ip-forward=false", "--ip-masq=false")


class DaemonError(Exception):
    """A daemon does not start."""


def why_not() -> str | None:
    """Why no daemon can be had here."""
    if os.geteuid() != 0:
        return "a Docker daemon needs root"
    if shutil.which("dockerd", path=PATH) is None:
        return "needs dockerd: apt-get install docker.io"
    return None


@contextmanager
def daemon(folder: Path) -> Iterator[str]:
    """The address of a daemon in ``folder``, which is one for all who have it at the same time, in any process.

    Raises:
        DaemonError: it does not start; the end of what it says.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "users").open("a") as users:
        fcntl.flock(users, fcntl.LOCK_SH)
        with (folder / "starting").open("a") as starting:
            fcntl.flock(starting, fcntl.LOCK_EX)
            if not (folder / "ready").exists():
                _start(folder)
        yield f"unix://{folder}/docker.sock"


def _start(folder: Path) -> None:
    log = (folder / "log").open("w")
    keeper = subprocess.Popen(
        [sys.executable, __file__, "--keep", str(folder)],
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    end = time.monotonic() + START_TIMEOUT_S
    while not (folder / "ready").exists():
        if time.monotonic() > end or keeper.poll() is not None:
            keeper.kill()
            raise DaemonError(f"dockerd does not start: {(folder / 'log').read_text()[-500:]}")
        time.sleep(0.05)


def keep(folder: Path) -> None:
    """Run the daemon until nobody has it any more, however they ended: the kernel lets go of their locks.

    What it mounts is in a mount namespace of its own.
    """
    kernel.unshare(kernel.CLONE_NEWNS)
    kernel.mount("none", "/", "", kernel.MS_REC | kernel.MS_PRIVATE)
    places = [f"--data-root={folder}/data", f"--exec-root={folder}/exec", f"--pidfile={folder}/pid"]
    command = ["dockerd", *OWN, *places, f"--host=unix://{folder}/docker.sock", "--log-level=warn"]
    dockerd = subprocess.Popen(command, preexec_fn=kernel.die_with_parent, env={**os.environ, "PATH": PATH})
    while not _answers(f"{folder}/docker.sock"):
        if dockerd.poll() is not None:
            sys.exit("dockerd ended")
        time.sleep(0.05)
    (folder / "ready").touch()
    with (folder / "users").open("a") as users:
        fcntl.flock(users, fcntl.LOCK_EX)
        (folder / "ready").unlink()
        dockerd.terminate()
        dockerd.wait()
        for name in ("data", "exec"):
            shutil.rmtree(folder / name, ignore_errors=True)


def _answers(path: str) -> bool:
    """Whether a daemon listens there and is ready."""
    with socket.socket(socket.AF_UNIX) as connection, suppress(OSError):
        connection.connect(path)
        connection.sendall(b"GET /_ping HTTP/1.0\r\n\r\n")
        return b"200 OK" in connection.recv(4096)
    return False


def main(arguments: list[str]) -> int:
    if arguments[0] == "--keep":
        keep(Path(arguments[1]))
        return 0
    if reason := why_not():
        sys.exit(reason)
    folder = Path(tempfile.mkdtemp(prefix="dockerd-"))
    with daemon(folder) as address:
        status = subprocess.run(arguments, env={**os.environ, "DOCKER_HOST": address}, check=False).returncode
    with (folder / "users").open("a") as users:
        while (folder / "ready").exists():  # until the keeper has the lock, and while it has
            time.sleep(0.05)
        fcntl.flock(users, fcntl.LOCK_SH)
    shutil.rmtree(folder)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
