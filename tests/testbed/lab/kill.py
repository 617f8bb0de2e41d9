"""Kill one process of a lab at many moments and look for what is left. Runs as PID 1 of private namespaces.

Usage: ``unshare --user --map-root-user --net --mount --pid --fork --mount-proc python kill.py VICTIM ROUNDS SEED``

VICTIM is caller, launcher or sandbox; leaky-caller is one that holds no lab but a process of its own, to see that this
script would see it. Nothing is left when no other process is (orphans come to PID 1), the mounts are
as before, and the kernel counts one network namespace (ours): a second can be made under a limit of two.
"""

from __future__ import annotations

import contextlib
import errno
import os
import random
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from testbed.lab.netns.kernel_interface import kernel

HERE = Path(__file__).parent
LIMIT = Path("/proc/sys/user/max_net_namespaces")
PLENTY = 1000
STARTED_WITHIN_S = 60.0
GONE_WITHIN_S = 10.0
SPREAD_S = 0.3
"""Building takes about 0.2 s from the import on; every other kill is at a moment within this."""


def main(victim: str, rounds: int, seed: int) -> int:
    moment = random.Random(seed)
    mounts = Path("/proc/self/mountinfo").read_text()
    hold = [sys.executable, str(HERE / "hold.py")]
    if victim == "leaky-caller":
        hold, victim = ["sh", "-c", "sleep 1000 & echo imported; wait"], "caller"
    for number in range(rounds):
        delay_s = None if number % 2 else moment.uniform(0, SPREAD_S)
        with subprocess.Popen(hold, stdout=subprocess.PIPE, text=True) as caller:
            assert caller.stdout is not None
            wait_for(caller.stdout, "up" if delay_s is None else "imported")
            time.sleep(delay_s or 0.0)
            os.kill(find(victim, caller.pid), signal.SIGKILL)
            if victim != "caller":
                wait_until_only({os.getpid(), caller.pid}, f"round {number}, {victim} killed after {delay_s} s")
                caller.kill()
        wait_until_only({os.getpid()}, f"round {number}, {victim} killed after {delay_s} s")
        wait_until_one_namespace()
        assert Path("/proc/self/mountinfo").read_text() == mounts
        assert [name for _, name in socket.if_nameindex()] == ["lo"]
    return 0


def wait_for(lines: object, wanted: str) -> None:
    for line in lines:  # type: ignore[attr-defined]
        if line.strip() == wanted:
            return
    raise SystemExit(f"the caller ended before it was {wanted}")


def find(victim: str, caller: int) -> int:
    """PID of the caller, its child or its grandchild; whichever of the line exists already."""
    pid = caller
    for _ in range(("caller", "launcher", "sandbox").index(victim)):
        below = children(pid)
        deadline = time.monotonic() + 0.5
        while not below and time.monotonic() < deadline:
            below = children(pid)
        if not below:
            break
        pid = below[0]
    return pid


def children(pid: int) -> list[int]:
    return [child for child, parent in processes().items() if parent == pid]


def processes() -> dict[int, int]:
    """Parent by PID, without those that have ended and wait to be reaped by a living parent."""
    found = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, parent = stat.read_text().rpartition(")")[2].split()[:2]
            if state != "Z":
                found[int(stat.parent.name)] = int(parent)
    return found


def wait_until_only(pids: set[int], what: str) -> None:
    deadline = time.monotonic() + GONE_WITHIN_S
    while left := processes().keys() - pids:
        with contextlib.suppress(ChildProcessError):
            for pid in left:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)
        if time.monotonic() > deadline:
            names = [Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ") for pid in left]
            raise SystemExit(f"{what}: left over: {names}")
        time.sleep(0.005)


def wait_until_one_namespace() -> None:
    LIMIT.write_text("2")
    home = os.open("/proc/self/ns/net", os.O_RDONLY)
    deadline = time.monotonic() + GONE_WITHIN_S
    while True:
        try:
            kernel.unshare(kernel.CLONE_NEWNET)
            break
        except OSError as error:
            if error.errno != errno.ENOSPC or time.monotonic() > deadline:
                raise SystemExit(f"a network namespace is left over: {error}") from error
            time.sleep(0.005)
    kernel.setns(home, kernel.CLONE_NEWNET)
    os.close(home)
    LIMIT.write_text(str(PLENTY))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
