#!/usr/bin/python
"""Ansible module: look at a host, and refuse one that cannot be used. Changes nothing; needs nothing of ours there."""

from __future__ import annotations

import array
import fcntl
import ipaddress
import os
import platform
import re
import shutil
import socket
import stat
import struct
import subprocess
import sys
import time
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = """
module: testbed_host
short_description: Look whether a host can be used
description: [Facts that the controller needs, or a failure that says what is wrong and what mends it.]
options:
  home: {description: Where everything of ours is., type: path, required: true}
  digest: {description: The code that must be there., type: str}
  nics: {description: NICs that must be there., type: list, elements: str, default: []}
  needs_bytes: {description: Room that must be left., type: int, default: 0}
  wall_clock_s: {description: The controller's clock., type: float}
  complete: {description: Whether the packages that workers import must be there., type: bool, default: false}
author: [testbed]
"""
EXAMPLES = """
- testbed_host: {home: /var/lib/testbed, nics: [eth1]}
"""
LEAST_PYTHON = (3, 11)
MOST_OFF_S = 30.0
"""Of wall clocks: certificates and packages' signatures are refused beyond; samples do not use these clocks."""
PACKAGES = ("numpy", "torch", "sklearn")
"""What workers import, beside our code."""
PACKAGES_FROM = "site-packages/testbed.pth"
"""Says where they are, if not in the virtual environment; below its lib/pythonX.Y."""
MARK = ".testbed"
"""In a directory of ours, from the first file on."""
SYS = Path("/sys/class/net")
SIOCGIFCONF = 0x8912


def main():
    options = {
        "home": {"type": "path", "required": True},
        "digest": {"type": "str"},
        "nics": {"type": "list", "elements": "str", "default": []},
        "needs_bytes": {"type": "int", "default": 0},
        "wall_clock_s": {"type": "float"},
        "complete": {"type": "bool", "default": False},
    }
    module = AnsibleModule(argument_spec=options, supports_check_mode=True)
    asked = module.params
    refuse_python(module)
    refuse_others_home(module, asked["home"])
    refuse_disk(module, asked["home"], asked["needs_bytes"])
    refuse_clock(module, asked["wall_clock_s"])
    refuse_unprepared(module, asked["home"], asked["digest"])
    refuse_nics(module, asked["nics"])
    found = facts(asked["home"], asked["nics"])
    if asked["complete"] and found["missing"]:
        module.fail_json(
            msg=f"its Python finds no {', '.join(found['missing'])}",
            fix="correct testbed_packages_from in the inventory, or leave it out: then pip installs them",
        )
    module.exit_json(changed=False, **found)


def refuse_python(module):
    if sys.version_info < LEAST_PYTHON:
        module.fail_json(
            msg=f"its Python is {platform.python_version()} ({sys.executable}); testbed needs 3.11 or newer",
            fix="install a newer one there, and name it as ansible_python_interpreter",
        )


def refuse_others_home(module, home):
    """What is there and not ours would be taken for ours once our mark is beside it, and removed by reset."""
    path = Path(home)
    if path.exists() and not (path.is_dir() and ((path / MARK).exists() or not any(path.iterdir()))):
        module.fail_json(
            msg=f"{home} is there already, and testbed did not make it",
            fix="set testbed_home to a directory that does not exist yet",
        )
    for one in [path, *path.parents]:
        problem = others_may_change(one)
        if problem:
            module.fail_json(
                msg=f"{one} {problem}, who could put programs into {home} that root would run",
                fix="set testbed_home to a directory below ones that only root may change",
            )


