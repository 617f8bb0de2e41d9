"""One trial as data: its network, its jobs, its identity, what it depends on, and the files of its processes."""
