"""Several real SSH hosts on this machine: sshd in namespaces, each with its own network, processes, clock and files.

All of it is inside one sandbox of namespaces that dies with whoever made it, so that nothing is left over, and nothing
of the machine can be touched:

- a bridge for management, at whose end the controller is (``192.168.77.254``), and one for training, which all training
  NICs are in, or one a rack, joined over another. These learn and flood as real switches do, and are as fast as the
  machine;
- a host's files are the machine's, read-only below an overlay that only the host writes to, in memory. So every file
  that is written, changed or removed on it is seen;
- a host's ``time.monotonic`` is an hour off its neighbours', as real machines' clocks are anything off.

Needs root, sshd, ``ip`` and ``unshare``, and a kernel with overlayfs and time namespaces.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any

from testbed.base.errors import LabError, MissingToolError, PrivilegeError
from testbed.base.python import code_command, module_command
from tests.rehearsal.rehearsed import (
    ASKED,
    CLOCK_STEP_S,
    LAYOUT,
    NETWORK,
    PASSWORD,
    SSHD,
    SUDOER,
    USER,
    Layout,
)
from tests.rehearsal.snapshot import LOOKS, Snapshot, differences, taken

__all__ = ["ASKED", "CLOCK_STEP_S", "NETWORK", "PASSWORD", "SUDOER", "USER", "Rehearsal", "require"]

SETTLE_S = 3.0
PATH = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
"""The environment of processes that import these modules: the root of the clone is on no path by itself."""


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
        racks: in how many racks they are (``r0``, ...), neighbours together; 1 says nothing of racks.

    Raises:
        PrivilegeError, MissingToolError: this machine cannot have such hosts.
        LabError: they did not start.
    """

    def __init__(self, folder: Path, hosts: int, nics: int = 1, racks: int = 1) -> None:
        require()
        self._layout = Layout(hosts, nics, racks)
        self.folder, self.names = folder, [f"node{i + 1}" for i in range(hosts)]
        self._nics = [f"eth{i + 1}" for i in range(nics)]
        _make_keys(folder)
        self.inventory = folder / "inventory.yml"
        self.write_inventory()
        (folder / LAYOUT).write_text(json.dumps(asdict(self._layout)))
        inside = module_command("tests.rehearsal.rehearsed", str(folder))
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
            env=PATH,
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
        hosts: dict[str, dict[str, Any]] = {
            name: {"ansible_host": f"{NETWORK}.{i + 1}", "nics": nics} for i, name in enumerate(self.names)
        }
        for i, name in enumerate(self.names if self._layout.racks > 1 else ()):
            hosts[name]["rack"] = f"r{self._layout.rack(i)}"
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
        """Words of a command as it is called where the controller is: on this machine's files, in the sandbox's
        network, and in the directory in which this process is."""
        spaces = ("--net", "--pid", "--mount", "--ipc", "--uts")
        return ["nsenter", f"--target={self._sandbox_pid}", *spaces, "env", f"--chdir={Path.cwd()}", *words]

    def on(self, host: int, words: Sequence[str]) -> list[str]:
        """Words of a command as it is called on a host, without SSH."""
        inner = ["nsenter", f"--target={self._pids[host]}", "--all", "--root", "--", *words]
        return self.command(inner)

    def run(self, words: Sequence[str], **options: Any) -> subprocess.CompletedProcess[str]:
        """Run :meth:`command` to its end."""
        return subprocess.run(self.command(words), text=True, capture_output=True, **options)

    def widen(self, mtu: int) -> None:
        """Give the hosts addresses on their first training NICs, and these an MTU with room for what tunnels add."""
        for number in range(len(self.names)):
            for words in (
                ["ip", "address", "replace", f"10.44.0.{number + 1}/24", "dev", "eth1"],
                ["ip", "link", "set", "eth1", "mtu", str(mtu)],
            ):
                subprocess.run(self.on(number, words), check=True)
            self.run(["ip", "link", "set", f"t{number}-0", "mtu", str(mtu)], check=True)

    def testbed(self, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
        """Run the command line where the controller is."""
        return self.run(module_command("testbed", *arguments), **options)

    def snapshot(self, host: int) -> Snapshot:
        """Take a snapshot of everything about a host that a lab could change: network, settings, files, processes."""
        said = {
            name: subprocess.run(self.on(host, words), text=True, capture_output=True, check=True).stdout
            for name, words in LOOKS.items()
        }
        return taken(said, self._written(host))

    def differs(
        self, host: int, before: Snapshot, but_for: Sequence[str] = (), settle_s: float = SETTLE_S
    ) -> list[str]:
        """Lines, for a reader, that say what differs from an earlier snapshot, without those that have certain words;
        a process that is just ending has ``settle_s`` to do so."""

        def look() -> list[str]:
            found = differences(before, self.snapshot(host))
            return [line for line in found if not any(word in line for word in but_for)]

        end = time.monotonic() + settle_s
        while found := look():
            if time.monotonic() > end:
                break
            time.sleep(0.2)
        return found

    def _written(self, host: int) -> dict[str, str]:
        """List every file of a host that differs from the machine's, by path: what it is, and a digest of its
        content."""
        files = str(self.folder / "files" / self.names[host])
        code = f"from tests.rehearsal.snapshot import written; written({files!r})"
        found: dict[str, str] = json.loads(self.run(code_command(code), check=True, env=PATH).stdout)
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
"""Script that carries an SSH connection into the sandbox's network."""


def _make_keys(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("key", "host_key"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True)
    public = (folder / "host_key.pub").read_text().rsplit(" ", 1)[0]
    (folder / "known_hosts").write_text(f"{NETWORK}.* {public}\n")
