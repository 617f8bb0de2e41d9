"""Send to ADDRESS for SECONDS as fast as TCP goes."""

import socket
import sys
import time

PORT = 5000
PATIENCE_S = 60.0

deadline = time.monotonic() + PATIENCE_S
while True:
    try:
        connection = socket.create_connection((sys.argv[1], PORT))
        break
    except ConnectionRefusedError:
        if time.monotonic() > deadline:
            raise
        time.sleep(0.01)
with connection:
    block = bytes(1 << 16)
    end = time.monotonic() + float(sys.argv[2])
    while time.monotonic() < end:
        connection.sendall(block)
