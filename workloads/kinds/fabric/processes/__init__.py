"""What runs on the nodes: workers, daemons, the server, the scheduler, and what they say to each other."""
