"""What the kernel is asked for and told: system calls, netlink, shapers, queues and settings."""
