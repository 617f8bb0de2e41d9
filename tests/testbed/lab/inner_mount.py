"""What a container can do to a mount of its own below a folder that it is to read.

Usage: ``python inner_mount.py FOLDER``, in a mount namespace of its own, which Docker's daemon is in as well
"""

from __future__ import annotations

import sys
from itertools import permutations
from pathlib import Path

from testbed.lab.base import LinkSettings
from testbed.lab.docker.lab import DockerLab
from testbed.lab.netns.kernel_interface import kernel
from testbed.lab.netns.on_nodes import mounts
from testbed.topologies.build import build

folder = Path(sys.argv[1])
inner = folder / "spec" / "inner"
inner.mkdir(parents=True)
mounts.tmpfs(str(inner), 0o777)
(inner / "file").write_text("to be read")
(folder / "link").symlink_to("spec")
try:
    with DockerLab() as lab:
        lab.share(folder / "work", [folder / "spec", folder / "link"])
        topology = build("star(hosts=2)", rate_bps=10**8)
        lab.up(topology, LinkSettings(), permutations(topology.hosts, 2))
        for name in ("spec", "link"):
            there = folder / name / "inner"
            assert lab.execute(0, ["cat", str(there / "file")], 10).stdout == "to be read"
            print(lab.execute(0, ["touch", str(there / "other")], 10).stderr.rpartition(": ")[2].strip())
    print(sorted(path.name for path in inner.iterdir()))
finally:
    kernel.unmount(str(inner))
