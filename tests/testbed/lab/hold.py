"""Hold a lab with a few processes on its nodes until killed; say on standard output how far it is."""

import os
import sys
import time
from itertools import permutations

from testbed.lab.base import LinkSettings
from testbed.lab.netns import NetnsLab
from testbed.topologies.build import build

topology = build("bcube(n=2,k=2)", rate_bps=10**8)
print("imported", flush=True)
lab = NetnsLab()
lab.up(topology, LinkSettings(), permutations(topology.hosts, 2))
null = os.open(os.devnull, os.O_RDWR)
for node in topology.hosts:
    # One that leads its own session, and ignores what can be ignored, besides one that does not.
    lab.attach(
        node, ["sh", "-c", "trap '' TERM HUP; setsid sleep 1000 & sleep 1000"], (null, null, sys.stderr.fileno())
    )
print("up", flush=True)
time.sleep(1000)
