"""A program that ``orted`` starts in place of a rank: it gives its environment to the worker on this host, and ends
with it.

Usage: ``python -P -S handover.py TIMEOUT_S``

See ``openmpi.py``. Run by its path, and imports nothing of ours, so that it starts at once.
"""

import json
import os
import socket
import sys
import time

MEETING_PLACE = "\0testbed-rank-{rank}"
"""Name of an abstract unix socket: each network namespace, and so each host, has names of its own (unix(7))."""
_RETRY_S = 0.05


def main(timeout_s: float) -> int:
    """Return 0 when the worker has ended; the lab looks at the worker's status itself."""
    place = MEETING_PLACE.format(rank=os.environ["OMPI_COMM_WORLD_RANK"])
    deadline = time.monotonic() + timeout_s
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as worker:
        while worker.connect_ex(place):
            if time.monotonic() > deadline:
                print(f"no worker listens for rank {os.environ['OMPI_COMM_WORLD_RANK']}", file=sys.stderr)
                return 1
            time.sleep(_RETRY_S)
        worker.sendall(json.dumps(dict(os.environ)).encode() + b"\n")
        worker.recv(1)
    return 0


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1])))
