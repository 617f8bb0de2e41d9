"""Processes on the nodes: workers, daemons, the server, the scheduler, and the messages between them."""
