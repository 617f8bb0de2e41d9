#!/usr/bin/python
"""Ansible module: look at a host, and refuse one that cannot be used. Changes nothing; needs nothing of ours there."""

from __future__ import annotations

import os
import platform
import shutil
import sys
import time

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
author: [testbed]
"""
EXAMPLES = """
- testbed_host: {home: /var/lib/testbed, nics: [eth1]}
"""
LEAST_PYTHON = (3, 11)
MOST_OFF_S = 30.0
"""Of wall clocks: certificates and packages' signatures are refused beyond; samples do not use these clocks."""
SYS = "/sys/class/net"


def main():
    options = {
        "home": {"type": "path", "required": True},
        "digest": {"type": "str"},
        "nics": {"type": "list", "elements": "str", "default": []},
        "needs_bytes": {"type": "int", "default": 0},
        "wall_clock_s": {"type": "float"},
    }
    module = AnsibleModule(argument_spec=options, supports_check_mode=True)
    asked = module.params
    refuse_python(module)
    refuse_disk(module, asked["home"], asked["needs_bytes"])
    refuse_clock(module, asked["wall_clock_s"])
    refuse_unprepared(module, asked["home"], asked["digest"])
    refuse_nics(module, asked["nics"])
    module.exit_json(changed=False, **facts(asked["home"], asked["nics"]))


def refuse_python(module):
    if sys.version_info < LEAST_PYTHON:
        module.fail_json(
            msg=f"its Python is {platform.python_version()} ({sys.executable}); testbed needs 3.11 or newer",
            fix="install a newer one there, and name it as ansible_python_interpreter",
        )


def refuse_disk(module, home, needs_bytes):
    free = shutil.disk_usage(existing(home)).free
    if free < needs_bytes:
        module.fail_json(
            msg=f"its disk is full: {existing(home)} has {free / 1e6:.0f} MB left, {needs_bytes / 1e6:.0f} MB are needed",
            fix="free some space there, or set testbed_home to another place",
        )


def refuse_clock(module, wall_clock_s):
    off_s = 0.0 if wall_clock_s is None else time.time() - wall_clock_s
    if abs(off_s) > MOST_OFF_S:
        module.fail_json(
            msg=f"its clock is {off_s:+.0f} s off the controller's", fix="set both by NTP, such as with chrony"
        )


def refuse_unprepared(module, home, digest):
    if digest and not os.path.exists(f"{home}/code-{digest}/workloads/worker.py"):
        other = os.path.exists(f"{home}/.testbed")
        module.fail_json(
            msg=f"it is prepared with other code than the controller's ({digest})" if other else "it is not prepared",
            fix="testbed hosts prepare --inventory FILE",
        )


def refuse_nics(module, names):
    for name in names:
        if not os.path.exists(f"{SYS}/{name}"):
            module.fail_json(
                msg=f"there is no NIC {name}",
                fix=f"correct its nics in the inventory; it has {', '.join(sorted(os.listdir(SYS)))}",
            )


def facts(home, names):
    return {
        "python": sys.executable,
        "python_version": f"{sys.version_info[0]}.{sys.version_info[1]}",
        "has_venv": importable("ensurepip"),
        "prepared": os.path.exists(f"{home}/venv/bin/python"),
        "kernel": platform.release(),
        "cores": len(os.sched_getaffinity(0)),
        "nics": {name: nic(name) for name in names},
    }


def nic(name):
    return {
        "mac": read(f"{SYS}/{name}/address"),
        "mtu": read(f"{SYS}/{name}/mtu"),
        "speed": read(f"{SYS}/{name}/speed"),
    }


def read(path):
    try:
        with open(path) as file:
            return file.read().strip()
    except OSError:  # a NIC without a cable has no speed
        return None


def importable(name):
    import importlib.util

    return importlib.util.find_spec(name) is not None


def existing(path):
    while not os.path.exists(path):
        path = os.path.dirname(path)
    return path


if __name__ == "__main__":
    main()
