"""One trial as data: its network, its jobs, its identity and what it depends on."""
