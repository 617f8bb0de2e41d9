"""Accept one connection at ADDRESS; print the bits per second received after the first 0.2 s, as JSON."""

import fcntl
import json
import socket
import sys
import termios
import time
from array import array

PORT = 5000
SETTLE_S = 0.2

with socket.create_server((sys.argv[1], PORT)) as server:
    connection, _ = server.accept()
with connection:
    buffer = bytearray(1 << 18)
    total, begun, start, end = 0, time.monotonic(), 0.0, 0.0
    while count := connection.recv_into(buffer):
        now = time.monotonic()
        if start:
            total, end = total + count, now
        elif now - begun > SETTLE_S or count == len(buffer):
            start = now
            fcntl.ioctl(connection, termios.FIONREAD, waiting := array("i", [0]))
            total = -waiting[0]  # has come before, and is read after: many, where this process had to wait
print(json.dumps(8 * total / (end - start)))
