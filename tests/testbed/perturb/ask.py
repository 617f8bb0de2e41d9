"""A process of a trial that asks for other circuits: usage FILE ADDRESS REQUEST. Prints the TTLs of answers."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path


def ttl(address: str) -> str:
    done = subprocess.run(["ping", "-n", "-c", "1", "-W", "1", address], capture_output=True, text=True, check=False)
    return next((word for word in done.stdout.split() if word.startswith("ttl=")), "none")


file, address, request = sys.argv[1:]
before = now = ttl(address)
with Path(file).open("a") as samples:
    samples.write(request + "\n")
end = time.monotonic() + 10
while now in (before, "none") and time.monotonic() < end:
    now = ttl(address)
print(before, now, flush=True)