def others_may_change(path):
    """Why another user could put something in the place of what is in a directory, or None."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    if found.st_uid not in (0, os.getuid()):
        return f"belongs to the user {found.st_uid}"
    everybody = found.st_mode & stat.S_IWOTH and not found.st_mode & stat.S_ISVTX
    return "can be written to by every user" if everybody else None


def refuse_disk(module, home, needs_bytes):
    free = shutil.disk_usage(existing(home)).free
    if free < needs_bytes:
        module.fail_json(
            msg=f"its disk is full: {existing(home)} has {free / 1e6:.0f} MB left of {needs_bytes / 1e6:.0f} MB needed",
            fix="free some space there, or set testbed_home to another place",
        )


def refuse_clock(module, wall_clock_s):
    off_s = 0.0 if wall_clock_s is None else time.time() - wall_clock_s
    if abs(off_s) > MOST_OFF_S:
        module.fail_json(
            msg=f"its clock is {off_s:+.0f} s off the controller's", fix="set both by NTP, such as with chrony"
        )


def refuse_unprepared(module, home, digest):
    if digest and digest not in code(home):
        other = Path(home, MARK).exists()
        module.fail_json(
            msg=f"it is prepared with other code than the controller's ({digest})" if other else "it is not prepared",
            fix="testbed hosts prepare --inventory FILE",
        )


def refuse_nics(module, names):
    ssh = ssh_address()
    carriers = carry_ssh(ssh)
    if names and carriers is None:
        module.fail_json(
            msg=f"none of its NICs has the address of the SSH connection, {ssh}, so that it may be any of them",
            fix="reach the host at an address of its own, and name the training NICs in the inventory",
        )
    for name in names:
        if not (SYS / name).exists():
            module.fail_json(
                msg=f"there is no NIC {name}",
                fix=f"correct its nics in the inventory; it has {', '.join(sorted(one.name for one in SYS.iterdir()))}",
            )
        if name in carriers:
            module.fail_json(
                msg=f"{name} carries the SSH connection, and is not to be shaped",
                fix="name the training NICs in the inventory, and leave the management NIC alone",
            )


def ssh_address():
    """Our address of the SSH connection: sudo drops the variable that says so, but the processes above have it."""
    pid = os.getpid()
    while pid > 1:
        for variable in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
            words = variable.removeprefix(b"SSH_CONNECTION=").split()
            if variable.startswith(b"SSH_CONNECTION=") and len(words) == 4:
                return words[2].decode(errors="replace").partition("%")[0]
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return None


def carry_ssh(ssh):
    """NICs that an SSH connection to this address uses, those below a bridge or a VLAN included; None if unknown."""
    if ssh is None:
        return set()
    try:
        asked = ipaddress.ip_address(ssh)
    except ValueError:  # the session's environment is the user's
        return None
    found = [name for name, one in addresses() if one == asked]
    return {lower for name in found for lower in [name, *below(name)]} or None


def addresses():
    """Interfaces and their addresses: IPv4 (netdevice(7)), then IPv6 (proc(5))."""
    room = array.array("B", bytes(64 * 1024))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        asked = struct.pack("iP", len(room), room.buffer_info()[0])
        (length, _) = struct.unpack("iP", fcntl.ioctl(sock, SIOCGIFCONF, asked))
    for start in range(0, length, 40):
        name = room[start : start + 16].tobytes().partition(b"\0")[0].decode().partition(":")[0]
        yield name, ipaddress.ip_address(room[start + 20 : start + 24].tobytes())
    for line in (read(Path("/proc/net/if_inet6")) or "").splitlines():
        address, *_, name = line.split()
        yield name, ipaddress.ip_address(bytes.fromhex(address))


def below(name):
    """What an interface's packets go through below it."""
    for path in (SYS / name).glob("lower_*"):
        lower = path.name.removeprefix("lower_")
        yield lower
        yield from below(lower)


def facts(home, names):
    return {
        "python": sys.executable,
        "python_version": f"{sys.version_info[0]}.{sys.version_info[1]}",
        "has_venv": importable("ensurepip"),
        "cuda_torch": cuda_torch(),
        "prepared": Path(home, "venv/bin/python").exists(),
        "code": code(home),
        "packages_from": read(Path(home, f"venv/lib/python{sys.version_info[0]}.{sys.version_info[1]}", PACKAGES_FROM)),
        "missing": missing(home),
        "kernel": platform.release(),
        "cores": len(os.sched_getaffinity(0)),
        "nics": {name: nic(name) for name in names},
    }


def code(home):
    """Digests of the code that is there."""
    workers = Path(home).glob("code-*/testbed/workloads/worker.py")
    return [path.parents[2].name.removeprefix("code-") for path in workers]


def missing(home):
    """Packages that the virtual environment does not find; it does not import them."""
    python = Path(home, "venv/bin/python")
    if not python.exists():
        return list(PACKAGES)
    find = f"from importlib.util import find_spec; print(*(n for n in {PACKAGES} if not find_spec(n)))"
    done = subprocess.run([str(python), "-c", find], capture_output=True, text=True)
    return list(PACKAGES) if done.returncode else done.stdout.split()


def nic(name):
    return {
        "mac": read(SYS / name / "address"),
        "mtu": read(SYS / name / "mtu"),
        "speed": read(SYS / name / "speed"),
    }


def read(path):
    try:
        return path.read_text().strip()
    except OSError:  # a NIC without a cable has no speed
        return None


def importable(name):
    import importlib.util

    return importlib.util.find_spec(name) is not None


def cuda_torch():
    """The version of CUDA that this Python's PyTorch is built for, if it has one; PyTorch itself is not imported."""
    import importlib.util

    spec = importlib.util.find_spec("torch")
    if spec is None or not spec.origin:
        return None
    said = re.search(r"^cuda\b[^=]*= *'([\d.]+)'", read(Path(spec.origin).with_name("version.py")) or "", re.MULTILINE)
    return said and said[1]


def existing(path):
    """The path, or the first directory above it that is there."""
    found = Path(path)
    while not found.exists():
        found = found.parent
    return found


if __name__ == "__main__":
    main()
