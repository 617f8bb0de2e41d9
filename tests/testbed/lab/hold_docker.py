"""Hold a lab of containers until killed; say on standard output how far it is."""

import os
import time
from itertools import permutations

from testbed.lab.base import LinkSettings
from testbed.lab.docker.lab import DockerLab
from testbed.topologies.build import build

topology = build("star(hosts=3)", rate_bps=10**8)
lab = DockerLab()
print("starts", flush=True)
lab.up(topology, LinkSettings(), permutations(topology.hosts, 2))
null = os.open(os.devnull, os.O_RDWR)
for node in topology.hosts:
    lab.attach(node, ["sh", "-c", "trap '' TERM HUP; setsid sleep 1000 & sleep 1000"], (null, null, null))
print("up", flush=True)
time.sleep(1000)
