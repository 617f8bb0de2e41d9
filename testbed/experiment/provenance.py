"""Machine and software that a run's numbers depend on besides its spec: kernel, CPU, settings, versions. No environment
variables."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from testbed.analysis.record.version import SCHEMA
from testbed.base.errors import SpecError
from testbed.base.processor import cpu_model
from testbed.base.python import PACKAGE
from testbed.lab.base import PREFERRED_CONTROLS
from testbed.machine.cgroups import limits
from testbed.machine.kernel import sysctl
from testbed.spec import Spec

SYSCTLS = (
    *("net.core.default_qdisc", "net.core.rmem_max", "net.core.wmem_max", "net.core.netdev_budget"),
    *("net.ipv4.tcp_congestion_control", "net.ipv4.tcp_available_congestion_control"),
    *("net.ipv4.tcp_allowed_congestion_control", "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"),
    *("net.ipv4.tcp_timestamps", "net.ipv4.tcp_sack", "net.ipv4.fib_multipath_hash_policy"),
    *("kernel.sched_autogroup_enabled", "vm.overcommit_memory"),
)
"""Read outside the lab, whose namespaces start from the kernel's defaults or these."""
PACKAGES = ("testbed", "topologies", "workloads", "analysis")
"""Packages that run."""


def describe(spec: Spec, congestion_control: str) -> dict[str, Any]:
    """The environment as env.json holds it, with no trial's lab yet."""
    here = limits()
    return {
        "schema": SCHEMA,
        "kernel": platform.release(),
        "machine": platform.machine(),
        "cpu": {"model": cpu_model(), "cores": here.cpus},
        "limits": here.as_json(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "sysctls": {name: value for name in SYSCTLS if (value := sysctl(name)) is not None},
        "congestion_control": congestion_control,
        "root": os.geteuid() == 0,
        "python": platform.python_version(),
        "packages": packages(),
        "git": git(PACKAGE.parent),
        "seed": spec.seed,
        "lab": {},
    }


PER_TRIAL, PARTS, RESUMED = "lab", "parts", "resumed"
"""Keys of an environment: what it has for each trial; of a merged run, what parts of it have each to themselves; and
the name of the part that ran after that."""


def together(parts: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Merge several environments, by the names of those who had them: what is the same in all, then what differs."""
    names = list(dict.fromkeys(key for one in parts.values() for key in one if key not in (PER_TRIAL, PARTS)))
    first = next(iter(parts.values()))
    same = {key for key in names if all(key in one and one[key] == first.get(key) for one in parts.values())}
    found: dict[str, Any] = {key: first[key] for key in names if key in same}
    if len(same) < len(names):
        found[PARTS] = {who: {key: one.get(key) for key in names if key not in same} for who, one in parts.items()}
    found[PER_TRIAL] = {trial: lab for one in parts.values() for trial, lab in one.get(PER_TRIAL, {}).items()}
    return found


def apart(environment: Mapping[str, Any], who: str) -> dict[str, dict[str, Any]]:
    """The environments that :func:`together` made one of; ``who`` names a single one."""
    same = {key: value for key, value in environment.items() if key != PARTS}
    parts = environment.get(PARTS)
    return {name: same | own for name, own in parts.items()} if parts else {who: same}


def gone_on(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """The environment of a run that goes on: a merged one keeps those of its parts beside that of ``now``."""
    labs = {PER_TRIAL: before.get(PER_TRIAL, {})}
    if PARTS not in before:
        return {**now, **labs}
    return together({**apart(before, RESUMED), RESUMED: now}) | labs


def congestion_control(spec: Spec) -> str:
    """The TCP congestion control that workers ask for.

    Raises:
        SpecError: the kernel does not have the one that the spec names.
    """
    available = (sysctl("net.ipv4.tcp_available_congestion_control") or "reno").split()
    wanted = spec.links.congestion_control
    if wanted is None:
        return next((name for name in PREFERRED_CONTROLS if name in available), available[0])
    if wanted not in available:
        raise SpecError(
            f"links.congestion_control: {wanted!r} is not in this kernel, which has {', '.join(available)}",
            fix=f"choose one of these, or as root: modprobe tcp_{wanted}",
        )
    return wanted


def packages() -> dict[str, str]:
    """Version of each Python package installed beside us."""
    each = [dist.metadata for dist in importlib.metadata.distributions()]  # asked once: it is parsed each time
    found = {metadata["Name"]: metadata["Version"] for metadata in each}
    return dict(sorted(found.items(), key=lambda item: item[0].lower()))


def git(folder: Path) -> dict[str, Any] | None:
    """Commit of the source tree in ``folder``, and whether what runs was changed since; None where git does not have it
    (a package that was installed into somebody else's tree)."""
    try:
        _git(folder, "ls-files", "--error-unmatch", "--", *PACKAGES)
        commit = _git(folder, "rev-parse", "HEAD")
        return {"commit": commit.strip(), "dirty": bool(_git(folder, "status", "--porcelain", "--", *PACKAGES).strip())}
    except (OSError, subprocess.SubprocessError):
        return None


def _git(folder: Path, *command: str) -> str:
    done = subprocess.run(["git", "-C", str(folder), *command], capture_output=True, text=True, check=True, timeout=10)
    return done.stdout
