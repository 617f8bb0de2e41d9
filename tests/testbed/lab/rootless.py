"""Build a lab and print, as JSON, what works in it."""

import json
import os
from itertools import permutations

from testbed.lab.base import Impairment, LinkSettings
from testbed.lab.netns import NetnsLab
from testbed.topologies.build import build

topology = build("fat_tree(k=4)", rate_bps=10**8)
with NetnsLab(every_address=True) as lab:
    lab.up(topology, LinkSettings(), permutations(topology.hosts, 2))
    lab.impair({0: Impairment(0.02)})
    change = ["tc", "class", "change", "dev", "eth0", "classid", "1:1", "htb", "rate", "50mbit", "burst", "6k"]
    found = {
        "user": os.geteuid(),
        "ping": lab.execute(0, ["ping", "-q", "-c", "1", "-W", "2", "h15"], 10).status,
        "delayed": lab.execute(0, ["ping", "-U", "-c", "3", "h15"], 10).stdout,
        "impaired_by": lab.describe()["impaired_by"]["way"],
        "traffic_control": lab.execute(0, change, 10).status,
        "rates": [shape["rate_bps"] for shape in lab.describe()["shapes"]],
        "congestion_controls": lab.congestion_controls(),
    }
print(json.dumps(found))
