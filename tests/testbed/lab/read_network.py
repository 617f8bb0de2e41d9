"""Tell what pyroute2 finds in network namespaces that a process holds open, as a list in JSON. It shares no decoder
with ours.

python read_network.py PID NAME...
"""

from __future__ import annotations

import ctypes
import json
import socket
import sys
from pathlib import Path

from pyroute2 import IPRoute

MAIN_TABLE, STATIC = 254, 4


def interfaces(ip: IPRoute) -> dict[str, dict]:
    """By name: index, peer's index, mtu, MAC address, whether it is up, and its shaper in each part."""
    found = {}
    qdiscs = {(one["index"], one["parent"]): one for one in ip.get_qdiscs()}
    for link in ip.get_links():
        index, name = link["index"], link.get("ifname")
        if name == "lo":
            continue
        root, leaf = qdiscs[index, 0xFFFFFFFF], qdiscs[index, 0x10001]
        (only,) = ip.get_classes(index)
        found[name] = {
            "index": index,
            "peer": link.get("link"),
            "mtu": link.get("mtu"),
            "mac": link.get("address"),
            "state": link.get("operstate"),
            "root": root.get("kind"),
            "default": root.get_nested("TCA_OPTIONS", "TCA_HTB_INIT")["defcls"],
            "class": only["handle"],
            **{key: only.get_nested("TCA_OPTIONS", "TCA_HTB_PARMS")[key] for key in ("rate", "ceil", "buffer")},
            "leaf": leaf.get("kind"),
            "limit": int.from_bytes(bytes.fromhex(leaf.get("options").replace(":", "")), "little"),
        }
    return found


def routes(ip: IPRoute) -> dict[str, list]:
    """By destination address: [index of the interface, gateway] of each hop."""
    found = {}
    for route in ip.get_routes(family=socket.AF_INET, table=MAIN_TABLE):
        if route["proto"] == STATIC:
            assert route["dst_len"] == 32
            several = route.get("multipath")
            hops = [(one["oif"], one.get("gateway")) for one in several] if several else []
            found[route.get("dst")] = hops or [(route.get("oif"), route.get("gateway"))]
    return found


def everything() -> dict[str, object]:
    """What there is in the namespace that this is in."""
    with IPRoute() as ip:
        return {
            "interfaces": interfaces(ip),
            "addresses": [
                (one["index"], one.get("local"), one["prefixlen"]) for one in ip.get_addr(family=socket.AF_INET)
            ],
            "routes": routes(ip),
            "neighbours": [
                (one["ifindex"], one.get("dst"), one.get("lladdr")) for one in ip.get_neighbours(family=socket.AF_INET)
            ],
        }


def enter(path: Path) -> None:
    """Be in a namespace."""
    with path.open("rb") as file:
        if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), 0):
            raise OSError(ctypes.get_errno(), f"cannot enter {path}")


def held(pid: int) -> dict[str, Path]:
    """By name, such as ``net:[4026531833]``, the namespaces that a process holds open."""
    return {str(path.readlink()): path for path in Path(f"/proc/{pid}/fd").iterdir()}


pid, *names = sys.argv[1:]
theirs, ours = (Path(f"/proc/{one}/ns/user") for one in (pid, "self"))
if not theirs.samefile(ours):  # the lab's user is not root
    enter(theirs)
files, found = held(int(pid)), []
for name in names:
    enter(files[name])
    found.append(everything())
print(json.dumps(found))
