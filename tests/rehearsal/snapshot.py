"""Everything about a rehearsed host that a lab could change, and how two looks at it differ."""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

Snapshot = dict[str, Any]
NOT_OURS = ("var/log/",)
"""Files that sshd itself writes."""
SESSION = re.compile(r'"sshd(-session)?: \w+(@| \[priv\])')
"""Process of an SSH session, as OpenSSH names it: a client keeps its connection for a minute (ControlPersist)."""
LOOKS = {
    "interfaces": ["ip", "-json", "address"],
    "routes": ["ip", "-json", "route", "show", "table", "all"],
    "neighbours": ["ip", "-json", "neigh", "show", "nud", "permanent"],
    "qdiscs": ["tc", "qdisc"],
    "sysctls": ["sh", "-c", "grep -rs . /proc/sys/net/ipv4/conf /proc/sys/net/ipv4/tcp_* /proc/sys/net/core"],
    "processes": ["ps", "-e", "-o", "args="],
    "files": ["find", "/run", "/tmp", "/dev/shm", "-xdev"],  # the machine's own may be mounted in them
}
"""Commands whose output is compared, called on the host."""


def taken(said: Mapping[str, str], files: dict[str, str]) -> Snapshot:
    """Make a snapshot from what the commands said, and the host's own files (:func:`written`)."""
    network = {name: _steady(json.loads(said[name] or "[]")) for name in ("interfaces", "routes", "neighbours")}
    return {
        **network,
        "qdiscs": sorted(said["qdiscs"].splitlines()),
        "sysctls": sorted(said["sysctls"].splitlines()),
        "processes": sorted(line for line in said["processes"].splitlines() if not line.startswith("ps ")),
        "files in memory": sorted(said["files"].splitlines()),
        "files": files,
    }


def _steady(found: Any) -> Any:
    """Leave out what changes by itself."""
    if isinstance(found, list):
        return [_steady(one) for one in found]
    if isinstance(found, dict):
        return {
            key: _steady(one) for key, one in found.items() if key not in ("valid_life_time", "preferred_life_time")
        }
    return found


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Lines, for a reader, that say what differs between two snapshots. A session of SSH may have ended."""
    found = []
    for name, was in before.items():
        now = after[name]
        if was != now:
            old, new = (
                {json.dumps(one) for one in (value.items() if isinstance(value, dict) else value)}
                for value in (was, now)
            )
            gone = [one for one in sorted(old - new) if not (name == "processes" and SESSION.match(one))]
            found += [f"{name}: gone: {one}" for one in gone] + [f"{name}: new: {one}" for one in sorted(new - old)]
    return found


def written(files: str) -> None:
    """Print every file that differs from the machine's, by path: what it is, and a digest of its content."""
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
